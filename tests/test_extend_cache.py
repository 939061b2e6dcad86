"""What the cache of tk.load takes for the same kernel: every header counts however the compiler was
told of it, and what a killed build or a removed cache leaves does no harm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from extend_tools import counting_compiler

import tk
from tk.extension import CompileError, MissingToolError, build, compiler
from tk.extension.sources import exported_names

Build = Callable[..., Path]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """A function that builds small sources in an empty cache, by a slow compiler."""
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    try:
        monkeypatch.setenv("CXX", str(counting_compiler(tmp_path)[0]))
        compiler.compiler_for("host")
    except MissingToolError as error:
        pytest.skip(str(error))

    def run(source: Path, *flags: str, name: str = "small", folder: Path | None = None) -> Path:
        return build.build(name, [source], "host", flags, verbose=False, folder=folder)

    return run


def wait_for_build(cache: Path) -> None:
    """Until a build of `small` is under way."""
    end = time.monotonic() + 60
    while not list(cache.glob(".small-*")):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("flags", "include"),
    [
        (("-isystem", "far"), "#include <one.h>"),
        (("-isystemfar",), "#include <one.h>"),
        (("-iquote", "far"), '#include "one.h"'),
        (("-idirafter", "far"), "#include <one.h>"),
        (("-include", "far/one.h"), ""),
        (("-Ifar", "-include", "one.h"), ""),
        (("-imacros", "far/one.h"), "constexpr int two = ONE;"),
        (("-Inone", "-Ifar"), '#include/* odd */"one.h"'),
        (("-Inear", "-Ifar"), "#include_next <one.h>"),
    ],
)
def test_a_header_counts_however_it_is_named(
    run: Build, tmp_path: Path, flags: tuple[str, ...], include: str
) -> None:
    (tmp_path / "far").mkdir()
    header = tmp_path / "far" / "one.h"
    header.write_text("#define ONE 1\nconstexpr int one = 1;\n")
    source = tmp_path / "small.hpp"
    source.write_text(f"{include}\nint a() {{ return ONE; }}\n")
    first = run(source, *flags)
    assert run(source, *flags) == first
    header.write_text(header.read_text().replace("1;", "2;"))
    assert run(source, *flags) != first


@pytest.mark.parametrize("variable", ["CPATH", "CPLUS_INCLUDE_PATH"])
def test_a_header_found_by_the_environment_counts(
    run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "one.h").write_text("constexpr int one = 1;\n")
    monkeypatch.setenv(variable, f"/none{os.pathsep}{tmp_path / 'far'}")
    source = tmp_path / "small.hpp"
    source.write_text("#include <one.h>\nint a() { return one; }\n")
    first = run(source)
    (tmp_path / "far" / "one.h").write_text("constexpr int one = 2;\n")
    assert run(source) != first


def test_a_header_beside_a_link_counts(run: Build, tmp_path: Path) -> None:
    """A compiler looks beside the link, not beside the file that it leads to."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").mkdir()
    (tmp_path / "real" / "small.hpp").write_text('#include "one.h"\nint a() { return one; }\n')
    (tmp_path / "link" / "small.hpp").symlink_to(tmp_path / "real" / "small.hpp")
    (tmp_path / "link" / "one.h").write_text("constexpr int one = 1;\n")
    first = run(tmp_path / "link" / "small.hpp")
    (tmp_path / "link" / "one.h").write_text("constexpr int one = 2;\n")
    assert run(tmp_path / "link" / "small.hpp") != first


def test_headers_that_include_each_other_end(run: Build, tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / one).mkdir()
        text = f'#pragma once\n#include "../{other}/{other}.h"\n'
        (tmp_path / one / f"{one}.h").write_text(text)
    (tmp_path / "small.hpp").write_text('#include "a/a.h"\nint a() { return 0; }\n')
    assert (run(tmp_path / "small.hpp") / build.LIBRARY).is_file()


def test_flags_are_relative_to_where_load_was_called(
    run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "one.h").write_text("int wrong() { return nothing; }\n")
    (tmp_path / "small.hpp").write_text("#include <one.h>\nint a() { return 0; }\n")
    kernels = tk.load("small.hpp", flags=("-Ifar",))
    monkeypatch.chdir("/")
    with pytest.raises(CompileError, match=rf"{tmp_path}/far/one\.h:1: .*nothing"):
        kernels.build_log("host")
    (tmp_path / "far" / "one.h").write_text("constexpr int one = 1;\n")
    assert run(tmp_path / "small.hpp", "-Ifar", folder=tmp_path)


def test_logs_and_locks_of_names_with_dots_are_apart(run: Build, tmp_path: Path) -> None:
    logs = set()
    for number in (1, 2):
        source = tmp_path / "soft.max.hpp"
        source.write_text(f"int a() {{ return nothing{number}; }}\n")
        with pytest.raises(CompileError) as caught:
            run(source, name="soft.max")
        logs.add(caught.value.log)
        assert f"nothing{number}" in caught.value.log.read_text()
    assert len(logs) == 2 and all(log.name.startswith("soft.max-host-") for log in logs)
    assert all("nothing" in log.read_text() for log in logs)


@pytest.mark.parametrize("name", ["n" * 250, "é" * 120])
def test_a_long_name_fits_a_file_s(run: Build, tmp_path: Path, name: str) -> None:
    (tmp_path / "small.hpp").write_text("int a() { return 0; }\n")
    assert (run(tmp_path / "small.hpp", name=name) / build.LIBRARY).is_file()


def test_a_killed_build_leaves_nothing_behind(run: Build, tmp_path: Path) -> None:
    source = tmp_path / "small.hpp"
    source.write_text("int a() { return 0; }\n")
    code = (
        "import sys, pathlib; from tk.extension import build; "
        "build.build('small', [pathlib.Path(sys.argv[1])], 'host', (), False)"
    )
    killed = subprocess.Popen([sys.executable, "-c", code, str(source)], cwd=tmp_path)
    cache = tmp_path / "cache" / "extensions"
    wait_for_build(cache)
    killed.kill()
    killed.wait()
    made = run(source)
    assert sorted(path.name for path in cache.iterdir()) == [made.name, f"{made.name}.lock"]


def test_a_cache_removed_during_a_build_is_made_again(run: Build, tmp_path: Path) -> None:
    source = tmp_path / "small.hpp"
    source.write_text("int a() { return 0; }\n")
    cache = tmp_path / "cache" / "extensions"

    def remove() -> None:
        wait_for_build(cache)
        shutil.rmtree(cache)

    remover = threading.Thread(target=remove)
    remover.start()
    made = run(source)
    remover.join()
    assert (made / build.LIBRARY).is_file()


def test_a_lock_that_cannot_be_made_names_the_variable(run: Build, tmp_path: Path) -> None:
    source = tmp_path / "small.hpp"
    source.write_text("int a() { return 0; }\n")
    made = run(source)
    shutil.rmtree(made)
    lock = made.with_name(made.name + ".lock")
    lock.unlink()
    lock.mkdir()
    with pytest.raises(OSError, match="TK_CACHE_DIR"):
        run(source)


def test_names_that_a_macro_exports_are_the_library_s_to_tell(tmp_path: Path) -> None:
    assert exported_names([b"TK_EXPORT(a, x);\nTK_EXPORT_AS(b, c, x);\n"]) == ["a", "b"]
    assert exported_names([b"#define ONE(n) \\\n  TK_EXPORT(n, x)\nONE(a);\n"]) is None
    source = tmp_path / "small.hpp"
    source.write_text("#define ONE(n) TK_EXPORT(n, x)\nONE(a);\n")
    kernels = tk.load(source)
    assert kernels.a is kernels.a  # not compiled yet: a call will tell


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("sources is NoneType", {"sources": None}),
        ("sources is bytes", {"sources": b"small.hpp"}),
        ("sources is int", {"sources": 3}),
        ("flags is NoneType", {"flags": None}),
        ("flags has a int", {"flags": [3]}),
        ("name is int", {"name": 3}),
    ],
)
def test_arguments_of_load_of_another_type_are_named(
    tmp_path: Path, words: str, arguments: dict[str, object]
) -> None:
    (tmp_path / "small.hpp").touch()
    with pytest.raises(TypeError, match=f"tk.load: {words}; must be"):
        tk.load(**{"sources": tmp_path / "small.hpp", **arguments})  # type: ignore[arg-type]
