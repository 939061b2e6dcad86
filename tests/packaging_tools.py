"""What the packaging tests share: the installed package's files, and build_backend's modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


def build_module(name: str) -> ModuleType:
    """A module of build_backend/, which is not installed. Fresh at each call."""
    path = ROOT / "build_backend" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


toolchain = build_module("toolchain")


def binding_path() -> Path:
    """The compiled binding; the libraries and the headers are installed beside it."""
    from tk import _binding

    assert _binding.__file__ is not None
    return Path(_binding.__file__)


def include_folder() -> Path:
    """The folder to include, so that "tk/tk.hpp" is found."""
    return binding_path().parent / "include"


def libraries() -> list[Path]:
    return sorted((binding_path().parent / "lib").glob("libtk_*.so"))
