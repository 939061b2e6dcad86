"""The lines of every table, plot and file: one result of one row, and its figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tk.benchmarks.record import PREDICTED, Record, Result, Row
from tk.benchmarks.rivals import RIVAL_NAMES, RIVALS

OURS = "tk"
RIVAL = "torch"
MODEL = "model"

# How candidates are called; "torch" is cuBLAS on a GPU, and what torch has on a CPU.
_NAMES = {OURS: "tk", **{rival.name: rival.title for rival in RIVALS}}


def name_of(candidate: str, architecture: str = "sm90") -> str:
    """The name of a candidate as a reader knows it."""
    if candidate == RIVAL and architecture == "host":
        return "torch"
    return _NAMES.get(candidate, candidate)


def problem_text(row: Row) -> str:
    """M x N x K, with the batch when there is one; a star when it is not in the mean."""
    shape = f"{row.m}x{row.n}x{row.k}{'' if row.in_mean else '*'}"
    return shape if row.batch == 1 else f"{row.batch}x{shape}"


@dataclass(frozen=True)
class Line:
    """One candidate's result on one shape."""

    row: Row
    result: Result

    @property
    def seconds(self) -> float | None:
        """The median, None without a time."""
        return None if self.result.timing is None else self.result.timing.median

    @property
    def problem(self) -> str:
        """The row's problem in words."""
        return problem_text(self.row)

    @property
    def flops_per_second(self) -> float | None:
        """Floating-point operations a second."""
        return self.row.floating_point_operations / self.seconds if self.seconds else None

    @property
    def bytes_per_second(self) -> float | None:
        """The bytes that must be moved, a second."""
        return self.row.necessary_bytes / self.seconds if self.seconds else None

    @property
    def roof_fraction(self) -> float | None:
        """The time that the device's rates allow, over the time."""
        if not self.seconds or self.row.roof_seconds is None:
            return None
        return self.row.roof_seconds / self.seconds

    @property
    def is_rival(self) -> bool:
        """Whether the candidate is one that ours is compared with."""
        return self.result.candidate in RIVAL_NAMES

    def ratio(self, rival: str = RIVAL) -> float | None:
        """The rival's time on this shape over this one; None for the rival itself."""
        theirs = self.row.result(rival)
        if theirs is None or theirs is self.result or theirs.timing is None or not self.seconds:
            return None
        return theirs.timing.median / self.seconds or None

    def ratio_range(self, rival: str = RIVAL) -> tuple[float, float] | None:
        """The lowest and the highest ratio that the quartiles of both allow."""
        theirs, mine = self.row.result(rival), self.result.timing
        if theirs is None or theirs.timing is None or mine is None or mine.q1 <= 0:
            return None
        return theirs.timing.q1 / max(mine.q3, mine.q1), theirs.timing.q3 / mine.q1


def lines_of(record: Record) -> Iterator[Line]:
    """Every result of every row."""
    return (Line(row, result) for row in record.rows for result in row.results)


def is_measured(record: Record, line: Line) -> bool:
    """Whether a line is a time of a GPU: neither predicted nor of the host architecture."""
    on_host = record.environment.architecture == "host"
    return line.result.status != PREDICTED and not on_host


def rivals_of(record: Record) -> list[str]:
    """The rivals that have a result in the record, cuBLAS first."""
    found = {line.result.candidate for line in lines_of(record)}
    return [rival.name for rival in RIVALS if rival.name in found]
