"""JSON files that are kept between processes: their names, writing one, and what can be wrong with
one that is read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tk.schedulers.files import replace_file, sweep

__all__ = ["digest", "put_record", "read_record", "words"]

_LARGEST_FILE = 1 << 20  # bytes; ours have some two thousand
_DIGITS = 16  # hexadecimal ones of a digest in a name


def digest(value: Any) -> str:
    """What tells plain values from others in a file's name, in 16 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def words(text: str) -> str:
    """Text as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:100]


def put_record(path: Path, record: Mapping[str, Any]) -> None:
    """Writes plain values in one step; the folder is made. OSError when that cannot be."""
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    try:
        for attempts_left in (2, 1, 0):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                replace_file(path, text)
            except FileNotFoundError:  # the folder was cleared meanwhile
                if not attempts_left:
                    raise
            else:
                return
    finally:
        sweep(path.parent)


def read_record(path: Path, what: str, form: str, version: int) -> dict[str, Any]:
    """What `put_record` wrote: its "format" is `form`, which is called `what`, its "version" that.

    OSError when the file cannot be read, ValueError says what else is wrong.
    """
    with path.open("rb") as file:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise ValueError("it is too long")
    try:
        record = json.loads(content.decode())
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON, or was cut off: {error}") from None
    except UnicodeDecodeError:
        raise ValueError("it is no text, and so no JSON") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(record, dict) or record.get("format") != form:
        raise ValueError(f"it is no {what}")
    found = record.get("version")
    if found != version:
        newer = isinstance(found, int) and found > version
        whose = "a newer tk" if newer else "another tk"
        raise ValueError(f"{whose} wrote it, with format version {found!r}; this reads {version}")
    return record
