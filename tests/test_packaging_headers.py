"""The installed headers: each stands alone, and they can be included anywhere and linked twice."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from packaging_tools import include_folder, toolchain

Result = subprocess.CompletedProcess[str]

INCLUDE = include_folder()
HEADERS = sorted(str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.hpp"))
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def headers_for(architecture: str) -> list[str]:
    """The headers of one architecture, by its folder's name, and those of all."""
    other = {"host": "tk/arch/sm90/", "sm90": "tk/arch/host/"}[architecture]
    return [header for header in HEADERS if not header.startswith(other)]


def host_compiler(source: Path, *flags: str) -> list[str]:
    system = [flag for folder in toolchain.include_folders() for flag in ("-isystem", str(folder))]
    return ["g++", "-std=c++20", *WARNINGS, f"-I{INCLUDE}", *system, *flags, str(source)]


def cuda_compiler(nvcc: Path, source: Path, *flags: str) -> list[str]:
    cutlass = toolchain.cutlass_include()
    return [
        *(str(nvcc), "-std=c++20", "--expt-relaxed-constexpr"),
        *("-gencode", "arch=compute_90a,code=sm_90a", "-Xcompiler", "-Wall,-Wextra"),
        *("-Werror", "all-warnings", f"-I{INCLUDE}", "-isystem", str(cutlass), *flags, str(source)),
    ]


def run(command: list[str]) -> Result:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        yield executor


def twice(folder: Path, header: str, suffix: str) -> Path:
    """A translation unit that includes one header, twice, and nothing else."""
    source = folder / (header.replace("/", "_") + suffix)
    source.write_text(f'#include "{header}"\n#include "{header}"\n')
    return source


@pytest.fixture(scope="module")
def host_results(
    pool: ThreadPoolExecutor, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Future[Result]]:
    folder = tmp_path_factory.mktemp("host_headers")
    commands = {
        header: host_compiler(twice(folder, header, ".cpp"), "-fsyntax-only")
        for header in headers_for("host")
    }
    return {header: pool.submit(run, command) for header, command in commands.items()}


@pytest.fixture(scope="module")
def nvcc() -> Path:
    toolkit = toolchain.find_toolkit(cuda=True)
    if toolkit is None or toolkit.nvcc is None:
        pytest.skip("needs nvcc")
    return toolkit.nvcc


@pytest.fixture(scope="module")
def cuda_results(
    nvcc: Path, pool: ThreadPoolExecutor, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Future[Result]]:
    folder = tmp_path_factory.mktemp("cuda_headers")
    commands = {
        header: cuda_compiler(
            nvcc, twice(folder, header, ".cu"), "-cubin", "-o", f"{folder}/{i}.cubin"
        )
        for i, header in enumerate(headers_for("sm90"))
    }
    return {header: pool.submit(run, command) for header, command in commands.items()}


def test_headers_are_installed() -> None:
    assert "tk/tk.hpp" in HEADERS
    assert len(headers_for("host")) < len(HEADERS) > len(headers_for("sm90"))


@pytest.mark.parametrize("header", headers_for("host"))
def test_each_header_compiles_alone_for_the_host(
    header: str, host_results: dict[str, Future[Result]]
) -> None:
    result = host_results[header].result()
    assert result.returncode == 0, result.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.parametrize("header", headers_for("sm90"))
def test_each_header_compiles_alone_for_the_gpu(
    header: str, cuda_results: dict[str, Future[Result]]
) -> None:
    result = cuda_results[header].result()
    assert result.returncode == 0, result.stderr[-4000:]


def test_two_host_units_link(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """Nothing in a header is defined twice when two units of a program include it."""
    objects = [f"{tmp_path}/{name}.o" for name in ("one", "two")]
    commands = []
    for i, target in enumerate(objects):
        source = tmp_path / f"{i}.cpp"
        source.write_text(f'#include "tk/tk.hpp"\nint unit_{i}() {{ return {i}; }}\n')
        commands.append(host_compiler(source, "-fPIC", "-c", "-o", target))
    for result in pool.map(run, commands):
        assert result.returncode == 0, result.stderr[-4000:]
    linked = run(["g++", "-shared", "-pthread", "-o", f"{tmp_path}/both.so", *objects])
    assert linked.returncode == 0, linked.stderr
