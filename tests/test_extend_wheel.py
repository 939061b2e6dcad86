"""A wheel of a user's own: scikit-build-core and pybind11, with find_package(tk) where
tk.cmake_dir() says, built, installed and called outside of the repository."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from extend_tools import ROOT

NEEDED = ("scikit_build_core", "pybind11")
FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["scikit-build-core", "pybind11", "tk-cute[extend]"]
build-backend = "scikit_build_core.build"

[project]
name = "mine"
version = "0.1.0"

[tool.scikit-build]
wheel.packages = ["src/mine"]
""",
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.24)
project(mine LANGUAGES CXX)
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG REQUIRED)
execute_process(COMMAND "${Python_EXECUTABLE}" -c "import tk; print(tk.cmake_dir())"
                OUTPUT_VARIABLE tk_DIR OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
find_package(tk REQUIRED COMPONENTS host)
pybind11_add_module(_mine module.cpp)
target_link_libraries(_mine PRIVATE tk::host)
install(TARGETS _mine LIBRARY DESTINATION mine)
tk_add_extension(scale scale.hpp)
install(TARGETS scale_host LIBRARY DESTINATION mine)
""",
    "module.cpp": """\
#include <pybind11/numpy.h>

#include "scale.hpp"

namespace py = pybind11;
using array = py::array_t<float, py::array::c_style>;

PYBIND11_MODULE(_mine, m) {
    m.def("scale", [](array out, array x, float factor) {
        const int64_t rows = x.shape(0), cols = x.shape(1);
        const tk::tensor<const float, 2> from{x.data(), {rows, cols}, {cols, 1}, "x"};
        const tk::tensor<float, 2> to{out.mutable_data(), {rows, cols}, {cols, 1}, "out"};
        py::gil_scoped_release released;
        scale({}, to, from, factor);
    });
}
""",
    "src/mine/__init__.py": """\
from pathlib import Path

import tk
from mine._mine import scale

kernels = tk.open_extension(Path(__file__).parent, "scale")
""",
}
CHECK = """\
import mine, numpy, torch
x = numpy.random.rand(70, 131).astype("f")
out = numpy.empty_like(x)
mine.scale(out, x, 3.0)
assert numpy.array_equal(out, numpy.float32(3) * x)
result = torch.empty(70, 131)
mine.kernels.scale(result, torch.from_numpy(x), factor=2.0)
assert torch.equal(result, 2 * torch.from_numpy(x))
print(mine.__file__)
"""


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_a_wheel_of_one_s_own_is_built_installed_and_called(tmp_path: Path) -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    missing += [name for name in ("cmake", "g++") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    project = tmp_path / "project"
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    page = (ROOT / "docs" / "extending.md").read_text()
    kernel = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)[0]
    (project / "scale.hpp").write_text(kernel)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    options = ("--no-build-isolation", "--no-deps", "--no-index")
    run(*pip, "wheel", *options, "-w", tmp_path / "wheels", project, folder=tmp_path)

    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, folder=tmp_path)
    packages = next((environment / "lib").glob("python*")) / "site-packages"
    wheel = next((tmp_path / "wheels").glob("mine-*.whl"))
    run(*pip, "install", "--no-deps", "--no-index", "--target", packages, wheel, folder=tmp_path)
    # What the tests run with, tk among it, comes after the environment's own.
    (packages / "tests.pth").write_text(
        "import sys, site; "
        + "; ".join(f"site.addsitedir({folder!r})" for folder in sys.path if "site-p" in folder)
    )
    said = run(environment / "bin" / "python", "-c", CHECK, folder=tmp_path)
    assert said.strip().startswith(str(packages))
