"""What the commands share: their errors, checks of files to write, and the type of a parser."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class UsageError(Exception):
    """An argument that makes no sense; exit code 2."""


class CommandError(Exception):
    """Something that failed; exit code 1."""


def check_writable(path: str | None) -> None:
    """Says before minutes of work that a file cannot be written after them; UsageError."""
    if path is None:
        return
    target = Path(path)
    folder = target.parent
    if not folder.is_dir():
        raise UsageError(f"cannot write {path}: {folder} is no folder")
    if target.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder")
    # A file is replaced by another in its folder; what is none (a pipe, /dev/null) is written to.
    in_folder = not target.exists() or target.is_file()
    if in_folder and not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}: no permission")
    if target.exists() and not os.access(target, os.W_OK):
        raise UsageError(f"cannot write {path}: no permission")


def in_words(error: OSError) -> str:
    """An operating-system error without its number: "FILE: No such file or directory"."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)
