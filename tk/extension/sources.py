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
_COMPUTED = re.compile(rb"^[ \t]*#[ \t]*include[ \t]+[A-Za-z_]", re.MULTILINE)
_EXPORT = re.compile(rb"\bTK_EXPORT(?:_AS)?\s*\(\s*(\w+)")


def resolve_sources(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> list[Path]:
    """The sources as absolute paths. TypeError or ValueError names what cannot be one."""
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


def user_files(sources: Sequence[Path], flags: Sequence[str]) -> dict[Path, bytes]:
    """The sources and every header that they include, directly or not, from their own folders and
    from those that `flags` name by -I: path and content. What a macro names is not seen: see
    `has_computed_include`."""
    searched = _named_folders(flags)
    found: dict[Path, bytes] = {}
    pending = [path.resolve() for path in sources]
    while pending:
        path = pending.pop()
        if path in found:
            continue
        found[path] = path.read_bytes()
        for quoted, angled in _INCLUDE.findall(found[path]):
            name = os.fsdecode(quoted or angled)
            for folder in ([path.parent] if quoted else []) + searched:
                if (folder / name).is_file():
                    pending.append((folder / name).resolve())
                    break
    return found


def has_computed_include(files: Iterable[bytes]) -> bool:
    """Whether a file includes what a macro names; then only the compiler knows what is read."""
    return any(_COMPUTED.search(text) for text in files)


def _named_folders(flags: Sequence[str]) -> list[Path]:
    folders = []
    for flag, following in zip(flags, [*flags[1:], "."], strict=False):
        if flag == "-I":
            folders.append(Path(following))
        elif flag.startswith("-I"):
            folders.append(Path(flag[2:]))
    return folders


def exported_names(files: Iterable[bytes]) -> list[str]:
    """The names that TK_EXPORT makes callable, as far as the text shows them."""
    names = (os.fsdecode(name) for text in files for name in _EXPORT.findall(text))
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
