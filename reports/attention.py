"""The tables of the attention suite: measured, checked on the host, predicted."""

from __future__ import annotations

import math
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tk.benchmarks.record import FAILED, PREDICTED, WRONG, Record, Row
from tk.reports import format
from tk.reports.format import Column, fitted_table
from tk.reports.lines import OURS, Line, lines_of, name_of
from tk.reports.ratios import mean_ratios, ratio_columns

__all__ = ["render"]

PLAN = "plan "  # as the suite names the other plans that it measured


def render(record: Record, console: Console) -> RenderableType:
    """Everything that a record of the suite has to say."""
    lines = [line for line in lines_of(record) if not line.is_rival]
    measured = [line for line in lines if line.result.status != PREDICTED]
    predicted = [line for line in lines if line.result.status == PREDICTED]
    parts: list[RenderableType] = []
    if measured:
        on_host = record.environment.architecture == "host"
        title = f"Attention on {record.environment.device}"
        title += ", checked; its times say nothing of a GPU" if on_host else ""
        several = any(line.result.candidate.startswith(PLAN) for line in measured)
        columns = [*_columns(several), *ratio_columns(record), *_errors()]
        parts += [fitted_table(title, columns, measured, console, caption=_CAPTION)]
        parts += [_summary(record), *_faults(record)]
    if predicted:
        title = f"Predicted for {record.predicted_for}"
        parts += [fitted_table(title, _columns(), predicted, console)]
    return Group(*parts)


_CAPTION = (
    "case: batch times heads, queries, keys, head dimension; *: not in the geometric mean\n"
    "plan: query tile, key tile and head dimension, stages, cluster, order of heads, splits\n"
    "TFLOP/s: over the keys that are seen; TB/s: each tensor once; error: against float64"
)


def _columns(several: bool = False) -> list[Column]:
    return [
        Column("case", lambda line: line.problem, right=False),
        Column("", lambda line: _words(line.row), right=False),
        *([Column("by", lambda line: line.result.candidate, right=False)] if several else []),
        Column("plan", lambda line: line.result.plan_text, spare=2, right=False),
        Column("time", lambda line: format.seconds(line.seconds)),
        Column("TFLOP/s", _rate(lambda row: row.floating_point_operations)),
        Column("TB/s", _rate(lambda row: row.necessary_bytes), spare=1),
        Column("roof", lambda line: format.percent(line.row.roof_seconds, line.seconds), spare=1),
    ]


def _words(row: Row) -> str:
    return row.group if row.group in ("full", "causal") else f"{row.group} {row.layout}"


def _rate(amount: Callable[[Row], float]) -> Callable[[Line], str]:
    return lambda line: format.rate(amount(line.row), line.seconds)


def _errors() -> list[Column]:
    return [Column("error", lambda line: format.relative_error(line.result.error))]


def _summary(record: Record) -> Text:
    text = mean_ratios(record)
    regrets = [regret for row in record.rows if (regret := _regret(row)) is not None]
    if regrets:
        worst = max(regrets)
        text.append(
            f"the scheduler's plan over the fastest measured one: {_mean(regrets):.3f} in the"
            f" geometric mean, {worst:.3f} at worst\n"
        )
    return text


def _regret(row: Row) -> float | None:
    """The time of the plan that was chosen over that of the fastest; None without other plans."""
    times = {r.candidate: r.timing.median for r in row.results if r.timing is not None}
    plans = [seconds for name, seconds in times.items() if name.startswith(PLAN)]
    chosen = times.get(OURS)
    if not plans or chosen is None:
        return None
    return max(chosen / min([*plans, chosen]), 1.0)


def _mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _faults(record: Record) -> list[Text]:
    found = []
    for row in record.rows:
        for result in row.results:
            if result.status in (WRONG, FAILED):
                what = f"{name_of(result.candidate)} on {row.batch}x{row.m}x{row.n}x{row.k}"
                style = "red" if result.candidate == OURS else "yellow"
                found.append(
                    Text(f"{what} {_words(row)}: {result.status}, {result.reason}", style=style)
                )
    return found
