"""The package as installed: its version, what its libraries need, and building it without torch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging_tools import ROOT, binding_path, build_module, include_folder, libraries

import tk

MIT = "Permission is hereby granted, free of charge"


def python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a new interpreter, started in `folder`, which comes first on its path."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONSAFEPATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def dynamic_section(library: Path) -> tuple[list[str], list[str], list[str]]:
    """Undefined symbols, exported symbols and needed libraries of a shared object."""

    def lines(*command: str) -> list[str]:
        done = subprocess.run([*command, str(library)], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    undefined = [line.split()[-1] for line in lines("nm", "-D", "--undefined-only")]
    exported = [line.split()[-1] for line in lines("nm", "-D", "--defined-only")]
    needed = [
        m[1] for line in lines("readelf", "-d") if (m := re.search(r"NEEDED.*\[(.*)\]", line))
    ]
    return undefined, exported, needed


def test_version_is_said_in_one_place() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    found = re.findall(r'^version = "(.+?)"', text, re.MULTILINE)
    assert found == [tk.__version__] == [metadata.version("tk-cute")]
    for path in [ROOT / "CMakeLists.txt", *sorted((ROOT / "tk").rglob("*.py"))]:
        assert f'"{tk.__version__}"' not in path.read_text(), path


def test_pinned_build_requirements_agree() -> None:
    """CUTLASS's version stands in pyproject.toml, twice, and in CMake's advice."""
    texts = [(ROOT / name).read_text() for name in ("pyproject.toml", "cmake/toolchain.cmake")]
    versions = re.findall(r"nvidia-cutlass==([0-9.]+[0-9])", "\n".join(texts))
    assert len(versions) >= 3
    assert len(set(versions)) == 1


def test_package_has_types_licence_and_headers() -> None:
    folder = Path(tk.__file__).parent
    assert (folder / "py.typed").exists()
    assert (folder / "_binding.pyi").exists()
    assert (include_folder() / "tk" / "tk.hpp").exists()
    files = metadata.files("tk-cute") or []
    licences = [file for file in files if file.name == "LICENSE"]
    assert licences and MIT in licences[0].read_text()


def test_nothing_generic_is_installed_beside_the_package() -> None:
    files = metadata.files("tk-cute") or []
    tops = {file.parts[0] for file in files if file.parts[0] != ".."}
    assert {top for top in tops if not top.startswith(("tk_cute-", "_tk_cute", "_editable"))} <= {
        "tk",
        "__pycache__",
    }


def test_binding_and_libraries_need_neither_torch_nor_the_driver() -> None:
    """One binary for every torch, and an import on a machine without a driver."""
    for library in (binding_path(), *libraries()):
        undefined, _, needed = dynamic_section(library)
        assert not [name for name in undefined if re.search(r"c10|at\d?6native|torch", name)], (
            library
        )
        assert not [name for name in needed if re.match(r"lib(torch|c10|cuda|nv)", name)], library


def test_libraries_export_their_c_interface_alone() -> None:
    assert libraries()
    for library in libraries():
        _, exported, _ = dynamic_section(library)
        assert "tk_matmul" in exported
        assert [name for name in exported if not name.startswith("tk_")] == []


def test_both_libraries_have_the_same_instances() -> None:
    from tk._binding import Library

    if len(libraries()) < 2:
        pytest.skip("a host-only build")
    tables = [Library(str(path)).matmul_instances() for path in libraries()]
    keys = ("name", "dtype", "a_major", "b_major", "loader", "tile_m", "tile_n", "tile_k")
    first, second = ([[row[key] for key in keys] for row in table] for table in tables)
    assert first == second


def test_library_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    from tk._binding import Library

    path = tmp_path / "libtk_none.so"
    with pytest.raises(OSError, match=r"libtk_none\.so: .*No such file"):
        Library(str(path))
    path.write_text("not a library")
    with pytest.raises(OSError, match=r"libtk_none\.so: "):
        Library(str(path))


def test_import_asks_for_no_gpu(tmp_path: Path) -> None:
    """Nothing is asked of a GPU, even where there is one."""
    code = "import tk, torch; assert not torch.cuda.is_initialized(); print(tk.__version__)"
    done = python(code, tmp_path, CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout.strip()) == (0, tk.__version__), done.stderr


def test_source_tree_that_was_not_built_says_what_to_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tk", tmp_path / "tk")
    # -S: without site-packages, where an editable install would take the import over
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import tk"],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert "pip install" in last


# The backend: which compiler, and what is asked of pip.


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """tk_build on a machine without a toolkit."""
    pytest.importorskip("scikit_build_core")
    for name in ("CUDACXX", "CUDA_HOME", "CUDA_PATH", "CMAKE_ARGS", "TK_IGNORE_SYSTEM_CUDA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(ROOT)
    toolchain = build_module("toolchain")
    monkeypatch.setattr(toolchain, "USUAL_HOME", str(tmp_path / "no_toolkit"))
    return build_module("tk_build")


@pytest.fixture
def make_toolkit(tmp_path: Path) -> Callable[[str], Path]:
    """A folder that looks like a toolkit of the given version."""

    def make(version: str) -> Path:
        major, minor = version.split(".")
        root = tmp_path / f"cuda-{version}"
        for folder in ("bin", "include/crt", "include/cuda/std"):
            (root / folder).mkdir(parents=True)
        (root / "include" / "crt" / "host_defines.h").touch()
        define = f"#define CUDART_VERSION {int(major) * 1000 + int(minor) * 10}\n"
        (root / "include" / "cuda_runtime_api.h").write_text(define)
        nvcc = root / "bin" / "nvcc"
        says = f'#!/bin/sh\necho "Cuda compilation tools, release {version}, V{version}.1"\n'
        nvcc.write_text(says + f'echo "#$ TOP={root}/bin/.." >&2\n')
        nvcc.chmod(0o755)
        return root

    return make


COMPILER = "nvidia-cuda-nvcc=="
HEADERS = "nvidia-cuda-runtime=="


def names(requirements: list[str], start: str) -> list[str]:
    return [requirement for requirement in requirements if requirement.startswith(start)]


@pytest.mark.parametrize("hook", ["wheel", "editable"])
def test_compiler_wheels_are_required_where_there_is_no_nvcc(
    backend: ModuleType, hook: str
) -> None:
    requirements = getattr(backend, f"get_requires_for_build_{hook}")({})
    assert names(requirements, COMPILER) and names(requirements, HEADERS)
    assert all(requirement.endswith("==13.0.*") for requirement in names(requirements, "nvidia"))


@pytest.mark.parametrize("variable", ["CUDACXX", "CUDA_HOME", "CUDA_PATH", "PATH"])
def test_system_compiler_is_used_if_it_is_new_enough(
    backend: ModuleType,
    make_toolkit: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    for version, wanted in (("12.3", 1), ("12.4", 0)):
        root = make_toolkit(version)
        value = {"CUDACXX": root / "bin" / "nvcc", "PATH": root / "bin"}.get(variable, root)
        monkeypatch.setenv(variable, f"{value}")
        assert len(names(backend.get_requires_for_build_wheel({}), COMPILER)) == wanted
    monkeypatch.setenv("TK_IGNORE_SYSTEM_CUDA", "1")
    assert names(backend.get_requires_for_build_wheel({}), COMPILER)


@pytest.mark.parametrize(
    "settings",
    [
        {"cmake.define.TK_CUDA": "OFF"},
        {"skbuild.cmake.define.TK_CUDA": "off"},
        {"cmake.args": ["-G", "-DTK_CUDA:BOOL=OFF"]},
    ],
)
def test_host_only_build_requires_headers_alone(
    backend: ModuleType,
    make_toolkit: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str | list[str]],
) -> None:
    requirements = backend.get_requires_for_build_wheel(settings)
    assert names(requirements, HEADERS) and not names(requirements, COMPILER)
    monkeypatch.setenv("CUDA_HOME", str(make_toolkit("12.8")))
    assert not names(backend.get_requires_for_build_wheel(settings), "nvidia-cuda")


def test_prebuilt_libraries_require_no_compiler(backend: ModuleType) -> None:
    settings = {"cmake.define.TK_PREBUILT_DIR": "/somewhere"}
    assert not names(backend.get_requires_for_build_wheel(settings), "nvidia-cuda")


def test_cmake_says_what_to_do_without_a_compiler(tmp_path: Path) -> None:
    cmake = shutil.which("cmake") or pytest.skip("needs cmake")
    done = subprocess.run(
        [cmake, "-S", ROOT, "-B", tmp_path, f"-DPython_EXECUTABLE={hidden_python(tmp_path)}"],
        env={**os.environ, "TK_IGNORE_SYSTEM_CUDA": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    for advice in ("12.4 or later", "nvidia-{cuda-nvcc", "TK_CUDA=OFF", "TK_PREBUILT_DIR"):
        assert advice in done.stderr, done.stderr


def hidden_python(folder: Path) -> Path:
    """An interpreter like this one that sees no installed package."""
    wrapper = folder / "python_without_packages"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


def test_wheel_builds_without_torch(tmp_path: Path) -> None:
    """The whole build but for the kernels, which are taken as installed; torch cannot be imported,
    and no nvcc is there."""
    pytest.importorskip("scikit_build_core")
    pytest.importorskip("pybind11")
    if shutil.which("cmake") is None or shutil.which("g++") is None:
        pytest.skip("needs cmake and g++")
    code = (
        "import sys; sys.modules['torch'] = None; sys.path.insert(0, 'build_backend'); "
        "import tk_build; print(tk_build.build_wheel(sys.argv[1], "
        "{'cmake.define.TK_PREBUILT_DIR': sys.argv[2], 'build-dir': sys.argv[3], "
        "'cmake.build-type': 'Debug'}))"
    )
    arguments = [str(tmp_path), str(libraries()[0].parent), str(tmp_path / "build")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, "TK_IGNORE_SYSTEM_CUDA": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (wheel,) = tmp_path.glob("*.whl")
    inside = zipfile.ZipFile(wheel).namelist()
    assert {f"tk/lib/{path.name}" for path in libraries()} <= set(inside)
    for part in ("tk/_binding.", "tk/schedulers/", "tk/benchmarks/", "tk/reports/", "tk/include/"):
        assert any(name.startswith(part) for name in inside), part
