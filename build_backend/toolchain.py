"""Finds the CUDA compiler, the CUDA headers and CUTLASS: the one place that both the build
backend and CMake ask, so that they cannot disagree.

A system toolkit of 12.4 or later comes first; otherwise NVIDIA's compiler wheels, which the
backend adds to the build requirements. With TK_IGNORE_SYSTEM_CUDA=1 in the environment a system
toolkit is not looked for. Run as a program it prints what it found as JSON:

    python build_backend/toolchain.py            everything
    python build_backend/toolchain.py --flags    -isystem flags for g++, to compile for the host
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MINIMUM_CUDA = (12, 4)
WHEEL_VERSION = "13.0.*"
HEADER_WHEELS = ("nvidia-cuda-runtime", "nvidia-cuda-cccl", "nvidia-cuda-crt")
COMPILER_WHEELS = (*HEADER_WHEELS, "nvidia-cuda-nvcc", "nvidia-nvvm")
USUAL_HOME = "/usr/local/cuda"
IGNORE_SYSTEM = "TK_IGNORE_SYSTEM_CUDA"


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit: `root` holds bin/nvcc (absent when only headers are there)."""

    root: Path
    version: tuple[int, int]
    origin: str  # "system" or "wheels"
    nvcc: Path | None

    @property
    def includes(self) -> list[Path]:
        """The folders to include, in order; the C++ core libraries have their own since 13.0."""
        found = [folder for folder in _include_folders(self.root) if _has_headers(folder)]
        return found[:1] + [folder / "cccl" for folder in found[:1] if (folder / "cccl").is_dir()]

    @property
    def libraries(self) -> Path | None:
        """The folder of libcudart_static.a; the wheels' is not where their nvcc looks."""
        for name in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            if (self.root / name / "libcudart_static.a").exists():
                return self.root / name
        return None


def _include_folders(root: Path) -> list[Path]:
    names = ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
    return [root / name for name in names]


def _has_headers(folder: Path) -> bool:
    core = (folder / "cuda" / "std", folder / "cccl" / "cuda" / "std")
    return (
        (folder / "cuda_runtime_api.h").exists()
        and (folder / "crt" / "host_defines.h").exists()
        and any(path.is_dir() for path in core)
    )


def _header_version(root: Path) -> tuple[int, int] | None:
    """The version that cuda_runtime_api.h says, as in `#define CUDART_VERSION 13000`."""
    for folder in _include_folders(root):
        if _has_headers(folder):
            text = (folder / "cuda_runtime_api.h").read_text(errors="replace")
            if match := re.search(r"#define\s+CUDART_VERSION\s+(\d+)", text):
                return divmod(int(match[1]) // 10, 100)
    return None


def _nvcc_version(nvcc: Path) -> tuple[int, int] | None:
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r"release (\d+)\.(\d+)", done.stdout)
    return (int(match[1]), int(match[2])) if match else None


def _nvcc_root(nvcc: Path) -> Path:
    """Where an nvcc has its toolkit, by its own word: the file may be a wrapper or a link."""
    done = subprocess.run(
        [nvcc, "--dryrun", "-E", "-x", "cu", os.devnull],
        capture_output=True,
        text=True,
        check=False,
    )
    match = re.search(r"^#\$ TOP=(.+)$", done.stderr, re.MULTILINE)
    return Path(match[1]).resolve() if match else nvcc.resolve().parent.parent


def _homes() -> list[Path]:
    """Where toolkits are installed, as far as the environment says, and where they usually are."""
    named = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), USUAL_HOME)
    return [Path(home) for home in named if home]


def _compilers() -> list[Path]:
    named = (os.environ.get("CUDACXX"), shutil.which("nvcc"))
    *homes, usual = [home / "bin" / "nvcc" for home in _homes()]
    ordered = [named[0], *homes, named[1], usual]
    return [Path(path) for path in ordered if path and Path(path).exists()]


def system_compiler() -> Toolkit | None:
    """The first toolkit with an nvcc that is new enough: $CUDACXX, $CUDA_HOME, $CUDA_PATH, PATH,
    /usr/local/cuda."""
    if os.environ.get(IGNORE_SYSTEM):
        return None
    for nvcc in _compilers():
        version = _nvcc_version(nvcc)
        if version and version >= MINIMUM_CUDA:
            root = _nvcc_root(nvcc)
            own = root / "bin" / "nvcc"
            return Toolkit(root, version, "system", own if own.exists() else nvcc)
    return None


def system_headers() -> Toolkit | None:
    """A toolkit of which only the headers are needed (a host-only build)."""
    if compiler := system_compiler():
        return compiler if compiler.includes else None
    if os.environ.get(IGNORE_SYSTEM):
        return None
    for home in _homes():
        version = _header_version(home)
        if version and version >= MINIMUM_CUDA:
            return Toolkit(home, version, "system", None)
    return None


def wheel_toolkit() -> Toolkit | None:
    """NVIDIA's compiler wheels (or their headers alone) beside this Python's packages."""
    spec = importlib.util.find_spec("nvidia")
    for parent in (spec.submodule_search_locations or []) if spec else []:
        root = Path(parent) / f"cu{WHEEL_VERSION.split('.')[0]}"
        version = _header_version(root)
        if version and version >= MINIMUM_CUDA:
            complete = all((root / part).exists() for part in ("bin/nvcc", "nvvm/bin/cicc"))
            return Toolkit(root, version, "wheels", root / "bin" / "nvcc" if complete else None)
    return None


def find_toolkit(cuda: bool) -> Toolkit | None:
    """The toolkit to build with, or None: for `cuda` it has a compiler, else at least headers."""
    if not cuda:
        return system_headers() or wheel_toolkit()
    found = system_compiler() or wheel_toolkit()
    return found if found and found.nvcc and found.includes else None


def required_wheels(cuda: bool) -> list[str]:
    """The build requirements that make up for what the system lacks."""
    if cuda and system_compiler() is None:
        return [f"{name}=={WHEEL_VERSION}" for name in COMPILER_WHEELS]
    if not cuda and system_headers() is None:
        return [f"{name}=={WHEEL_VERSION}" for name in HEADER_WHEELS]
    return []


def cutlass_include() -> Path | None:
    """The include folder of the nvidia-cutlass package."""
    spec = importlib.util.find_spec("cutlass_library")
    for parent in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(parent) / "source" / "include"
        if (folder / "cute" / "tensor.hpp").exists():
            return folder
    return None


def include_folders() -> list[Path]:
    """CUTLASS and the CUDA headers, as a host compiler needs them. Raises RuntimeError."""
    toolkit, cutlass = find_toolkit(cuda=False), cutlass_include()
    if toolkit is None or cutlass is None:
        wanted = [f"'{name}=={WHEEL_VERSION}'" for name in HEADER_WHEELS]
        raise RuntimeError(
            "CUTLASS or the CUDA headers are missing: pip install nvidia-cutlass "
            + " ".join(wanted)
        )
    return [cutlass, *toolkit.includes]


def _report() -> dict[str, object]:
    report: dict[str, object] = {"cutlass": str(cutlass_include() or "")}
    for name, cuda in (("compiler", True), ("headers", False)):
        toolkit = find_toolkit(cuda)
        report[name] = toolkit and {
            "origin": toolkit.origin,
            "version": "{}.{}".format(*toolkit.version),
            "nvcc": str(toolkit.nvcc or ""),
            "includes": ";".join(map(str, toolkit.includes)),
            "libraries": str(toolkit.libraries or ""),
        }
    return report


if __name__ == "__main__":
    if "--flags" in sys.argv:
        print(" ".join(f"-isystem {folder}" for folder in include_folders()))
    else:
        print(json.dumps(_report(), indent=1))
