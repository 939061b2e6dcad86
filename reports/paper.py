"""The paper's experiments beside what records hold of them; what was not measured is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tk.benchmarks.record import FAILED, OK, WRONG, Record, Result
from tk.reports.format import PADDING
from tk.reports.lines import OURS, RIVAL
from tk.reports.paper_figures import (
    EXPERIMENTS,
    PAPER_DEVICE,
    Cell,
    Counted,
    Experiment,
    MeanRatio,
    Timed,
    Traffic,
)

HEADS = ("", "paper", "here", "unit", "record", "")
_NOT_FROM_MEMORY = "l2"  # of a prediction's bytes


@dataclass(frozen=True)
class Measured:
    """A figure of ours, and the number of the record that it is from, counted from 1."""

    value: float
    record: int
    note: str = ""


def find(cell: Cell, records: Sequence[Record]) -> Measured | None:
    """Our figure for a cell, from the latest record that has one."""
    numbered = sorted(
        enumerate(records, 1), key=lambda pair: pair[1].environment.timestamp, reverse=True
    )
    for number, record in numbered:
        value = _value(cell, record)
        if value is not None:
            return Measured(value, number, _note(cell, record))
    return None


def _value(cell: Cell, record: Record) -> float | None:
    of = cell.ours
    if isinstance(of, Counted):
        figures = (f for f in record.figures if (f.experiment, f.name) == (of.experiment, of.name))
        return next((figure.value for figure in figures), None)
    if record.environment.architecture == "host":
        return None  # its times say nothing of a GPU
    if isinstance(of, MeanRatio):
        return record.geometric_mean(OURS, RIVAL) if record.suite == of.suite else None
    if isinstance(of, Timed):
        found = _timed(of, record)
        return None if found is None else found[1] / found[0] * 1e-12
    if isinstance(of, Traffic):
        return _traffic(of.of, record)
    return None


def _note(cell: Cell, record: Record) -> str:
    if not isinstance(cell.ours, MeanRatio):
        return ""  # a figure by itself
    counted = sum(1 for row in record.rows if row.in_mean and row.ratio(OURS, RIVAL) is not None)
    return f"geometric mean over {counted} rows"


def _result(of: Timed, record: Record) -> tuple[Result, float] | None:
    """The result of a variant, and its row's operations."""
    for row in record.rows if record.suite == "paper" else ():
        if row.group == of.group and (row.m, row.n, row.k) == of.size:
            result = row.result(of.candidate)
            if result is not None:
                return result, row.floating_point_operations
    return None


def _timed(of: Timed, record: Record) -> tuple[float, float] | None:
    """Seconds and operations of a variant that was right."""
    found = _result(of, record)
    if found is None or found[0].status != OK:
        return None
    timing = found[0].timing
    return None if timing is None or timing.median <= 0 else (timing.median, found[1])


def _fault(cell: Cell, records: Sequence[Record]) -> str:
    """Why a variant that ran has no figure."""
    if not isinstance(cell.ours, Timed):
        return ""
    for number, record in enumerate(records, 1):
        found = _result(cell.ours, record)
        if found is not None and found[0].status in (WRONG, FAILED):
            return f"[{number}] {found[0].status}: {found[0].reason}"
    return ""


def _traffic(of: Timed, record: Record) -> float | None:
    """GB/s: the bytes from memory in the plan's prediction over the measured time."""
    found, timed = _result(of, record), _timed(of, record)
    if found is None or timed is None:
        return None
    prediction = (found[0].plan or {}).get("prediction")
    counts = prediction.get("bytes") if isinstance(prediction, Mapping) else None
    if not isinstance(counts, Mapping):
        return None
    read = [count for name, count in counts.items() if name != _NOT_FROM_MEMORY]
    if not read or not all(isinstance(count, (int, float)) for count in read):
        return None
    return float(sum(read)) / timed[0] * 1e-9


def cells_of(
    experiment: Experiment, records: Sequence[Record]
) -> list[tuple[str, str, str, str, str, str]]:
    """The rows of an experiment's table, of the columns HEADS; empty where nothing was measured."""
    rows = []
    for cell in experiment.cells:
        ours = find(cell, records)
        notes = [cell.note, ours.note if ours else _fault(cell, records)]
        rows.append(
            (
                cell.name,
                number_text(cell.paper),
                number_text(ours.value) if ours else "",
                cell.unit,
                f"[{ours.record}]" if ours else "",
                "; ".join(filter(None, notes)),
            )
        )
    return rows


def number_text(value: float | str | None) -> str:
    """Three digits or the whole number; words as they are; nothing for None."""
    if value is None or isinstance(value, str):
        return value or ""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def sources(records: Sequence[Record], names: Sequence[str]) -> list[str]:
    """Which record is which, a line each: file, device, driver, revision, time."""
    lines = []
    for number, (record, name) in enumerate(zip(records, names, strict=True), 1):
        environment = record.environment
        words = [f"{name}: {environment.device}", environment.timestamp]
        words += [f"driver {environment.driver}"] if environment.driver else []
        words += [f"revision {environment.git_revision}"] if environment.git_revision else []
        lines.append(f"[{number}] {', '.join(words)}")
    return lines


def render(
    records: Sequence[Record], console: Console, names: Sequence[str] | None = None
) -> RenderableType:
    """A table for each experiment."""
    parts: list[RenderableType] = [
        Text(f"paper: {PAPER_DEVICE}. Figures of two machines; the ratios within each are what")
        .append(" compares.\n")
        .append("Empty: not measured here, or not known from the paper.\n")
        .append("\n".join(sources(records, names or [record.suite for record in records])) + "\n")
    ]
    for experiment in EXPERIMENTS:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=PADDING)
        for index, head in enumerate(HEADS):
            table.add_column(
                head,
                justify="right" if head == "here" else "left",
                overflow="fold",
                style="dim" if index >= 4 else "",
            )
        for row in cells_of(experiment, records):
            table.add_row(*(Text(text) for text in row))
        parts += [Text(f"{experiment.title} ({experiment.where})", style="bold"), table, Text()]
    return Group(*parts)


def to_markdown(records: Sequence[Record], names: Sequence[str]) -> str:
    """The same in Markdown."""
    from tk.reports.tables import markdown_table

    parts = [
        f"The paper's figures are of one {PAPER_DEVICE}; empty cells were not measured here, or are"
        " not known from the paper."
    ]
    parts += [f"- {line}" for line in sources(records, names)]
    for experiment in EXPERIMENTS:
        parts.append(f"### {experiment.title} ({experiment.where})")
        parts.append(markdown_table(HEADS, cells_of(experiment, records)))
    return "\n\n".join(parts) + "\n"
