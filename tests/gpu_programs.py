"""Compiles the C++ checks for a GPU, or takes them from the folder that the environment variable
TK_TEST_BINARIES names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tile_tables


def gpu_program(folder: Path, name: str, source: str, *flags: str) -> Path:
    """The program `name`, made from a file of tests/cpp in a folder of its own."""
    prebuilt = os.environ.get("TK_TEST_BINARIES")
    if prebuilt is not None:
        return Path(prebuilt) / name
    if tile_tables.tool("nvcc") is None:
        pytest.skip("needs nvcc")
    own = folder / name
    own.mkdir()
    return tile_tables.compile_cuda(tile_tables.ROOT / "tests" / "cpp" / source, own, *flags)
