"""Files that appear whole or not at all, however many processes write them and whenever one dies.

A file is written under a name of its own beside its target and renamed onto it. While it is
written it is locked, so that `sweep` can tell one whose writer was killed from one in the making.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

__all__ = ["UNFINISHED", "replace_file", "sweep"]

UNFINISHED = ".unfinished"
"""How the names of files in the making end."""


def replace_file(path: Path, text: str) -> None:
    """Writes a text file in one step: readers see the former file or this one, never a part.

    Links are followed, and what is no file (a pipe, a device) is written to: renaming onto it would
    take it away from everybody. OSError when it cannot be written; a former file is then as it was,
    and nothing else is left.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as device:
            device.write(text.encode())
        return
    target = Path(os.path.realpath(path))
    while not _written(target, text.encode()):
        pass  # another process took the file for an abandoned one, before it was locked


def _written(target: Path, content: bytes) -> bool:
    unfinished = target.parent / f".{target.name}.{secrets.token_hex(8)}{UNFINISHED}"
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        _lock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink == 0:
            return False
        written = 0
        while written < len(content):
            written += os.write(handle, content[written:])
        os.fsync(handle)  # a full disk is found out here, while the former file still stands
        os.replace(unfinished, target)
        return True
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
    finally:
        os.close(handle)


def sweep(folder: Path) -> int:
    """Removes files whose writers died before they were whole; returns how many.

    Those that are being written are left alone. Does nothing where it may not.
    """
    swept = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") and entry.name.endswith(UNFINISHED):
                swept += _swept(entry.path)
    return swept


def _swept(path: str) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # finished meanwhile, or another user's
        return False
    try:
        # By name while the lock is held: the writer, who locks next, sees that it has no name.
        if not _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return False
        os.unlink(path)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def _lock(handle: int, how: int) -> bool:
    """Whether the lock was had; some network file systems have none."""
    try:
        fcntl.flock(handle, how)
        return True
    except OSError:
        return False
