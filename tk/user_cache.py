"""The folder of what is kept between processes: compiled extensions, tuned plans."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CACHE_VARIABLE", "user_cache_dir"]

CACHE_VARIABLE = "TK_CACHE_DIR"


def user_cache_dir() -> Path:
    """$TK_CACHE_DIR, by default ~/.cache/tk ($XDG_CACHE_HOME is heeded). RuntimeError when no home
    folder is known."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    usual = os.environ.get("XDG_CACHE_HOME")
    return (Path(usual) if usual else Path.home() / ".cache") / "tk"
