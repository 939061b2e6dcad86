"""The compiler of each architecture and how it is called: nvcc for sm90, g++ for the host."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tk import _toolchain as toolchain
from tk.extension.errors import EXTRA, MissingToolError
from tk.extension.paths import cmake_dir, include_dir

__all__ = ["ARCHITECTURES", "Compiler", "compiler_for"]

ARCHITECTURES = ("host", "sm90")
MINIMUM_GCC = 11

_HOST_FLAGS = ("-std=c++20", "-O2", "-DTK_ARCH_HOST=1")
_SM90_FLAGS = (
    *("-std=c++20", "-O3", "-DNDEBUG", "-DTK_ARCH_SM90=1", "--expt-relaxed-constexpr"),
    *("-gencode", "arch=compute_90a,code=sm_90a"),
)


@dataclass(frozen=True)
class Compiler:
    """A compiler with the flags of one architecture. `identity` is all of it that decides what it
    makes: path, version, flags, and the versions of CUTLASS and of the CUDA headers."""

    architecture: str
    program: str
    flags: tuple[str, ...]
    identity: str

    def command(self, sources: Sequence[Path], output: Path, extra: Sequence[str]) -> list[str]:
        """The line that makes one shared library of all sources, whatever their suffixes, and
        beside it, in a file of the suffix .d, the list of files that it read."""
        version_script = f"--version-script={cmake_dir() / 'extension.map'}"
        if self.architecture == "sm90":
            language = ["-x", "cu"]
            shared = ["-shared", "-Xcompiler=-fPIC,-fvisibility=hidden", "-cudart=static"]
            link = [f"-Xlinker={version_script}", "-Xlinker=--exclude-libs=ALL", "-Xptxas=-v"]
        else:
            language = ["-x", "c++"]
            shared = ["-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra"]
            link = [f"-Wl,{version_script}", "-fdiagnostics-color=never"]
        return [
            *(self.program, *self.flags, *extra, *shared, *link, "-o", str(output)),
            *(*language, *map(str, sources)),
        ]

    def dependencies_command(self, source: Path, extra: Sequence[str]) -> list[str]:
        """The line that prints, as make has it, which headers but those of the system, of tk and
        of CUTLASS a source includes."""
        language = "cu" if self.architecture == "sm90" else "c++"
        return [self.program, *self.flags, *extra, "-MM", "-x", language, str(source)]


def compiler_for(architecture: str) -> Compiler:
    """The compiler of an architecture. MissingToolError says what lacks and how to get it."""
    return _sm90_compiler() if architecture == "sm90" else _host_compiler()


def _cutlass() -> Path:
    cutlass = toolchain.cutlass_include()
    if cutlass is None:
        raise MissingToolError(f"CUTLASS was not found: {EXTRA} brings its headers")
    return cutlass


def _cuda_headers() -> toolchain.Toolkit:
    headers = toolchain.find_toolkit(cuda=False)
    if headers is None:
        raise MissingToolError(
            "the CUDA headers, which CuTe needs on the host as well, were not found: "
            f"{EXTRA} brings them, or put the nvcc of a CUDA toolkit of 12.4 or later on PATH"
        )
    return headers


def _system_folders(folders: Sequence[Path]) -> list[str]:
    return [flag for folder in folders for flag in ("-isystem", str(folder))]


def _host_compiler() -> Compiler:
    program = _gxx()
    cutlass, headers = _cutlass(), _cuda_headers()
    folders = [include_dir(), cutlass, *headers.includes]
    flags = (*_HOST_FLAGS, *_system_folders(folders))
    return Compiler("host", program, flags, _identity(program, flags, headers, cutlass))


def _sm90_compiler() -> Compiler:
    toolkit = toolchain.find_toolkit(cuda=True)
    if toolkit is None or toolkit.nvcc is None:
        raise MissingToolError(
            "no CUDA compiler was found (nvcc 12.4 or later on PATH, in CUDA_HOME or in "
            f"/usr/local/cuda): {EXTRA} brings NVIDIA's"
        )
    gxx = _gxx()  # nvcc leaves the host's part of a source to it
    libraries = [f"-L{toolkit.libraries}"] if toolkit.libraries else []
    cutlass = _cutlass()
    folders = _system_folders([include_dir(), cutlass])
    flags = (*_SM90_FLAGS, *libraries, "-ccbin", gxx, *folders)
    program = str(toolkit.nvcc)
    identity = _identity(program, flags, toolkit, cutlass) + _version(gxx)
    return Compiler("sm90", program, flags, identity)


def _gxx() -> str:
    """g++, or what CXX names, if it knows C++20 well enough."""
    named = os.environ.get("CXX") or "g++"
    found = shutil.which(named)
    if found is None:
        raise MissingToolError(
            f"the C++ compiler {named} was not found: install g++ {MINIMUM_GCC} or later from your "
            f"system's packages, or name another by CXX ({EXTRA} brings all else that is needed)"
        )
    text = _version(found)
    match = re.search(r"\) (\d+)\.", text)
    if match and "clang" not in text and int(match[1]) < MINIMUM_GCC:
        raise MissingToolError(
            f"{found} is version {match[1]}; must be {MINIMUM_GCC} or later: install a newer g++ "
            "from your system's packages, or name one by CXX"
        )
    return found


def _version(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return done.stdout


def _identity(program: str, flags: Sequence[str], toolkit: toolchain.Toolkit, cutlass: Path) -> str:
    version = cutlass / "cutlass" / "version.h"
    text = version.read_bytes() if version.exists() else b""
    parts = (program, _version(program), flags, hashlib.sha256(text).hexdigest(), toolkit.version)
    return repr(parts)
