"""Our times beside each rival's: a column for each, and their geometric means."""

from __future__ import annotations

from rich.text import Text

from tk.benchmarks.record import Record
from tk.reports import format
from tk.reports.format import Column
from tk.reports.lines import OURS, name_of, rivals_of

__all__ = ["mean_ratios", "ratio_columns"]


def ratio_columns(record: Record) -> list[Column]:
    """A rival's time over ours, for every rival that was measured."""

    def column(rival: str) -> Column:
        return Column(f"x {name_of(rival)}", lambda line: format.ratio(line.ratio(rival)))

    return [column(rival) for rival in rivals_of(record)]


def mean_ratios(record: Record) -> Text:
    """A line for every rival that has a mean."""
    text = Text()
    for rival in rivals_of(record):
        mean = record.geometric_mean(OURS, rival)
        if mean is not None:
            text.append(f"geometric mean of the ratios to {name_of(rival)}: {mean:.3f}\n")
    return text
