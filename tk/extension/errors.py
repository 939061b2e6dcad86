"""What can go wrong in compiling a user's kernel."""

from __future__ import annotations

from pathlib import Path

__all__ = ["EXTRA", "CompileError", "MissingToolError"]

EXTRA = "pip install 'tk-cute[extend]'"


class MissingToolError(RuntimeError):
    """A compiler, CUTLASS or the CUDA headers are not there; the message says how to get them."""


class CompileError(RuntimeError):
    """A kernel does not compile. `log` is the file with all that the compiler said."""

    def __init__(self, message: str, log: Path) -> None:
        super().__init__(message)
        self.log = log
