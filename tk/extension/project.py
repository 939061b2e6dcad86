"""The files of ``tk new``: a project with a kernel, its binding, its test and how to go on."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from pathlib import Path

__all__ = ["check_name", "write_project"]

_TEMPLATES = Path(__file__).parent / "template"
_FILES = {
    "README.md": "readme.md.in",
    "pyproject.toml": "pyproject.toml.in",
    "{name}/__init__.py": "binding.py.in",
    "{name}/{name}.hpp": "kernel.hpp.in",
    "tests/test_{name}.py": "test.py.in",
}
# Of the project's own files, of the packages that it imports, and of PyTorch's operations.
_TAKEN = frozenset(
    {
        "tk",
        "torch",
        "test",
        "tests",
        "pytest",
        "kernel",
        "numpy",
        "conftest",
        "aten",
        "prim",
        "prims",
    }
)


def check_name(name: str) -> None:
    """ValueError for what cannot be the name of a Python package and of a C++ function."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(
            f"NAME is {name!r}; must be a Python identifier of lower-case letters, digits and _"
        )
    # The package would be found in the place of a module of Python's, and hide a built-in function.
    if name in _TAKEN or name in sys.stdlib_module_names or name in dir(builtins):
        raise ValueError(f"NAME is {name!r}, which is taken; must be another")


def write_project(name: str, folder: Path) -> list[Path]:
    """Writes the project into a folder that does not exist or is empty, and returns its files.
    FileExistsError for any other."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "a folder that is not empty" if folder.is_dir() else "a file"
        raise FileExistsError(f"{folder} is {what}; give another by --directory")
    written = []
    for target, template in _FILES.items():
        path = folder / target.format(name=name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        path.write_text(text.replace("@NAME@", name), encoding="utf-8")
        written.append(path)
    return written
