"""Plots as PNG and SVG, with matplotlib (the ``plot`` extra), drawn without any display.

Candidates differ by the form of their marks and by hatching, not by colour alone.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tk.reports.chart import Chart, Panel, axis_range, ratio_text, ratio_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS_COLOUR, BEHIND_COLOUR = "#0072b2", "#d55e00"  # also told apart with any colour blindness
_MARKS = (("o", "#0072b2", True), ("^", "#d55e00", False), ("s", "#009e73", False))
_MARK_LEFT = ("D", "#7f4f8f", False)
_ROW_INCHES, _PANEL_INCHES, _ROOFLINE_INCHES = 0.21, 5.2, 5.0
_DOTS_PER_INCH = 150
_MOST_DOTS = 60000  # along a side: the drawing library takes no more than 65535


class NoPlotting(RuntimeError):
    """matplotlib is not installed; the message says how to get it."""


def draw(chart: Chart, plots: Sequence[str], kind: str) -> bytes:
    """The plots asked for as one picture, "png" or "svg". NoPlotting without matplotlib."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise NoPlotting(
            "pictures need matplotlib: pip install 'tk-cute[plot]' (html and tk report plot do not)"
        ) from error
    settings: Any = {  # matplotlib's type names each key
        "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture everywhere
        "font.size": 9,
        "svg.hashsalt": "tk",  # the same file for the same record
        "svg.fonttype": "none",
        "hatch.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    stream = io.BytesIO()
    with rc_context(settings):
        figure = _figure(chart, plots)
        FigureCanvasAgg(figure)
        metadata = {"Date": None} if kind == "svg" else {}
        dots = min(_DOTS_PER_INCH, _MOST_DOTS / max(figure.get_size_inches()))
        figure.savefig(stream, format=kind, dpi=dots, metadata=metadata, facecolor="white")
    return stream.getvalue()


def _figure(chart: Chart, plots: Sequence[str]) -> Figure:
    from matplotlib.figure import Figure

    panels = chart.panels if "ratios" in plots else []
    by_rival = [[p for p in panels if p.rival == rival] for rival in _rivals(panels)]
    roofline = "roofline" in plots and bool(chart.series)
    columns = max((len(each) for each in by_rival), default=1)
    heights = [max(len(p.bars) for p in each) * _ROW_INCHES + 1.2 for each in by_rival]
    heights += [_ROOFLINE_INCHES] if roofline else []
    width = max(_PANEL_INCHES * columns, 8.0 if roofline else 0.0)
    figure = Figure(figsize=(width, sum(heights) + 0.8), layout="constrained")
    figure.suptitle(f"{chart.device}, {chart.dtypes}", fontweight="bold", fontsize=11)
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    for row, each in enumerate(by_rival):
        limits = _limits(each)
        for column, panel in enumerate(each):
            _draw_bars(figure.add_subplot(grid[row, column]), panel, limits)
    if roofline:
        _draw_roofline(figure.add_subplot(grid[len(heights) - 1, :]), chart)
    return figure


def _rivals(panels: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(panel.rival for panel in panels))


def _limits(panels: Sequence[Panel]) -> tuple[float, float]:
    """One range for the panels of a rival, with room for the figures beside the bars."""
    lows = [min(bar.ratio, bar.low, 0.95) for panel in panels for bar in panel.bars]
    highs = [max(bar.ratio, bar.high, 1.05) for panel in panels for bar in panel.bars]
    low, high = max(min(lows), 1e-9), min(max(highs), 1e9)
    room = (high / low) ** 0.12
    return low / room, high * room


def _draw_bars(axes: Axes, panel: Panel, limits: tuple[float, float]) -> None:
    """Bars from 1.0: to the right where ours is faster, hatched to the left where it is slower."""
    places = range(len(panel.bars))
    for place, bar in zip(places, panel.bars, strict=True):
        ahead = bar.ratio >= 1
        axes.barh(
            place,
            bar.ratio - 1,
            left=1,
            height=0.68,
            color=OURS_COLOUR if ahead else "white",
            edgecolor=OURS_COLOUR if ahead else BEHIND_COLOUR,
            hatch=None if ahead else "/////",
            linewidth=0.8,
        )
        span = [max(bar.low, limits[0]), min(bar.high, limits[1])]
        axes.plot(span, [place, place], color="black", linewidth=0.9, solid_capstyle="butt")
        # Beside the bar and what its quartiles reach.
        outer = max(bar.ratio, bar.high, 1) if ahead else min(bar.ratio, bar.low, 1)
        outer = min(max(outer, limits[0]), limits[1])
        axes.annotate(
            ratio_text(bar.ratio),
            (outer, place),
            xytext=(3 if ahead else -3, 0),
            textcoords="offset points",
            ha="left" if ahead else "right",
            va="center",
            fontsize=7,
        )
    axes.axvline(1.0, color="black", linewidth=1.4)
    axes.set_xscale("log")
    axes.set_xlim(*limits)
    ticks = ratio_ticks(*limits)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="x", color="0.88", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_yticks(list(places), [bar.label for bar in panel.bars], fontsize=8)
    axes.set_ylim(len(panel.bars) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    mean = "" if panel.mean is None else f"   geometric mean {panel.mean:.3g}"
    axes.set_title(f"against {panel.rival}, {panel.title}{mean}", fontsize=9.5, loc="left")
    axes.set_xlabel(
        f"{panel.rival}'s time / tk's time   (left, hatched: tk is slower; right: faster)\n"
        "thin lines: what the quartiles of both allow; *: not in the mean",
        fontsize=8,
    )


def _draw_roofline(axes: Axes, chart: Chart) -> None:
    """Rates under the roofs of the device; both axes are logarithmic."""
    tera = 1e-12
    points = [point for series in chart.series for point in series.points]
    low, high = axis_range([point.intensity for point in points])
    rates = [point.flops_per_second * tera for point in points]
    for index, series in reversed(list(enumerate(chart.series))):
        mark, colour, filled = _MARKS[index] if index < len(_MARKS) else _MARK_LEFT
        axes.plot(
            [point.intensity for point in series.points],
            [point.flops_per_second * tera for point in series.points],
            linestyle="none",
            marker=mark,
            markersize=5 if filled else 7.5,
            markeredgecolor=colour,
            markerfacecolor=colour if filled else "none",
            label=series.name,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    if chart.roofs is not None:
        roofs = chart.roofs
        xs = sorted({low, high, min(max(roofs.ridge, low), high)})
        axes.plot(xs, [roofs.at(x) * tera for x in xs], color="black", linewidth=1.4)
        start = max(low, 1e-9)
        if start < roofs.ridge:
            x = math.sqrt(start * min(roofs.ridge, high))
            axes.annotate(
                f"{roofs.bytes_per_second * tera:.2f} TB/s",
                (x, roofs.at(x) * tera),
                xytext=(-4, 8),
                textcoords="offset points",
                ha="right",
            )
        if high > roofs.ridge:
            axes.annotate(
                f"{roofs.flops_per_second * tera:.0f} TFLOP/s",
                (high, roofs.flops_per_second * tera),
                xytext=(0, 4),
                textcoords="offset points",
                ha="right",
            )
        rates.append(roofs.flops_per_second * tera)
    axes.set_ylim(*axis_range(rates))
    axes.set_xlim(low, high)
    axes.grid(which="major", color="0.88", linewidth=0.6)
    axes.set_axisbelow(True)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(lambda value, _: "")
    axes.set_xlabel("operations for each byte that must be moved (FLOP/B)")
    axes.set_ylabel("TFLOP/s")
    axes.set_title("Roofline", fontsize=9.5, loc="left")
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc="lower right", frameon=False)
