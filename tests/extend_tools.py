"""What the tests of extensions share: one cache for the session, and the compilers they need."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import background
import pytest

from tk.extension import MissingToolError
from tk.extension.compiler import compiler_for

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "tests" / "cpp" / "extend_kernels.hpp"


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tk-extend-")  # goes with the session


_BUILD = "import sys, tk; tk.load(sys.argv[1], arch='host').build_log('host')"


@cache
def start_build(source: Path) -> None:
    """Starts to compile a source into the session's cache, where tk.load then finds it, or waits
    for it. What goes wrong is left for tk.load to say."""
    command = [sys.executable, "-c", _BUILD, str(source)]
    background.Task(partial(background.run, command, environment={"TK_CACHE_DIR": _folder().name}))


@pytest.fixture(scope="module")
def session_cache() -> Iterator[Path]:
    """A cache of the session's own in place of the user's: every source is compiled once."""
    before = os.environ.get("TK_CACHE_DIR")
    os.environ["TK_CACHE_DIR"] = _folder().name
    try:
        compiler_for("host")
    except MissingToolError as error:
        pytest.skip(str(error))
    yield Path(_folder().name)
    if before is None:
        del os.environ["TK_CACHE_DIR"]
    else:
        os.environ["TK_CACHE_DIR"] = before


def counting_compiler(folder: Path) -> tuple[Path, Path]:
    """A g++ that adds a line to a file for every library it makes: the program and the file."""
    calls = folder / "calls"
    calls.touch()
    program = folder / "counting-g++"
    real = shutil.which("g++")
    program.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *-shared*) echo "$*" >> {calls}; sleep 0.5;; esac\n'
        f'exec {real} "$@"\n'
    )
    program.chmod(0o755)
    return program, calls
