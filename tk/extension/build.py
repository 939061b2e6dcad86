"""Compiling a user's kernel once: kept on disk by content, safe from threads and processes that
want the same one at the same time.

A build is a folder NAME-ARCHITECTURE-KEY of the cache with the library and the compiler's log. It
is made under another name and renamed when it is whole, by whoever holds the lock file beside it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
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
_LONGEST_NAME = 100  # bytes of a file's name, which has 255


def build(
    name: str,
    sources: Sequence[Path],
    architecture: str,
    flags: Sequence[str],
    verbose: bool,
    folder: Path | None = None,
) -> Path:
    """The folder with the library of the sources for an architecture, compiled if it is not there
    yet. The flags are relative to `folder`, by default the current one. CompileError or
    MissingToolError; OSError if the cache cannot be written."""
    compiler = compiler_for(architecture)
    base = folder or Path.cwd()
    files = user_files(sources, flags, base)
    if has_computed_include(files.values()):
        for path in _compilers_word(compiler, sources, flags, base):
            files.setdefault(path, path.read_bytes())
    key = build_key(files, sources, compiler.identity, flags)
    short = os.fsencode(name)[:_LONGEST_NAME].decode(errors="ignore")
    for attempts_left in (2, 1, 0):
        made = _writable_cache() / f"{short}-{architecture}-{key}"
        if _is_whole(made):
            return made
        try:
            with _locked(_beside(made, ".lock")):
                if _is_whole(made):  # by whoever held the lock
                    return made
                if verbose:
                    print(
                        f"tk.load: compiling {name} for {architecture}", file=sys.stderr, flush=True
                    )
                _compile(compiler, sources, flags, base, set(files), made, verbose)
                return made
        except FileNotFoundError:  # somebody removes the cache, as they may
            if not attempts_left:
                raise
    raise AssertionError


def _beside(folder: Path, suffix: str) -> Path:
    """A file for a build beside its folder, whose name may have dots."""
    return folder.parent / (folder.name + suffix)


def _compile(
    compiler: Compiler,
    sources: Sequence[Path],
    flags: Sequence[str],
    base: Path,
    files: set[Path],
    folder: Path,
    verbose: bool,
) -> None:
    with _unfinished(folder) as unfinished:
        command = compiler.command(sources, unfinished / LIBRARY, flags)
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd=base
        )
        output = done.stdout.decode(errors="replace")
        text = f"$ {shlex.join(command)}\n{output}"
        if verbose:
            sys.stderr.write(text)
        if not unfinished.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the cache was removed", str(unfinished))
        if done.returncode != 0:
            log = _beside(folder, ".log")
            log.write_text(text)
            first = ", ".join(map(str, sources))
            raise CompileError(
                f"tk.load: {first} does not compile for {compiler.architecture}:\n"
                f"{trimmed(output, files, base)}\n"
                f"All that {Path(compiler.program).name} said: {log}",
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
    compiler: Compiler, sources: Sequence[Path], flags: Sequence[str], base: Path
) -> Iterator[Path]:
    """The user's files that the preprocessor reads."""
    for source in sources:
        command = compiler.dependencies_command(source, flags)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=base)
        for name in shlex.split(done.stdout.replace("\\\n", " "))[1:]:
            if (base / name).is_file():
                yield (base / name).resolve()


def _writable_cache() -> Path:
    cache = extension_cache_dir()
    with _naming_the_variable(cache):
        cache.mkdir(parents=True, exist_ok=True)
    return cache.absolute()


@contextlib.contextmanager
def _naming_the_variable(path: Path) -> Iterator[None]:
    """An OSError in the cache says how to have it elsewhere."""
    try:
        yield
    except OSError as error:
        raise type(error)(
            error.errno,
            f"{error.strerror}; the environment variable {CACHE_VARIABLE} names another folder for "
            "what tk.load compiles",
            str(path),
        ) from None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock file, against other processes and against other threads of this one."""
    with _naming_the_variable(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # and unlocks


@contextlib.contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A folder beside the given one, under its lock, that is gone afterwards unless it was
    renamed."""
    prefix = f".{folder.name}-"
    for abandoned in folder.parent.glob(glob.escape(prefix) + "*"):  # by a process that was killed
        shutil.rmtree(abandoned, ignore_errors=True)
    with _naming_the_variable(folder):
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
