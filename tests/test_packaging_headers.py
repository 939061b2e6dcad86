"""The installed headers: each stands alone, and they can be included anywhere and linked twice."""

from __future__ import annotations

import re
import subprocess
import tempfile
from functools import cache, partial
from pathlib import Path

import background
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


def first_include(header: str) -> str | None:
    """What a header includes before anything else stands in it."""
    for line in (INCLUDE / header).read_text().splitlines():
        if line and not line.startswith(("//", "#pragma once")):
            found = re.fullmatch(r'#include "(tk/.*)"', line)
            return found and found[1]
    return None


def units(architecture: str) -> dict[str, tuple[str, ...]]:
    """Which headers each translation unit is the proof of, by the one that it includes.

    What a header includes first the compiler reads first of all, as if it were alone: so every
    second header is compiled alone by the unit of another.
    """
    headers = headers_for(architecture)
    begins = {header: first_include(header) for header in headers}
    whole = [header for header in headers if header not in begins.values()]
    chains = {}
    for header in whole:
        chain = [header]
        while (following := begins[chain[-1]]) is not None:
            chain.append(following)
        chains[header] = tuple(chain)
    return chains


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tk-headers-")  # goes with the session


@cache
def nvcc() -> Path:
    toolkit = toolchain.find_toolkit(cuda=True)
    if toolkit is None or toolkit.nvcc is None:
        pytest.skip("needs nvcc")
    return toolkit.nvcc


@cache
def unit(architecture: str, header: str, chain: tuple[str, ...]) -> background.Task[Result]:
    """Compiles one header, and a second time what begins with it."""
    stem = Path(folder().name) / f"{architecture}_{header.replace('/', '_')}"
    lines = [f'#include "{name}"\n' for name in (header, *chain)]
    source = stem.with_suffix(".cpp" if architecture == "host" else ".cu")
    source.write_text("".join(lines))
    if architecture == "host":
        command = host_compiler(source, "-fsyntax-only")
    else:
        command = cuda_compiler(nvcc(), source, "-cubin", "-o", f"{stem}.cubin")
    return background.Task(partial(background.run, command))


def results(architecture: str) -> dict[str, background.Task[Result]]:
    """The compilation that proves each header of an architecture."""
    return {
        proven: unit(architecture, header, chain)
        for header, chain in units(architecture).items()
        for proven in chain
    }


def test_headers_are_installed() -> None:
    assert "tk/tk.hpp" in HEADERS
    assert len(headers_for("host")) < len(HEADERS) > len(headers_for("sm90"))


@pytest.mark.prepare(results, "host")
@pytest.mark.parametrize("header", headers_for("host"))
def test_each_header_compiles_alone_for_the_host(header: str) -> None:
    result = results("host")[header].result()
    assert result.returncode == 0, result.stderr[-4000:]


@pytest.mark.prepare(results, "sm90")
@pytest.mark.slow
@pytest.mark.parametrize("header", headers_for("sm90"))
def test_each_header_compiles_alone_for_the_gpu(header: str) -> None:
    result = results("sm90")[header].result()
    assert result.returncode == 0, result.stderr[-4000:]


def test_two_host_units_link(tmp_path: Path) -> None:
    """Nothing in a header is defined twice when two units of a program include it."""
    objects = [f"{tmp_path}/{name}.o" for name in ("one", "two")]
    tasks = []
    for i, target in enumerate(objects):
        source = tmp_path / f"{i}.cpp"
        source.write_text(f'#include "tk/tk.hpp"\nint unit_{i}() {{ return {i}; }}\n')
        command = host_compiler(source, "-fPIC", "-c", "-o", target)
        tasks.append(background.Task(partial(background.run, command)))
    for task in tasks:
        result = task.result()
        assert result.returncode == 0, result.stderr[-4000:]
    linked = background.run(["g++", "-shared", "-pthread", "-o", f"{tmp_path}/both.so", *objects])
    assert linked.returncode == 0, linked.stderr
