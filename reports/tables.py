"""The rows of a record as text for other programs: CSV with bare numbers, Markdown for a page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

from tk.benchmarks.record import FAILED, PREDICTED, WRONG, Record
from tk.reports import format
from tk.reports.lines import OURS, Line, is_measured, lines_of, name_of, rivals_of

Cell = float | int | str | bool | None

# Name and value of the columns of CSV: seconds, and operations and bytes a second.
_CSV: tuple[tuple[str, Callable[[Line], Cell]], ...] = (
    ("batch", lambda line: line.row.batch),
    ("m", lambda line: line.row.m),
    ("n", lambda line: line.row.n),
    ("k", lambda line: line.row.k),
    ("layout", lambda line: line.row.layout),
    ("dtype", lambda line: line.row.dtype),
    ("group", lambda line: line.row.group),
    ("in_mean", lambda line: line.row.in_mean),
    ("candidate", lambda line: line.result.candidate),
    ("status", lambda line: line.result.status),
    ("seconds", lambda line: line.seconds),
    ("q1_seconds", lambda line: line.result.timing.q1 if line.result.timing else None),
    ("q3_seconds", lambda line: line.result.timing.q3 if line.result.timing else None),
    ("repetitions", lambda line: line.result.timing.repetitions if line.result.timing else None),
    ("flops_per_second", lambda line: line.flops_per_second),
    ("bytes_per_second", lambda line: line.bytes_per_second),
    ("roof_fraction", lambda line: line.roof_fraction),
    ("ratio_to_torch", lambda line: line.ratio()),
    ("error", lambda line: line.result.error),
    ("largest_error", lambda line: line.result.largest_error),
    ("plan", lambda line: line.result.plan_text),
    ("reason", lambda line: line.result.reason),
    ("sm_clock_mhz", lambda line: line.row.sm_clock_mhz),
    ("power_watts", lambda line: line.row.power_watts),
)


def to_csv(record: Record) -> str:
    """A line for each result, units in the heads; figures that are no times stand below as rows of
    their experiment's name in ``group``, their own in ``candidate``."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*(name for name, _ in _CSV), "value", "unit"])
    for line in lines_of(record):
        writer.writerow([*(_plain(value(line)) for _, value in _CSV), "", ""])
    for figure in record.figures:
        known = {"group": figure.experiment, "candidate": figure.name, "reason": figure.source}
        cells = [known.get(name, "") for name, _ in _CSV]
        writer.writerow([*cells, _plain(figure.value), figure.unit])
    return stream.getvalue()


def heads_and_cells(record: Record) -> tuple[list[str], list[list[str]]]:
    """The table that Markdown and HTML show: one line for each result but the rivals'."""
    rivals = rivals_of(record)
    lines = [line for line in lines_of(record) if not line.is_rival]
    several = len({line.result.candidate for line in lines}) > 1
    heads = ["M x N x K", "layout", *(["candidate"] if several else []), "plan", "time"]
    heads += ["quartiles", "TFLOP/s", "TB/s", "roof"]
    heads += [f"x {name_of(rival, record.environment.architecture)}" for rival in rivals]
    heads += ["error"]
    rows = []
    for line in lines:
        timing = line.result.timing
        on_gpu = is_measured(record, line) or line.result.status == PREDICTED
        row = [line.problem, line.row.layout, *([line.result.candidate] if several else [])]
        row += [line.result.plan_text, _time(line)]
        row += [format.span(timing.q1, timing.q3) if timing else format.MISSING]
        row += [
            format.rate(line.row.floating_point_operations, line.seconds if on_gpu else None),
            format.rate(line.row.necessary_bytes, line.seconds if on_gpu else None),
            format.percent(line.row.roof_seconds if on_gpu else None, line.seconds),
        ]
        for rival in rivals:
            row.append(format.ratio(line.ratio(rival) if is_measured(record, line) else None).plain)
        row.append(format.relative_error(line.result.error))
        rows.append(row)
    return heads, rows


def to_markdown(record: Record) -> str:
    """Where the record was made, the table, the geometric means and the figures."""
    from tk.reports.show import environment_lines

    heads, rows = heads_and_cells(record)
    parts = [_paragraph(environment_lines(record.environment).plain)]
    if rows:
        parts.append(markdown_table(heads, rows))
    parts += [f"- {sentence}" for sentence in summary(record)]
    if record.figures:
        cells = [[f.experiment, f.name, f"{f.value:g}", f.unit, f.source] for f in record.figures]
        parts.append(markdown_table(["experiment", "", "value", "unit", "source"], cells))
    return "\n\n".join(parts) + "\n"


def summary(record: Record) -> list[str]:
    """The geometric means, the unfinished rows and the faults, a sentence each."""
    sentences = []
    if record.environment.architecture != "host":
        for rival in rivals_of(record):
            mean = record.geometric_mean(OURS, rival)
            if mean is not None:
                counted = sum(
                    1 for row in record.rows if row.in_mean and row.ratio(OURS, rival) is not None
                )
                sentences.append(
                    f"geometric mean of {name_of(rival)}'s time over ours: {mean:.3f}"
                    f" over {counted} rows"
                )
    if record.missing_rows:
        sentences.append(f"interrupted: {record.missing_rows} rows were not measured")
    sentences += [
        f"{line.problem} {line.row.layout} {line.result.candidate}: {line.result.status},"
        f" {line.result.reason}"
        for line in lines_of(record)
        if line.result.status in (WRONG, FAILED)
    ]
    return sentences


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; what Markdown would read as marks in a cell is made harmless."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\|*`])", r"\\\1", text)


def _paragraph(text: str) -> str:
    return "  \n".join(line for line in text.splitlines() if line.strip())


def _plain(value: Cell) -> str:
    """Numbers with all their digits, nothing for what is missing, 0 and 1 for a bool."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


def _time(line: Line) -> str:
    if line.result.status in (WRONG, FAILED):
        return line.result.status.upper()
    return format.seconds(line.seconds)
