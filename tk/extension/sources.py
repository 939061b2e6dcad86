"""A user's sources and the headers of theirs that they include, and what identifies a build."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from tk.extension.paths import cmake_dir, include_dir

__all__ = ["build_key", "exported_names", "has_computed_include", "resolve_sources", "user_files"]

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
_COMPUTED = re.compile(
    rb'^[ \t]*#[ \t]*(?:include(?![ \t]*["<])|include_next|import|embed)', re.MULTILINE
)
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define\b(?:[^\\\n]|\\\r?\n|\\.)*", re.MULTILINE)
_EXPORT = re.compile(rb"\bTK_EXPORT(?:_AS)?\s*\(\s*(\w+)")
# How a compiler is told of folders to search, and of files to read before a source.
_FOLDER_FLAGS = ("-I", "-isystem", "-iquote", "-idirafter", "--include-path=", "--system-include=")
_FILE_FLAGS = ("-include", "-imacros", "--pre-include=")
_FOLDER_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH")


def resolve_sources(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> list[Path]:
    """The sources as absolute paths. TypeError or ValueError names what cannot be one."""
    if isinstance(sources, bytes) or not isinstance(sources, (str, os.PathLike, Iterable)):
        raise TypeError(f"tk.load: sources is {type(sources).__name__}; must be a path or several")
    given = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    if not given:
        raise ValueError("tk.load: sources is empty; must be a path or several")
    paths = []
    for source in given:
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(
                f"tk.load: sources has a {type(source).__name__}; must be a path or several"
            )
        path = Path(source)
        if not path.is_file():
            what = "a folder" if path.is_dir() else "no file"
            raise ValueError(f"tk.load: sources has {source}, which is {what}; must be a C++ file")
        paths.append(path.absolute())
    return paths


def user_files(
    sources: Sequence[Path], flags: Sequence[str], folder: Path | None = None
) -> dict[Path, bytes]:
    """The sources and every header that they include, directly or not, from their own folders and
    from those that `flags` or the environment name: path and content. Flags are relative to
    `folder`, by default the current one. Of a name that several folders have, all count: which is
    read is the compiler's affair. What a macro names is not seen: see `has_computed_include`."""
    base = folder or Path.cwd()
    searched = [base / one for one in _named(flags, _FOLDER_FLAGS) + _environment_folders()]
    found: dict[Path, bytes] = {}
    visited: set[tuple[Path, Path]] = set()
    pending = [base / path for path in sources]
    for name in _named(flags, _FILE_FLAGS):
        pending += [one / name for one in (base, *searched) if (one / name).is_file()]
    while pending:
        path = pending.pop()
        # A link's neighbours are those of the link, not of the file that it leads to.
        real, own_folder = path.resolve(), path.parent.resolve()
        if (real, own_folder) in visited:
            continue
        visited.add((real, own_folder))
        found[real] = real.read_bytes()
        for quoted, angled in _INCLUDE.findall(found[real]):
            name = os.fsdecode(quoted or angled)
            for each in ([own_folder] if quoted else []) + searched:
                if (each / name).is_file():
                    pending.append(each / name)
    return found


def has_computed_include(files: Iterable[bytes]) -> bool:
    """Whether a file includes what a macro names, or in another way than by a plain #include; then
    only the compiler knows what is read."""
    return any(_COMPUTED.search(text) for text in files)


def _named(flags: Sequence[str], words: Sequence[str]) -> list[str]:
    """What the flags of these words name, joined to the word or after it."""
    found = []
    for flag, following in zip(flags, [*flags[1:], ""], strict=False):
        for word in words:
            if flag == word.rstrip("="):
                found.append(following)
            elif flag.startswith(word):
                found.append(flag[len(word) :])
    return found


def _environment_folders() -> list[str]:
    named = [os.environ.get(variable) for variable in _FOLDER_VARIABLES]
    return [folder for text in named if text for folder in text.split(os.pathsep)]


def exported_names(files: Iterable[bytes]) -> list[str] | None:
    """The names that TK_EXPORT makes callable, as the text shows them; None if a macro of the
    user's exports, so that only a compiled library tells."""
    names: list[str] = []
    for text in files:
        if any(_EXPORT.search(define) for define in _DEFINE.findall(text)):
            return None
        names += (os.fsdecode(name) for name in _EXPORT.findall(text))
    return list(dict.fromkeys(names))


def build_key(
    files: dict[Path, bytes], sources: Sequence[Path], identity: str, flags: Sequence[str]
) -> str:
    """The name of a build: changes with the content of any file (also of tk's own headers), the
    order of the sources, the compiler, the flags and tk's version; not with the folder in which
    they all are."""
    from tk import __version__

    common = os.path.commonpath([path.parent for path in files])
    names = {path: os.path.relpath(path, common) for path in files}
    ordered = [names[source.resolve()] for source in sources]
    digest = hashlib.sha256()
    for part in (__version__, identity, repr(tuple(flags)), repr(ordered)):
        digest.update(part.encode() + b"\0")
    for path in sorted(files, key=lambda each: names[each]):
        digest.update(os.fsencode(names[path]) + b"\0" + hashlib.sha256(files[path]).digest())
    digest.update(_headers_digest(_headers_stamp()))
    return digest.hexdigest()[:20]


def _headers() -> list[Path]:
    folder = include_dir()
    return [*sorted(p for p in folder.rglob("*") if p.is_file()), cmake_dir() / "extension.map"]


def _headers_stamp() -> tuple[tuple[str, int, int], ...]:
    stats = ((path, path.stat()) for path in _headers())
    return tuple((str(path), stat.st_mtime_ns, stat.st_size) for path, stat in stats)


@lru_cache(maxsize=4)
def _headers_digest(stamp: tuple[tuple[str, int, int], ...]) -> bytes:
    """Of the content of tk's headers, read again only when a file's time or size changed."""
    digest = hashlib.sha256()
    for path, _, _ in stamp:
        digest.update(path.encode() + b"\0" + hashlib.sha256(Path(path).read_bytes()).digest())
    return digest.digest()
