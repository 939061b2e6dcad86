"""A record as a file of another kind: CSV, Markdown, HTML, PNG, SVG."""

from __future__ import annotations

from collections.abc import Sequence

from tk.benchmarks.record import Record
from tk.reports.chart import PLOTS, chart_of

KINDS = ("csv", "md", "html", "png", "svg")
TEXT_KINDS = ("csv", "md", "html")


def export(record: Record, kind: str, plots: Sequence[str] = PLOTS) -> bytes:
    """The file's content.

    ValueError for an unknown kind, RecordError when there is nothing to plot,
    ``figures.NoPlotting`` when a picture needs matplotlib and it is not installed.
    """
    if kind in ("png", "svg"):
        from tk.reports import figures

        return figures.draw(chart_of(record), plots, kind)
    return _text(record, kind).encode("utf-8", errors="replace")


def _text(record: Record, kind: str) -> str:
    if kind == "csv":
        from tk.reports.tables import to_csv

        return to_csv(record)
    if kind == "md":
        from tk.reports.tables import to_markdown

        return to_markdown(record)
    if kind == "html":
        from tk.reports.html import to_html

        return to_html(record)
    raise ValueError(f"kind is {kind!r}; must be one of {', '.join(KINDS)}")
