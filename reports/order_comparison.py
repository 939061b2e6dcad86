"""Draws tile orders side by side, and writes their figures as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.text import Text

from tk.reports.format import Column, fitted_table, percent, seconds
from tk.reports.schedule import megabytes

if TYPE_CHECKING:
    from tk.benchmarks.record import Result
    from tk.schedulers import Plan
    from tk.schedulers.order_comparison import OrderFigures

VERSION = 1
"""Of the JSON file."""


@dataclass(frozen=True)
class _Line:
    figures: OrderFigures
    measured: Result | None

    @property
    def median(self) -> float | None:
        """Measured seconds, None where there are none."""
        timing = None if self.measured is None else self.measured.timing
        return None if timing is None else timing.median


def render(
    plan: Plan,
    figures: Sequence[OrderFigures],
    measured: Sequence[Result] | None,
    console: Console,
) -> RenderableType:
    """The table, an order a line, fastest by the model first; `measured` in the same order, None
    where nothing was measured: then its columns are absent."""
    lines = [
        _Line(one, None if measured is None else measured[number])
        for number, one in enumerate(figures)
    ]
    least_bytes = min(line.figures.read_bytes for line in lines) or 1.0
    shortest = min(line.figures.seconds for line in lines)
    columns = [
        Column("order", lambda line: _name(line, plan), right=False),
        Column("read", lambda line: megabytes(line.figures.read_bytes)),
        Column("/ least", lambda line: f"{line.figures.read_bytes / least_bytes:.2f}", spare=2),
        Column("hit rate", lambda line: percent(line.figures.hit_rate, 1.0), spare=1),
        Column("predicted", lambda line: seconds(line.figures.seconds)),
        Column("/ best", lambda line: f"{line.figures.seconds / shortest:.3f}"),
    ]
    medians = [line.median for line in lines if line.median is not None]
    if measured is not None:
        fastest = min(medians, default=None)
        columns += [
            Column("measured", _measured),
            Column("/ best", lambda line: _over(line.median, fastest)),
        ]
    caption = "* is the plan's order; bytes of a and b read from memory, by the model"
    return fitted_table(
        f"{plan.problem} on {plan.device.name}: {plan.choice}", columns, lines, console, caption
    )


def to_json(plan: Plan, figures: Sequence[OrderFigures], measured: Sequence[Result] | None) -> str:
    """The figures for other programs: bytes, fractions and seconds; "measured_seconds" is null
    where an order could not be measured and absent where nothing was."""
    orders: list[dict[str, Any]] = []
    for number, one in enumerate(figures):
        entry = {
            "order": one.order.to_dict(),
            "read_bytes": one.read_bytes,
            "hit_rate": one.hit_rate,
            "predicted_seconds": one.seconds,
        }
        if measured is not None:
            entry["measured_seconds"] = _Line(one, measured[number]).median
            entry["status"] = measured[number].status
        orders.append(entry)
    record = {"version": VERSION, "plan": json.loads(plan.text), "orders": orders}
    return json.dumps(record, indent=1) + "\n"


def _name(line: _Line, plan: Plan) -> Text:
    own = line.figures.order == plan.order
    return Text(f"{line.figures.order}{' *' if own else ''}", style="bold" if own else "")


def _measured(line: _Line) -> str | Text:
    if line.measured is not None and line.median is None:
        return Text(line.measured.status, style="red")
    return seconds(line.median)


def _over(value: float | None, least: float | None) -> str:
    return "-" if value is None or not least else f"{value / least:.3f}"
