"""Compiling a user's kernel once: kept on disk by content, safe from threads and processes that
want the same one at the same time.

A build is a folder NAME-ARCHITECTURE-KEY of the cache with the library and the compiler's log. It
is made under another name and renamed when it is whole, by whoever holds the lock file beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tk.extension.compiler import Compiler, compiler_for
from tk.extension.diagnostics import trimmed
from tk.extension.errors import CompileError
from tk.extension.paths import CACHE_VARIABLE, extension_cache_dir
from tk.extension.sources import build_key, has_computed_include, user_files

__all__ = ["LIBRARY", "LOG", "build"]

LIBRARY = "library.so"
LOG = "build.log"
_CHECKSUM = "library.sha256"


def build(
    name: str, sources: Sequence[Path], architecture: str, flags: Sequence[str], verbose: bool
) -> Path:
    """The folder with the library of the sources for an architecture, compiled if it is not there
    yet. CompileError or MissingToolError; OSError if the cache cannot be written."""
    compiler = compiler_for(architecture)
    files = user_files(sources, flags)
    if has_computed_include(files.values()):
        for path in _compilers_word(compiler, sources, flags):
            files.setdefault(path, path.read_bytes())
    key = build_key(files, sources, compiler.identity, flags)
    folder = _writable_cache() / f"{name}-{architecture}-{key}"
    if _is_whole(folder):
        return folder
    with _locked(folder.with_suffix(".lock")):
        if _is_whole(folder):  # made by whoever held the lock
            return folder
        if verbose:
            print(f"tk.load: compiling {name} for {architecture}", file=sys.stderr, flush=True)
        _compile(compiler, sources, flags, set(files), folder, verbose)
    return folder


def _compile(
    compiler: Compiler,
    sources: Sequence[Path],
    flags: Sequence[str],
    files: set[Path],
    folder: Path,
    verbose: bool,
) -> None:
    with _unfinished(folder) as unfinished:
        command = compiler.command(sources, unfinished / LIBRARY, flags)
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        output = done.stdout.decode(errors="replace")
        text = f"$ {shlex.join(command)}\n{output}"
        if verbose:
            sys.stderr.write(text)
        if done.returncode != 0:
            log = folder.with_suffix(".log")
            log.write_text(text)
            first = ", ".join(map(str, sources))
            raise CompileError(
                f"tk.load: {first} does not compile for {compiler.architecture}:\n"
                f"{trimmed(output, files)}\nAll that {Path(compiler.program).name} said: {log}",
                log,
            )
        (unfinished / LOG).write_text(text)
        (unfinished / _CHECKSUM).write_text(_checksum(unfinished / LIBRARY))
        if folder.exists():  # damaged: by a full disk, by someone's hand
            shutil.rmtree(folder)
        unfinished.rename(folder)


def _checksum(library: Path) -> str:
    return hashlib.sha256(library.read_bytes()).hexdigest()


def _is_whole(folder: Path) -> bool:
    """Whether the library is there as it was made: a truncated one would end the process that opens
    it."""
    try:
        return (folder / _CHECKSUM).read_text() == _checksum(folder / LIBRARY)
    except OSError:
        return False


def _compilers_word(
    compiler: Compiler, sources: Sequence[Path], flags: Sequence[str]
) -> Iterator[Path]:
    """The user's files that the preprocessor reads."""
    for source in sources:
        command = compiler.dependencies_command(source, flags)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        for name in shlex.split(done.stdout.replace("\\\n", " "))[1:]:
            if Path(name).is_file():
                yield Path(name).resolve()


def _writable_cache() -> Path:
    cache = extension_cache_dir()
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(
            error.errno,
            f"{error.strerror}; the environment variable {CACHE_VARIABLE} names another folder for "
            "what tk.load compiles",
            str(cache),
        ) from None
    return cache


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock file, against other processes and against other threads of this one."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # and unlocks


@contextlib.contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A folder beside the given one that is gone afterwards unless it was renamed."""
    path = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
