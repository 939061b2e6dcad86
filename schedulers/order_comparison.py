"""Tile orders of one plan side by side: what the model says of each, all else as planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tk.schedulers.order import MAX_TABLE_COLS, MAX_TABLE_ROWS, Order
from tk.schedulers.plan import Plan
from tk.schedulers.waves import grid_of

_WIDTHS = (2, 4, 8, 16)


@dataclass(frozen=True)
class OrderFigures:
    """A plan with one order: bytes of the operands read from memory, the fraction of what is asked
    of L2 that it has, and the whole product's predicted time."""

    plan: Plan
    read_bytes: float
    hit_rate: float
    seconds: float

    @property
    def order(self) -> Order:
        """The order that these figures are of."""
        return self.plan.order


def usual_orders(plan: Plan) -> list[Order]:
    """Row, column, bands of a few widths, snake, Hilbert and Morton, and the plan's own order;
    without bands that are as wide as the grid."""
    rows, cols = grid_of(plan)
    orders = [Order("row"), Order("column")]
    orders += [Order("grouped_m", width) for width in _WIDTHS if width < rows]
    orders += [Order("grouped_n", width) for width in _WIDTHS if width < cols]
    orders += [Order("snake"), Order("hilbert"), Order("morton"), plan.order]
    may_be_table = rows <= MAX_TABLE_ROWS and cols <= MAX_TABLE_COLS
    return [order for order in dict.fromkeys(orders) if may_be_table or not order.needs_table]


def compare_orders(plan: Plan, orders: Sequence[Order]) -> list[OrderFigures]:
    """The figures of each order, fastest first. ValueError when one cannot run."""
    figures = []
    for order in dict.fromkeys(orders):
        changed = plan if order == plan.order else plan.replace(order=order)
        prediction = changed.prediction
        read = prediction.bytes["a"] + prediction.bytes["b"]
        hit_rate = max(1 - read / prediction.bytes["l2"], 0.0) if prediction.bytes["l2"] else 0.0
        figures.append(OrderFigures(changed, read, hit_rate, prediction.seconds))
    return sorted(figures, key=lambda one: one.seconds)
