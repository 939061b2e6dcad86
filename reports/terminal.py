"""Plots in a terminal: bars of ratios with a line at 1, and a roofline of letters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tk.reports.chart import Chart, Panel, Roofs

ROWS = 18  # of the roofline
MARKS = "o+x*"  # of the candidates, ours first
_STYLES = ("bold cyan", "yellow", "magenta", "green")
_ROOF = "dim"


def render(chart: Chart, console: Console, plots: Sequence[str]) -> RenderableType:
    """The plots asked for, as wide as the console."""
    parts: list[RenderableType] = []
    if "ratios" in plots:
        parts += [_bars(panel, console) for panel in chart.panels]
    if "roofline" in plots and chart.series:
        parts.append(_roofline(chart, console))
    return Group(*parts) if parts else Text("nothing to plot")


def _bars(panel: Panel, console: Console) -> Text:
    """A line a shape: right of the middle ours is faster, left of it slower."""
    block, middle = ("#", "|") if _ascii(console) else ("█", "│")
    label = max(len(bar.label) for bar in panel.bars)
    half = max(min((console.width - label - 10) // 2, 30), 4)
    furthest = max(abs(math.log(bar.ratio)) for bar in panel.bars)
    scale = half / max(furthest, math.log(1.1))
    text = Text()
    text.append(f"{panel.rival}'s time over ours, {panel.title}; the line is 1.0\n", style="bold")
    for bar in panel.bars:
        cells = min(round(abs(math.log(bar.ratio)) * scale), half)
        left, right = (0, cells) if bar.ratio >= 1 else (cells, 0)
        style = "green" if bar.ratio >= 1 else "yellow" if bar.ratio >= 0.92 else "red"
        text.append(f"{bar.label:<{label}} {bar.ratio:6.3f} {' ' * (half - left)}")
        text.append(block * left, style=style)
        text.append(middle)
        text.append(block * right + "\n", style=style)
    if panel.mean is not None:
        text.append(f"geometric mean {panel.mean:.3f}\n")
    return text


def _roofline(chart: Chart, console: Console) -> Text:
    """Operations a second over operations a byte, both logarithmic."""
    columns = max(min(console.width - 9, 100), 16)
    points = [point for series in chart.series for point in series.points]
    low_x, high_x = _powers([point.intensity for point in points])
    low_y, high_y = _powers(
        [point.flops_per_second for point in points]
        + ([chart.roofs.flops_per_second] if chart.roofs else [])
    )
    grid: list[list[tuple[str, str]]] = [[(" ", "")] * columns for _ in range(ROWS)]

    def place(x: float, y: float) -> tuple[int, int] | None:
        column = round((math.log10(x) - low_x) / (high_x - low_x) * (columns - 1))
        row = round((high_y - math.log10(y)) / (high_y - low_y) * (ROWS - 1))
        return (row, column) if 0 <= row < ROWS and 0 <= column < columns else None

    if chart.roofs is not None:
        for column in range(columns):
            x = 10 ** (low_x + column / (columns - 1) * (high_x - low_x))
            at = place(x, chart.roofs.at(x))
            if at is not None:
                grid[at[0]][column] = ("-" if x >= chart.roofs.ridge else "/", _ROOF)
    # Ours last, so that it is on top where two fall together.
    for index in reversed(range(len(chart.series))):
        for point in chart.series[index].points:
            at = place(point.intensity, point.flops_per_second)
            if at is not None:
                grid[at[0]][at[1]] = (MARKS[index % len(MARKS)], _STYLES[index % len(_STYLES)])
    return _assembled(chart, grid, (low_x, high_x), (low_y, high_y))


def _assembled(
    chart: Chart,
    grid: list[list[tuple[str, str]]],
    across: tuple[float, float],
    upward: tuple[float, float],
) -> Text:
    text = Text(f"TFLOP/s over operations a byte, {chart.device}, {chart.dtypes}\n", style="bold")
    step = (upward[1] - upward[0]) / (ROWS - 1)
    marks = {round((upward[1] - d) / step): d for d in _between(upward)}
    for row, cells in enumerate(grid):
        text.append(f"{_power(marks[row] - 12) if row in marks else '':>6} |")
        for mark, style in cells:
            text.append(mark, style=style)
        text.append("\n")
    width = len(grid[0])
    axis = [" "] * width
    for decade in _between(across):
        label = _power(decade)
        at = round((decade - across[0]) / (across[1] - across[0]) * (width - 1))
        at = min(at, width - len(label))
        axis[at : at + len(label)] = label
    text.append(f"{'':>6} +{'-' * width}\n{'':>8}{''.join(axis)}\n")
    for index, series in enumerate(chart.series):
        text.append(f"{MARKS[index % len(MARKS)]} {series.name}  ", _STYLES[index % len(_STYLES)])
    if chart.roofs is not None:
        text.append(roof_words(chart.roofs), style=_ROOF)
    text.append("\n")
    return text


def roof_words(roofs: Roofs) -> str:
    """The two roofs in words."""
    return (
        f"roofs of {roofs.device}: {roofs.bytes_per_second * 1e-12:.2f} TB/s, "
        f"{roofs.flops_per_second * 1e-12:.0f} TFLOP/s"
    )


def _powers(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten a little below and above the values."""
    low, high = math.log10(min(values)) - 0.15, math.log10(max(values)) + 0.15
    return low, max(high, low + 1)


def _between(powers: tuple[float, float]) -> range:
    """The whole powers of ten between two."""
    return range(math.ceil(powers[0]), math.floor(powers[1]) + 1)


def _power(decade: float) -> str:
    return f"{10.0**decade:g}"


def _ascii(console: Console) -> bool:
    return console.options.ascii_only
