"""A compiler's errors, trimmed to the lines of the user's own files.

An error inside tk or CUTLASS is told by its text (the static_assert says what was wrong) and by the
user's line that led there; the hundred lines of instantiations between them stay in the log.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

__all__ = ["trimmed"]

_MOST_ERRORS = 8
_MOST_LINES = 20  # of a log in which no error was recognised

# g++: FILE:LINE:COLUMN: error: TEXT; FILE:LINE:COLUMN:   required from here
_GCC_ERROR = re.compile(
    r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$"
)
_GCC_CONTEXT = re.compile(
    r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)?\s+(?:recursively )?(?:required|in .*expansion)"
)
_GCC_HEADING = re.compile(r"^[^\s:][^:]*: (?:In |At global scope)")
_INCLUDED = re.compile(r"(?:In file included| +)from (?P<file>[^:]+):(?P<line>\d+)")
# nvcc: FILE(LINE): error: TEXT, and under it: instantiation of "..." at line LINE of FILE
_NVCC_ERROR = re.compile(
    r"^(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$"
)
_NVCC_CONTEXT = re.compile(r"at line (?P<line>\d+) of (?P<file>.+?)$")
# The linker and ptxas name functions, not lines.
_OTHER_ERROR = re.compile(
    r"undefined reference|multiple definition|^ptxas .*\b(?:error|fatal)\b|^nvcc fatal"
)

_STATIC_ASSERT = re.compile(r'^static[ _]assert(?:ion)? failed(?: with|:)? *"?(?P<text>.*?)"?$')


@dataclass
class _Error:
    text: str
    file: str
    line: int
    own: tuple[Path, int] | None  # the user's line


def trimmed(output: str, user_files: Collection[Path], folder: Path | None = None) -> str:
    """The errors in a compiler's `output`: for each the user's file, line and source text, and what
    was wrong. The last lines of `output` if no error is recognised there. Paths are relative to
    `folder`, in which the compiler ran; by default the current one."""
    errors = _parse(output, user_files, folder or Path.cwd())
    shown: list[str] = []
    for error in errors:
        text = _one(error)
        if text not in shown:
            shown.append(text)
    others = [line for line in output.splitlines() if _OTHER_ERROR.search(line)]
    if not shown and others:
        shown = list(dict.fromkeys(others))
    if not shown:
        return "\n".join(output.strip().splitlines()[-_MOST_LINES:])
    more = len(shown) - _MOST_ERRORS
    rest = [f"... and {more} more errors"] if more > 0 else []
    return "\n".join([*shown[:_MOST_ERRORS], *rest])


def _parse(output: str, user_files: Collection[Path], folder: Path) -> list[_Error]:
    errors: list[_Error] = []
    own_context: tuple[Path, int] | None = None  # the innermost line of the user's before an error
    in_nvcc_error = False
    for line in output.splitlines():
        if match := _GCC_ERROR.match(line):
            own = _own(match, user_files, folder) or own_context
            errors.append(_Error(match["text"], match["file"], int(match["line"]), own))
            in_nvcc_error = False
        elif match := _NVCC_ERROR.match(line):
            own = _own(match, user_files, folder)
            errors.append(_Error(match["text"], match["file"], int(match["line"]), own))
            in_nvcc_error = True
        elif in_nvcc_error and (match := _NVCC_CONTEXT.search(line)):
            if errors[-1].own is None:
                errors[-1].own = _own(match, user_files, folder)
        elif _GCC_HEADING.match(line):
            own_context = None
        elif match := _GCC_CONTEXT.match(line) or _INCLUDED.search(line):
            own_context = own_context or _own(match, user_files, folder)
    return errors


def _own(
    match: re.Match[str], user_files: Collection[Path], folder: Path
) -> tuple[Path, int] | None:
    path = (folder / match["file"]).resolve()
    return (path, int(match["line"])) if path in user_files else None


def _one(error: _Error) -> str:
    text = error.text
    if match := _STATIC_ASSERT.match(text):
        text = match["text"] or text
    if error.own is None:
        return f"{error.file}:{error.line}: {text}"
    path, number = error.own
    try:
        source = path.read_text(errors="replace").splitlines()[number - 1].strip()
    except (OSError, IndexError):
        source = ""
    place = f"{path}:{number}: {text}"
    return f"{place}\n    {source}" if source else place
