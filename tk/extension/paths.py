"""Where the installed headers and the CMake package are, and where compiled kernels are kept."""

from __future__ import annotations

from pathlib import Path

from tk.user_cache import CACHE_VARIABLE, user_cache_dir

__all__ = ["CACHE_VARIABLE", "cmake_dir", "extension_cache_dir", "include_dir"]


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
    return user_cache_dir() / "extensions"
