"""tk new, tk flags and find_package(tk), outside of the repository: what they write and build
works, and mistakes get one line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from extend_tools import ROOT, session_cache

import tk
from tk import cli
from tk.extension import project

__all__ = ["session_cache"]


def run(*command: str | Path, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new project."""
    folder = tmp_path_factory.mktemp("new") / "nice"
    project.write_project("nice", folder)
    return folder


@pytest.mark.slow
def test_a_new_projects_own_test_passes(
    session_cache: Path,
    written: Path,
) -> None:
    done = run(sys.executable, "-m", "pytest", "-q", written, folder=written.parent)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout and "skipped" not in done.stdout


def test_new_writes_where_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "some" / "where"
    assert cli.main(["new", "my_kernel2", "--directory", str(folder)]) == 0
    said = capsys.readouterr().out
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 5 and all(str(path) in said for path in files)
    assert "python -m pytest" in said
    for path in files:
        text = path.read_text()
        assert "@NAME@" not in text and "my_kernel2" in text


@pytest.mark.parametrize(
    "name",
    [
        *("2x", "Upper", "a-b", "class", "", "a b", "tk", "torch", "../x"),
        *("random", "types", "numpy", "tuple", "setattr", "aten", "conftest"),
    ],
)
def test_new_refuses_a_bad_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new", name]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"tk new: NAME is {name!r}") and captured.err.count("\n") == 1


def test_new_refuses_a_folder_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    for folder, words in ((tmp_path / "used", "not empty"), (tmp_path / "used" / "file", "a file")):
        assert cli.main(["new", "good", "--directory", str(folder)]) == 2
        assert words in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["file"]
    (tmp_path / "empty").mkdir()
    assert cli.main(["new", "good", "--directory", str(tmp_path / "empty")]) == 0


def test_flags_compile_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    assert cli.main(["flags", "host"]) == 0
    flags = capsys.readouterr().out
    assert flags.count("\n") == 1
    source = tmp_path / "it.cpp"
    source.write_text('#include "tk/tile/types.hpp"\nint main() { return 0; }\n')
    done = run("g++", *flags.split(), source, "-o", tmp_path / "it", folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_doctor_tells_the_cache_and_the_compilers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    cli.main(["doctor"])
    said = " ".join(capsys.readouterr().out.split())
    assert "no-such-compiler was not found" in said
    assert f"{tmp_path}/extensions, not there yet" in said
    (tmp_path / "extensions").mkdir()
    cli.main(["doctor"])
    assert f"rm -r {tmp_path}/extensions" in " ".join(capsys.readouterr().out.split())


# --- find_package(tk) ---

PROJECT = """\
cmake_minimum_required(VERSION 3.24)
project(outside LANGUAGES CXX)
find_package(tk 0.1 REQUIRED)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE tk::host)
tk_add_extension(nice nice.hpp)
"""
PROGRAM = """\
#include "nice.hpp"

#include <cstdio>

int main() {
    float numbers[6] = {1, 2, 3, 4, 5, 6}, result[6] = {};
    const tk::tensor<const float, 2> x{numbers, {2, 3}, {3, 1}, "x"};
    const tk::tensor<float, 2> out{result, {2, 3}, {3, 1}, "out"};
    launch_nice({}, out, x, 2.0f);
    std::printf("%g %g\\n", double(result[0]), double(result[5]));
}
"""


def configure(source: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(
        *("cmake", "-S", source, "-B", source / "build", f"-DPython_EXECUTABLE={sys.executable}"),
        *more,
        folder=source,
        **environment,
    )


@pytest.fixture
def outside(tmp_path: Path, written: Path) -> Path:
    """A project of its own folder that finds tk by CMake."""
    if shutil.which("cmake") is None or shutil.which("g++") is None:
        pytest.skip("needs cmake and g++")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "program.cpp").write_text(PROGRAM)
    shutil.copy(written / "nice" / "nice.hpp", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_project_of_plain_cmake_builds_and_runs(outside: Path) -> None:
    done = configure(outside, f"-Dtk_DIR={tk.cmake_dir()}", "-DCMAKE_BUILD_TYPE=Release")
    assert done.returncode == 0, done.stderr
    build = outside / "build"
    done = run("cmake", "--build", build, "--parallel", "2", folder=outside)
    assert done.returncode == 0, done.stdout + done.stderr
    assert run(build / "program", folder=outside).stdout == "2 12\n"

    extension = tk.open_extension(build, "nice")
    assert extension.architectures == ("host",)
    x, out = torch.randn(70, 33), torch.empty(70, 33)
    extension.nice(out, x, factor=3.0)
    assert torch.equal(out, 3 * x)


def test_the_package_is_found_in_site_packages(outside: Path) -> None:
    """As scikit-build-core has it: the folder of the packages is a prefix."""
    (outside / "CMakeLists.txt").write_text(PROJECT.split("add_executable")[0])
    done = configure(outside, f"-DCMAKE_PREFIX_PATH={tk.cmake_dir().parent.parent}")
    assert done.returncode == 0, done.stderr


def test_a_missing_cutlass_names_the_extra_in_cmake(outside: Path, tmp_path: Path) -> None:
    bare = tmp_path / "python_without_packages"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    bare.chmod(0o755)
    done = configure(outside, f"-Dtk_DIR={tk.cmake_dir()}", f"-DPython_EXECUTABLE={bare}")
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert "CUTLASS was not found: pip install 'tk-cute[extend]'" in said
    assert "tk_CUTLASS_INCLUDE_DIR" in said


@pytest.mark.parametrize(
    ("wanted", "words"),
    [("1.7", "1.7"), ("0.1 COMPONENTS sm80", 'no component "sm80"')],
)
def test_what_the_package_has_not_is_refused(outside: Path, wanted: str, words: str) -> None:
    text = PROJECT.replace("find_package(tk 0.1", f"find_package(tk {wanted}")
    (outside / "CMakeLists.txt").write_text(text)
    done = configure(outside, f"-Dtk_DIR={tk.cmake_dir()}")
    assert done.returncode != 0 and words in done.stderr


def test_open_extension_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"neither libnice_host\.so nor libnice_sm90\.so in it"):
        tk.open_extension(tmp_path, "nice")
    (tmp_path / "libnice_host.so").write_text("no library")
    with pytest.raises(OSError, match="libnice_host"):
        tk.open_extension(tmp_path, "nice")


def test_the_installed_folders_hold_what_they_say() -> None:
    assert (tk.include_dir() / "tk" / "extend.hpp").is_file()
    assert (tk.cmake_dir() / "tkConfig.cmake").is_file()
    assert (tk.cmake_dir() / "extension.map").is_file()
    assert tk.__version__ in (tk.cmake_dir() / "tkConfigVersion.cmake").read_text()


@pytest.mark.slow
def test_the_pages_example_runs(
    session_cache: Path,
    tmp_path: Path,
) -> None:
    """docs/extending.md: its kernel, called and made an operation as it says."""
    page = (ROOT / "docs" / "extending.md").read_text()
    kernel = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "scale.hpp").write_text(kernel)
    call, operation = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]
    lines = [line for line in call.splitlines() if "cuda" not in line]
    code = "\n".join([*lines, operation])
    check = "assert torch.equal(out, 2 * x) and torch.equal(scale(x, 3.0), 3 * x)\n"
    done = run(sys.executable, "-c", code + check, folder=tmp_path)
    assert done.returncode == 0, done.stderr


NATIVE = """\
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "scale.hpp"

namespace py = pybind11;

PYBIND11_MODULE(native, m) {
    m.def("doubled", [](const py::array_t<float, py::array::c_style>& x) {
        const int64_t rows = x.shape(0), cols = x.shape(1);
        py::array_t<float> out({rows, cols});
        scale({}, {out.mutable_data(), {rows, cols}, {cols, 1}, "out"},
              {x.data(), {rows, cols}, {cols, 1}, "x"}, 2.0f);
        return out;
    });
}
"""


@pytest.mark.slow
def test_the_pages_package_builds_and_runs(tmp_path: Path) -> None:
    """docs/extending.md: its files, for the host and with a module of pybind11 beside them, make a
    wheel by scikit-build-core whose kernels run."""
    pytest.importorskip("scikit_build_core")
    pytest.importorskip("pybind11")
    if shutil.which("cmake") is None or shutil.which("g++") is None:
        pytest.skip("needs cmake and g++")
    page = (ROOT / "docs" / "extending.md").read_text()
    package = page.split("## Package with CMake")[1]

    def shown(language: str, text: str = package) -> str:
        return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[0]  # type: ignore[no-any-return]

    cmake = shown("cmake").replace("host sm90", "host").replace(" mykernel_sm90 ", " native ")
    native = (
        "find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)\n"
        "find_package(pybind11 CONFIG REQUIRED)\n"
        "pybind11_add_module(native native.cpp)\n"
        "target_link_libraries(native PRIVATE tk::host)\n"
    )
    before, install = cmake.split("install(")
    source = tmp_path / "source"
    (source / "mykernel").mkdir(parents=True)
    (source / "CMakeLists.txt").write_text(before + native + "install(" + install)
    (source / "pyproject.toml").write_text(shown("toml").split("[tool.")[0])  # native: one Python
    (source / "mykernel" / "__init__.py").write_text(shown("python"))
    (source / "scale.hpp").write_text(shown("cpp", page))
    (source / "native.cpp").write_text(NATIVE)
    command = (sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation")
    done = run(*command, folder=source)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = source.glob("mykernel-0.1.0-*.whl")

    installed = tmp_path / "installed"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-index")
    done = run(*pip, "--no-deps", "--target", installed, wheel, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    code = (
        "import torch, mykernel\n"
        "from mykernel import native\n"
        "x, out = torch.randn(100, 70), torch.empty(100, 70)\n"
        "mykernel.kernels.scale(out, x, factor=3.0)\n"
        "assert torch.equal(out, 3 * x)\n"
        "assert (native.doubled(x.numpy()) == 2 * x.numpy()).all()\n"
    )
    code += "print(mykernel.__file__)\n"
    done = run(sys.executable, "-c", code, folder=tmp_path, PYTHONPATH=str(installed))
    assert done.stdout.startswith(str(installed)), done.stderr
    assert done.returncode == 0, done.stderr
