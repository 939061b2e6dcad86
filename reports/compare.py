"""Two records row by row, with their noise considered; draws tables, measures nothing.

A time has changed when the quartile ranges of both records are apart; else the change is within the
spread, whatever its size. Times of two runs also differ by clocks, power and temperature: beside
them stand the ratios to the rival, each taken within its own record.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tk.benchmarks.record import (
    FAILED,
    OK,
    PREDICTED,
    WRONG,
    Record,
    RecordError,
    Result,
    Row,
    Timing,
)
from tk.reports import format
from tk.reports.format import Column, fitted_table
from tk.reports.lines import RIVAL, Line, problem_text

By = Literal["time", "ratio"]

FASTER = "faster"
SLOWER = "slower"
WITHIN = "within the spread"
UNKNOWN = "no time"  # in one of them, or in both

# Settings under which figures are of another kind.
_SETTINGS = ("dtype", "flush", "graph")
# Readings at the start of a run that decide how fast a device is, and how far two may be apart.
_CLOCKS = {"sm_clock_mhz": 0.02, "memory_clock_mhz": 0.02, "power_limit_watts": 0.0}


@dataclass(frozen=True)
class Change:
    """One candidate on one shape in two records."""

    row: Row  # of the second record
    before: Result
    after: Result
    ratio_before: float | None  # the rival's time over the candidate's, in the first record
    ratio_after: float | None
    verdict: str  # of the times
    ratio_verdict: str

    @property
    def percent(self) -> float | None:
        """How much longer the second time is, in percent of the first."""
        if self.verdict == UNKNOWN or self.before.timing is None or self.after.timing is None:
            return None
        return 100 * (self.after.timing.median / self.before.timing.median - 1)

    @property
    def ratio_percent(self) -> float | None:
        """How much lower the second ratio to the rival is, in percent of the second."""
        if self.ratio_before is None or self.ratio_after is None:
            return None
        return 100 * (self.ratio_before / self.ratio_after - 1)

    @property
    def broke(self) -> bool:
        """Whether it was right and is not any more."""
        return self.before.status == OK and self.after.status in (WRONG, FAILED)

    @property
    def replanned(self) -> bool:
        """Whether the plan is another one."""
        return self.before.plan_text != self.after.plan_text

    def regressed(self, above: float, by: By) -> bool:
        """Whether it broke, or is slower beyond the spread by more than ``above`` percent."""
        percent = self.percent if by == "time" else self.ratio_percent
        verdict = self.verdict if by == "time" else self.ratio_verdict
        return self.broke or (verdict == SLOWER and percent is not None and percent > above)


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found."""

    changes: list[Change]
    only_first: list[str]  # rows, or candidates of a row, in words
    only_second: list[str]
    differences: list[str]  # of the environments and settings, a line each

    def regressions(self, above: float, by: By = "time") -> list[Change]:
        """The changes that are regressions of more than ``above`` percent."""
        return [change for change in self.changes if change.regressed(above, by)]


def compare(first: Record, second: Record) -> Comparison:
    """Compares two records of one suite; RecordError when they are of different suites."""
    if first.suite != second.suite:
        raise RecordError(
            f"records of different suites have nothing to compare: {first.suite} and {second.suite}"
        )
    before, after = _keyed(first.rows, _row_key), _keyed(second.rows, _row_key)
    changes: list[Change] = []
    only_first = [_row_words(row) for key, row in before.items() if key not in after]
    only_second = [_row_words(row) for key, row in after.items() if key not in before]
    for key, row in after.items():
        if key not in before:
            continue
        old, new = _candidates(before[key]), _candidates(row)
        only_first += [f"{_row_words(row)}: {name}" for name in old if name not in new]
        only_second += [f"{_row_words(row)}: {name}" for name in new if name not in old]
        changes += [
            _change(before[key], old[name], row, new[name])
            for name in new
            if name in old and new[name].candidate != RIVAL
        ]
    return Comparison(changes, only_first, only_second, differences(first, second))


def differences(first: Record, second: Record) -> list[str]:
    """What of device, driver, libraries, clocks and settings differs, a line each."""
    a, b = first.environment, second.environment
    found = [
        f"{name}: {was or '-'} and {is_ or '-'}"
        for name, was, is_ in (
            ("device", a.device, b.device),
            ("architecture", a.architecture, b.architecture),
            ("machine", a.machine, b.machine),
            ("driver", a.driver, b.driver),
            ("revision", a.git_revision, b.git_revision),
            ("predicted for", first.predicted_for, second.predicted_for),
        )
        if was != is_
    ]
    for name in dict.fromkeys([*a.versions, *b.versions]):
        was, is_ = a.versions.get(name, "-"), b.versions.get(name, "-")
        found += [f"{name}: {was} and {is_}"] if was != is_ else []
    for name in [name for name in a.rivals if name in b.rivals]:  # older records name none
        rival, its_other = a.rivals[name] or "-", b.rivals[name] or "-"
        found += [f"{name}: {rival} and {its_other}"] if rival != its_other else []
    for name, tolerance in _CLOCKS.items():
        clock, other = a.clocks.get(name), b.clocks.get(name)
        if clock is None or other is None:
            if clock is not other:
                found.append(f"{_reading(name)}: known in one of them alone")
        elif abs(clock - other) > tolerance * max(clock, other):
            found.append(f"{_reading(name)}: {clock:.0f} and {other:.0f}")
    for name in _SETTINGS:
        setting, new_setting = first.settings.get(name), second.settings.get(name)
        found += [f"{name}: {setting} and {new_setting}"] if setting != new_setting else []
    return found


def render(
    found: Comparison, console: Console, names: tuple[str, str] = ("A", "B"), by: By = "time"
) -> RenderableType:
    """Differences, the table of changes, the rows of one record alone, and a summary."""
    parts: list[RenderableType] = [Text(f"A: {names[0]}\nB: {names[1]}\n", style="dim")]
    if found.differences:
        text = Text("These differ, so that a change of time may be theirs:\n", style="bold yellow")
        text.append("".join(f"  {line}\n" for line in found.differences), style="yellow")
        parts.append(text)
    if found.changes:
        parts.append(_table(found.changes, console))
        parts.append(summary(found.changes, by))
    else:
        parts.append(Text("the records have no row in common\n"))
    for name, rows in (("A", found.only_first), ("B", found.only_second)):
        if rows:
            lines = "".join(f"  {row}\n" for row in rows)
            parts.append(Text(f"only in {name}:\n{lines}", style="dim"))
    return Group(*parts)


def summary(changes: Sequence[Change], by: By = "time") -> Text:
    """How many changed which way, and the geometric mean of the changes."""
    verdicts = Counter(c.verdict if by == "time" else c.ratio_verdict for c in changes)
    broken = sum(change.broke for change in changes)
    counts = [f"{verdicts[v]} {v}" for v in (FASTER, SLOWER, WITHIN, UNKNOWN) if verdicts[v]]
    counts += [f"{broken} right before and wrong or failed now"] if broken else []
    of = "times" if by == "time" else "ratios to the rival"
    text = Text(f"of {len(changes)} {of}: {', '.join(counts)}\n")
    percents = [change.percent if by == "time" else change.ratio_percent for change in changes]
    known = [
        1 + percent / 100
        for percent, change in zip(percents, changes, strict=True)
        if percent is not None and change.row.in_mean
    ]
    if known:
        mean = math.exp(sum(map(math.log, known)) / len(known))
        text.append(f"geometric mean of the changes: {100 * (mean - 1):+.1f}%")
        text.append(f" over {len(known)} of them (below zero is faster)\n")
    return text


def _table(changes: Sequence[Change], console: Console) -> RenderableType:
    with_names = len({change.after.candidate for change in changes}) > 1
    named = Column("candidate", lambda c: c.after.candidate, right=False)
    return fitted_table(
        "B against A",
        [
            Column("M x N x K", lambda c: problem_text(c.row), right=False),
            Column("layout", lambda c: c.row.layout, right=False),
            *([named] if with_names else []),
            Column("plan of B", _plan, spare=4, right=False),
            Column("A", lambda c: _time(c.before)),
            Column("quartiles", lambda c: _quartiles(c.before), spare=2),
            Column("B", lambda c: _time(c.after)),
            Column("quartiles", lambda c: _quartiles(c.after), spare=2),
            Column("change", lambda c: _percent(c.percent, c.verdict)),
            Column("", _verdict, right=False),
            Column("x cuBLAS, A", lambda c: format.ratio(c.ratio_before), spare=1),
            Column("x cuBLAS, B", lambda c: format.ratio(c.ratio_after), spare=1),
            Column("of both", lambda c: _percent(c.ratio_percent, c.ratio_verdict), spare=3),
        ],
        changes,
        console,
        caption="change: of the time; below zero is faster. Within the spread: the quartile ranges"
        " overlap\nx cuBLAS: its time over ours, each within its own record; of both: by how"
        " much it sank\nplan of B, *: another than in A",
    )


def _keyed(rows: Sequence[Row], key: Callable[[Row], Hashable]) -> dict[Hashable, Row]:
    """Rows by their key; the second one of a key is known by its number."""
    found: dict[Hashable, Row] = {}
    for row in rows:
        number = 0
        while (key(row), number) in found:
            number += 1
        found[key(row), number] = row
    return found


def _row_key(row: Row) -> Hashable:
    return (row.batch, row.m, row.n, row.k, row.layout, row.dtype, _is_predicted(row))


def _is_predicted(row: Row) -> bool:
    return bool(row.results) and all(result.status == PREDICTED for result in row.results)


def _row_words(row: Row) -> str:
    predicted = " (predicted)" if _is_predicted(row) else ""
    return f"{problem_text(row)} {row.layout} {row.dtype}{predicted}"


def _candidates(row: Row) -> dict[str, Result]:
    """The results by name; "plan 3" of a sweep is known by the plan, which has no other name."""
    found: dict[str, Result] = {}
    for result in row.results:
        numbered = result.candidate.startswith("plan ") and result.plan_text
        found.setdefault(result.plan_text if numbered else result.candidate, result)
    return found


def _change(row: Row, before: Result, new_row: Row, after: Result) -> Change:
    old, new = Line(row, before), Line(new_row, after)
    old_range, new_range = old.ratio_range(), new.ratio_range()
    ratio_verdict = UNKNOWN
    if old_range is not None and new_range is not None:
        ratio_verdict = _apart(
            new_range, old_range
        )  # the other way round: a higher ratio is faster
    return Change(
        new_row,
        before,
        after,
        old.ratio(),
        new.ratio(),
        _time_verdict(before, after),
        ratio_verdict,
    )


def _time_verdict(before: Result, after: Result) -> str:
    old, new = _timing(before), _timing(after)
    if old is None or new is None:
        return UNKNOWN
    return _apart((old.q1, old.q3), (new.q1, new.q3))


def _apart(first: tuple[float, float], second: tuple[float, float]) -> str:
    """FASTER when the second range is below the first, SLOWER when above, else WITHIN."""
    if second[1] < first[0]:
        return FASTER
    return SLOWER if second[0] > first[1] else WITHIN


def _timing(result: Result | None) -> Timing | None:
    """The timing, where there is one that a clock can have given."""
    if result is None or result.timing is None or result.timing.median <= 0:
        return None
    return result.timing


def _time(result: Result) -> str | Text:
    if result.status in (WRONG, FAILED):
        return Text(result.status.upper(), style="bold red")
    return format.seconds(None if result.timing is None else result.timing.median)


def _quartiles(result: Result) -> str:
    timing = result.timing
    return format.MISSING if timing is None else format.span(timing.q1, timing.q3)


def _plan(change: Change) -> str:
    return change.after.plan_text + ("*" if change.replanned else "")


def _percent(percent: float | None, verdict: str) -> Text:
    if percent is None:
        return Text(format.MISSING)
    style = {FASTER: "green", SLOWER: "red"}.get(verdict, "dim")
    return Text(f"{percent:+.1f}%", style=style)


def _verdict(change: Change) -> Text:
    if change.broke:
        return Text("broke", style="bold red")
    style = {FASTER: "green", SLOWER: "red"}.get(change.verdict, "dim")
    return Text(change.verdict, style=style)


def _reading(name: str) -> str:
    words, _, unit = name.rpartition("_")
    return f"{words.replace('_', ' ')} at the start, {format.UNITS.get(unit, unit)}"
