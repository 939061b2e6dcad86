"""Kernels of the user's own on top of tk: compiled, kept, and called with tensors.

`tk.load`, `tk.open_extension`, `tk.include_dir` and `tk.cmake_dir` are defined here.
"""

from tk.extension.errors import CompileError, MissingToolError
from tk.extension.extension import Extension, load, open_extension
from tk.extension.paths import cmake_dir, extension_cache_dir, include_dir

__all__ = [
    "CompileError",
    "Extension",
    "MissingToolError",
    "cmake_dir",
    "extension_cache_dir",
    "include_dir",
    "load",
    "open_extension",
]
