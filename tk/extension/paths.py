"""Where the installed headers and the CMake package are, and where compiled kernels are kept."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CACHE_VARIABLE", "cmake_dir", "extension_cache_dir", "include_dir"]

CACHE_VARIABLE = "TK_CACHE_DIR"


def _installed() -> Path:
    """The folder of what the build installed, which an editable install keeps apart."""
    from tk import _binding

    assert _binding.__file__ is not None
    return Path(_binding.__file__).parent


def include_dir() -> Path:
    """The folder to give to a compiler as -I or -isystem, so that "tk/tk.hpp" is found. CUTLASS and
    the CUDA headers are needed beside it: ``tk flags`` prints the whole line."""
    return _installed() / "include"


def cmake_dir() -> Path:
    """The folder of tkConfig.cmake, for ``cmake -Dtk_DIR=...``; projects that scikit-build-core
    builds find it by themselves."""
    return _installed() / "cmake"


def extension_cache_dir() -> Path:
    """Where `tk.load` keeps what it compiled: $TK_CACHE_DIR/extensions, by default
    ~/.cache/tk/extensions ($XDG_CACHE_HOME is heeded). It may be removed at any time."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given) / "extensions"
    usual = os.environ.get("XDG_CACHE_HOME")
    return (Path(usual) if usual else Path.home() / ".cache") / "tk" / "extensions"
