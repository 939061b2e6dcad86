"""The tables of the rotation's suite: measured, or checked on the host."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tk.benchmarks.record import FAILED, WRONG, Record
from tk.reports import format
from tk.reports.format import Column, fitted_table
from tk.reports.lines import OURS, Line, lines_of, name_of
from tk.reports.ratios import mean_ratios, ratio_columns

__all__ = ["render"]

COPY = "copy"  # as the suite names the copy of as many bytes


def render(record: Record, console: Console) -> RenderableType:
    """Everything that a record of the suite has to say."""
    lines = [line for line in lines_of(record) if line.result.candidate == OURS]
    on_host = record.environment.architecture == "host"
    title = f"Rotation on {record.environment.device}"
    title += ", checked; its times say nothing of a GPU" if on_host else ""
    columns = [*_columns(), *ratio_columns(record)]
    table = fitted_table(title, columns, lines, console, caption=_CAPTION)
    return Group(table, mean_ratios(record), *_faults(record))


_CAPTION = (
    "case: sequences, tokens, heads of q and k, head dimension; *: not in the geometric mean\n"
    "TB/s: each element read and written once, cos and sin once; error: against float64\n"
    "of a copy: the time of one of as many bytes, in the same run, over the time"
)


def _columns() -> list[Column]:
    return [
        Column("case", lambda line: line.problem, right=False),
        Column("", lambda line: f"{line.row.layout}, {line.row.group}", right=False),
        Column("time", lambda line: format.seconds(line.seconds)),
        Column("TB/s", lambda line: format.rate(line.row.necessary_bytes, line.seconds)),
        Column("of a copy", _of_a_copy),
        Column("roof", lambda line: format.percent(line.row.roof_seconds, line.seconds), spare=1),
        Column("error", lambda line: format.relative_error(line.result.error), spare=1),
    ]


def _of_a_copy(line: Line) -> str:
    copied = line.row.result(COPY)
    seconds = None if copied is None or copied.timing is None else copied.timing.median
    return format.percent(seconds, line.seconds)


def _faults(record: Record) -> list[Text]:
    found = []
    for line in lines_of(record):
        row, result = line.row, line.result
        if result.status in (WRONG, FAILED):
            what = f"{name_of(result.candidate)} on {line.problem} {row.layout}, {row.group}"
            style = "red" if result.candidate == OURS else "yellow"
            found.append(Text(f"{what}: {result.status}, {result.reason}", style=style))
    return found
