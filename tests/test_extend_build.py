"""What tk.load compiles and keeps: the cache's key, concurrent builds, errors trimmed to the user's
lines, and what it says when a compiler or CUTLASS is not there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from extend_tools import KERNELS, counting_compiler, session_cache, start_build

import tk
from tk.extension import CompileError, MissingToolError, build, compiler, extension_cache_dir
from tk.extension import sources as sources_module
from tk.extension.diagnostics import trimmed

__all__ = ["session_cache"]

Build = Callable[..., Path]


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Build, Path]:
    """A function that builds small sources in an empty cache, and the file that counts builds."""
    try:
        program, calls = counting_compiler(tmp_path)
        monkeypatch.setenv("CXX", str(program))
        monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path / "cache"))
        compiler.compiler_for("host")
    except MissingToolError as error:
        pytest.skip(str(error))

    def run(*sources: Path, flags: tuple[str, ...] = ()) -> Path:
        return build.build("small", list(sources), "host", flags, verbose=False)

    return run, calls


def count(calls: Path) -> int:
    return calls.read_text().count("\n")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source with a header of its own, which includes another."""
    folder = tmp_path / "user"
    (folder / "inner").mkdir(parents=True)
    (folder / "small.hpp").write_text('#include "inner/one.hpp"\nint a() { return one; }\n')
    (folder / "inner" / "one.hpp").write_text('#include "two.hpp"\nconstexpr int one = two;\n')
    (folder / "inner" / "two.hpp").write_text("constexpr int two = 2;\n")
    return folder / "small.hpp"


def test_one_content_is_compiled_once(
    counted: tuple[Build, Path], source: Path, tmp_path: Path
) -> None:
    run, calls = counted
    first = run(source)
    assert (first / build.LIBRARY).is_file() and (first / build.LOG).is_file()
    assert run(source) == first and count(calls) == 1
    os.utime(source)  # a time is no content
    source.parent.rename(tmp_path / "elsewhere")  # neither is a folder
    assert run(tmp_path / "elsewhere" / "small.hpp") == first
    assert count(calls) == 1


def test_every_part_of_the_key_counts(
    counted: tuple[Build, Path],
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, calls = counted
    found = {run(source)}

    def is_new(folder: Path) -> bool:
        new = folder not in found
        found.add(folder)
        return new

    source.write_text(source.read_text() + "// more\n")
    assert is_new(run(source))
    header = source.parent / "inner" / "two.hpp"
    header.write_text(header.read_text().replace("2;", "3;"))
    assert is_new(run(source))
    assert is_new(run(source, flags=("-DMORE",)))
    other = source.parent / "other.cpp"
    other.write_text("int b() { return 0; }\n")
    assert is_new(run(source, other))
    assert is_new(run(other, source))
    with monkeypatch.context() as patched:
        patched.setattr(tk, "__version__", "99")
        assert is_new(run(source))
    with monkeypatch.context() as patched:
        patched.setattr(sources_module, "_headers_digest", lambda stamp: b"other headers")
        assert is_new(run(source))
    with monkeypatch.context() as patched:
        patched.setattr(compiler, "_version", lambda program: "g++ (of tests) 99.0")
        assert is_new(run(source))
    made = count(calls)
    assert made == len(found) == 9
    assert not is_new(run(source))
    assert count(calls) == made


def test_a_header_found_by_a_flag_counts(
    counted: tuple[Build, Path], source: Path, tmp_path: Path
) -> None:
    run, _ = counted
    folder = tmp_path / "headers"
    folder.mkdir()
    (folder / "far.hpp").write_text("constexpr int far = 1;\n")
    source.write_text("#include <far.hpp>\nint a() { return far; }\n")
    for flags in ((f"-I{folder}",), ("-I", str(folder))):
        first = run(source, flags=flags)
        (folder / "far.hpp").write_text((folder / "far.hpp").read_text() + "\n")
        assert run(source, flags=flags) != first


def test_a_header_named_by_a_macro_counts(counted: tuple[Build, Path], source: Path) -> None:
    run, _ = counted
    source.write_text('#define NAME "inner/two.hpp"\n#include NAME\nint a() { return two; }\n')
    first = run(source)
    header = source.parent / "inner" / "two.hpp"
    header.write_text(header.read_text().replace("2;", "3;"))
    assert run(source) != first


def test_threads_compile_one_kernel_once(counted: tuple[Build, Path], source: Path) -> None:
    run, calls = counted
    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: run(source), range(4)))
    assert len(set(folders)) == 1 and count(calls) == 1


def test_processes_compile_one_kernel_once(counted: tuple[Build, Path], source: Path) -> None:
    _, calls = counted
    code = (
        "import sys, pathlib; from tk.extension import build; "
        "print(build.build('small', [pathlib.Path(sys.argv[1])], 'host', (), False))"
    )
    command = [sys.executable, "-c", code, str(source)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=source.parent)
        for _ in range(4)
    ]
    said = {process.communicate(timeout=120)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(said) == 1 and count(calls) == 1
    cache = extension_cache_dir()
    assert sorted(path.suffix for path in cache.iterdir()) == ["", ".lock"]  # no leftovers


@pytest.mark.prepare(start_build, KERNELS)
def test_a_damaged_library_is_compiled_again(
    session_cache: Path,
) -> None:
    folder = tk.load(KERNELS, arch="host").build_log("host").parent
    code = (
        "import sys, tk; m = tk.load(sys.argv[1], arch='host'); m.nothing(); "
        "print(m.build_log('host').parent)"
    )
    good = (folder / build.LIBRARY).read_bytes()
    (folder / build.LIBRARY).unlink()
    (folder / build.LIBRARY).write_bytes(good[:1000])
    done = subprocess.run(
        [sys.executable, "-c", code, str(KERNELS)],
        capture_output=True, text=True, check=False, cwd=session_cache,
    )  # fmt: skip
    assert done.stdout.strip() == str(folder), done.stderr
    assert len((folder / build.LIBRARY).read_bytes()) > 1000


def test_a_cache_that_cannot_be_written_is_named(
    counted: tuple[Build, Path], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = counted
    (tmp_path / "file").touch()
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"TK_CACHE_DIR.*file/extensions"):
        run(source)


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TK_CACHE_DIR", "/one")
    assert extension_cache_dir() == Path("/one/extensions")
    monkeypatch.delenv("TK_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/two")
    assert extension_cache_dir() == Path("/two/tk/extensions")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert extension_cache_dir() == Path.home() / ".cache" / "tk" / "extensions"


BROKEN = """\
#include "tk/extend.hpp"
namespace {
struct kernel {
    static constexpr int num_threads = 128;
    struct globals {};
    struct shared { tk::st_bf<64, 64> a; tk::st_bf<64, 48> b; };
    static TK_DEVICE void run(const globals&) {
        auto& memory = *reinterpret_cast<shared*>(tk::shared_memory());
        tk::rt_fl<16, 64> product;
        tk::warpgroup::mma_ABt(product, memory.a, memory.b, false);
        tk::warpgroup::mma_async_wait<0>(product);
    }
};
void broken(const tk::launch_target& target, tk::tensor<float, 2> out) {
    target.launch<kernel>({}, {.shared_bytes = sizeof(kernel::shared)});
    out = undeclared;
}
}
TK_EXPORT(broken, out, more);
"""


@pytest.mark.slow
def test_compile_errors_are_told_in_the_users_lines(
    session_cache: Path,
    tmp_path: Path,
) -> None:
    source = tmp_path / "broken.hpp"
    source.write_text(BROKEN)
    extension = tk.load(source)
    with pytest.raises(CompileError) as caught:
        extension.broken(torch.zeros(1, 1))
    message = str(caught.value)
    written = caught.value.log.stat().st_mtime_ns
    with pytest.raises(CompileError, match=r"broken\.hpp"):  # told again, but not compiled again
        extension.broken(torch.zeros(1, 1))
    assert caught.value.log.stat().st_mtime_ns == written
    assert message.splitlines()[0] == f"tk.load: {source} does not compile for host:"
    assert f"{source}:10: mma: a and b must agree in K\n    tk::warpgroup::mma_ABt(" in message
    assert f"{source}:16: ‘undeclared’ was not declared" in message.replace("'", "‘", 1)
    assert f"{source}:19: TK_EXPORT(broken): needs a name for each" in message
    assert len(message.splitlines()) < 12
    assert "tk/" not in message.replace(str(source), "").replace(str(caught.value.log), "")
    log = caught.value.log.read_text()
    assert "mma.hpp" in log and log.startswith("$ ") and str(caught.value.log) in message


def test_errors_of_nvcc_are_trimmed_as_well(tmp_path: Path) -> None:
    source = tmp_path / "user.cu"
    source.write_text("one\n  two();\n")
    output = (
        f'{source}(1): error: identifier "one" is undefined\n  one\n  ^\n\n'
        "/somewhere/tk/mma.hpp(30): error: static assertion failed with "
        '"mma: a and b must agree in K"\n'
        "          static_assert(K == 1);\n          ^\n"
        "          detected during:\n"
        '            instantiation of "void f()" at line 7 of /somewhere/tk/group.hpp\n'
        f'            instantiation of "void g()" at line 2 of {source}\n\n'
        "2 errors detected in the compilation.\n"
    )
    assert trimmed(output, {source}) == (
        f'{source}:1: identifier "one" is undefined\n    one\n'
        f"{source}:2: mma: a and b must agree in K\n    two();"
    )


def test_an_output_without_a_known_error_is_shown_by_its_end() -> None:
    assert trimmed("\n".join(map(str, range(100))), set()).splitlines()[0] == "80"
    link = "x.o: in function `f':\nx.cpp:(.text+0x5): undefined reference to `g'\nld failed\n"
    assert "undefined reference to `g'" in trimmed(link, set())


def test_a_library_that_exports_nothing_is_an_error(
    counted: tuple[Build, Path], source: Path
) -> None:
    with pytest.raises(OSError, match=r"exports nothing; a source must include tk/extend.hpp"):
        tk.load(source, arch="host")


EXTRA = r"pip install 'tk-cute\[extend\]'"


def test_a_missing_compiler_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-g++")
    with pytest.raises(MissingToolError, match=r"no-such-g\+\+ was not found.*g\+\+ 11 or later"):
        tk.load(KERNELS, arch="host")
    monkeypatch.delenv("CXX")
    monkeypatch.setattr(compiler.toolchain, "find_toolkit", lambda cuda: None)
    with pytest.raises(MissingToolError, match=f"no CUDA compiler.*12.4.*{EXTRA}"):
        tk.load(KERNELS, arch="sm90")
    with pytest.raises(MissingToolError, match=f"CUDA headers.*{EXTRA}"):
        tk.load(KERNELS, arch="host")


def test_a_missing_cutlass_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler.toolchain, "cutlass_include", lambda: None)
    with pytest.raises(MissingToolError, match=f"CUTLASS was not found: {EXTRA}"):
        tk.load(KERNELS, arch="host")


def test_an_old_compiler_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "g++-9"
    old.write_text('#!/bin/sh\necho "g++ (Debian 9.3.0-1) 9.3.0"\n')
    old.chmod(0o755)
    monkeypatch.setenv("CXX", str(old))
    with pytest.raises(MissingToolError, match="is version 9; must be 11 or later"):
        tk.load(KERNELS, arch="host")
