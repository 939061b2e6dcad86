"""Runs the rows of a record one after another, saved after each, and goes on where a run stopped.

A resumed record must be of one machine and one build: ratios are taken within a row, but means and
comparisons are of the whole.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tk.benchmarks.record import PREDICTED, Environment, Record, Row

Progress = Callable[[int, int, str], None]
"""Called with the number of steps done, of all, and what comes next."""

Save = Callable[[Record], None]
"""Called with the record so far, after every row."""

_ENVIRONMENT = ("device", "architecture", "driver", "num_sms", "machine", "git_revision")


class ResumeError(ValueError):
    """A record that cannot be gone on with; the message says what differs."""


@dataclass(frozen=True)
class Work:
    """A row to measure: what it is of, and how."""

    m: int
    n: int
    k: int
    layout: str
    measure: Callable[[], Row]
    group: str | None = None  # where it tells rows apart

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k} {self.layout}"

    def made(self, row: Row) -> bool:
        """Whether a row is of this work."""
        same = (self.m, self.n, self.k, self.layout) == (row.m, row.n, row.k, row.layout)
        return same and self.group in (None, row.group)


def ignore_progress(done: int, total: int, text: str) -> None:
    """Shows nothing."""


def ignore_record(record: Record) -> None:
    """Saves nothing."""


def run_rows(
    empty: Record,
    work: Sequence[Work],
    *,
    kept: Record | None = None,
    progress: Progress = ignore_progress,
    save: Save = ignore_record,
    budget_seconds: float | None = None,
) -> Record:
    """Measures the rows that ``kept``, an earlier part of the same run, lacks.

    ``empty`` holds the suite, the environment and the settings of now. No new row is begun after
    ``budget_seconds``. Raises ResumeError when ``kept`` is of another run.
    """
    began = time.monotonic()
    record = replace(empty, planned_rows=len(work))
    if kept is not None:
        record = resumed(kept, record, work)
    save(record)
    for index in range(len(record.rows), len(work)):
        progress(index, len(work), str(work[index]))
        if budget_seconds and time.monotonic() - began > budget_seconds:
            break
        record = replace(record, rows=[*record.rows, work[index].measure()])
        save(record)
    progress(len(work), len(work), "")
    return record


def resumed(kept: Record, now: Record, work: Sequence[Work]) -> Record:
    """The measured rows of ``kept`` as the beginning of the run of ``now``.

    ResumeError when the two are not of one machine, build and settings.
    """
    found = differences(kept, now)
    if found:
        raise ResumeError(f"is of another run ({'; '.join(found)})")
    rows = [row for row in kept.rows if any(r.status != PREDICTED for r in row.results)]
    if len(rows) > len(work) or not all(map(Work.made, work, rows)):
        raise ResumeError("is of another run (its rows are not the first of this one)")
    if len(rows) == len(work):
        return replace(kept, rows=rows, planned_rows=len(work))
    times = [*kept.resumed, now.environment.timestamp]
    return replace(kept, rows=rows, planned_rows=len(work), resumed=times)


def differences(kept: Record, now: Record) -> list[str]:
    """What of device, versions, revision and settings differs, each "name: then, now"."""
    found = _difference("suite", kept.suite, now.suite)
    then, here = kept.environment, now.environment
    for name in _ENVIRONMENT:
        found += _difference(name.replace("_", " "), getattr(then, name), getattr(here, name))
    for versions, others in ((then.versions, here.versions), (_rivals(then), _rivals(here))):
        for name in dict.fromkeys([*versions, *others]):
            found += _difference(name, versions.get(name), others.get(name))
    settings, others = _plain(kept.settings), _plain(now.settings)
    for name in dict.fromkeys([*settings, *others]):
        found += _difference(name, settings.get(name), others.get(name))
    return found


def _rivals(environment: Environment) -> dict[str, str]:
    return {name: version or "absent" for name, version in environment.rivals.items()}


def _difference(name: str, then: Any, now: Any) -> list[str]:
    if then == now:
        return []
    return [f"{name}: {_short(then)} then, {_short(now)} now"]


def _short(value: Any) -> str:
    text = "none" if value in (None, "") else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as they are read back from a file."""
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return plain
