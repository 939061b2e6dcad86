"""Plots as SVG inside an HTML page: no program but the browser draws them, in its own colours.

Colours are classes that the page's style defines for a light and a dark background; candidates
differ by the form of their marks, and bars of slower shapes are hatched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from tk.reports.chart import Chart, Panel, Point, axis_range, ratio_ticks

_WIDTH = 760  # of the roofline
_BARS, _RIGHT, _ROW = 340, 48, 18  # of the ratios: bars, figures beside them, height
_HATCH = (
    '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><line class="hatching" x1="0" y1="0" x2="0" y2="5"/>'
    "</pattern></defs>"
)


def hatch_definition() -> str:
    """What the bars refer to; once a page."""
    return f'<svg width="0" height="0" style="position: absolute" aria-hidden="true">{_HATCH}</svg>'


def bars(panel: Panel) -> str:
    """Bars from 1.0: to the right where ours is faster, hatched to the left where it is slower."""
    ratios = [min(max(bar.ratio, 1e-3), 1e3) for bar in panel.bars]
    low, high = min(0.9, *ratios) * 0.93, max(1.1, *ratios) * 1.07
    left = 16 + 7 * max(len(bar.label) for bar in panel.bars)
    right = left + _BARS
    scale = (right - left) / math.log(high / low)

    def x(value: float) -> float:
        return left + math.log(min(max(value, low), high) / low) * scale

    height = 24 + _ROW * len(panel.bars) + 22
    parts = [_open(right + _RIGHT, height, f"{panel.rival}'s time over tk's, layout {panel.title}")]
    bottom = height - 22
    for tick in ratio_ticks(low, high):
        parts.append(_line(x(tick), 20, x(tick), bottom, "grid"))
        parts.append(_text(x(tick), bottom + 15, f"{tick:g}", "middle", "small"))
    for index, (bar, ratio) in enumerate(zip(panel.bars, ratios, strict=True)):
        y = 24 + index * _ROW
        start, end = sorted((x(1.0), x(ratio)))
        kind = "ahead" if ratio >= 1 else "behind"
        words = f"{bar.label}: {bar.ratio:.3f} (quartiles allow {bar.low:.3f} to {bar.high:.3f})"
        parts.append(
            f'<g><title>{escape(words)}</title><rect class="{kind}" x="{start:.1f}" y="{y + 2}" '
            f'width="{max(end - start, 0.5):.1f}" height="{_ROW - 6}"/></g>'
        )
        middle = y + _ROW / 2 - 1
        parts.append(_line(x(bar.low), middle, x(bar.high), middle, "spread"))
        parts.append(_text(left - 8, middle + 4, bar.label, "end", "label"))
        parts.append(_text(right + 8, middle + 4, f"{bar.ratio:.3f}", "start", "label"))
    parts.append(_line(x(1.0), 14, x(1.0), bottom, "unit"))
    parts.append(_text(x(1.0), 11, f"{panel.rival} = 1.0", "middle", "small"))
    return "".join(parts) + "</svg>"


def roofline(chart: Chart) -> str:
    """Operations a second over operations a byte, both logarithmic, under the device's roofs."""
    points = [point for series in chart.series for point in series.points]
    tera = 1e-12
    rates = [point.flops_per_second * tera for point in points]
    rates += [chart.roofs.flops_per_second * tera] if chart.roofs else []
    across = axis_range([point.intensity for point in points])
    upward = axis_range(rates)
    left, right, top, bottom = 62, _WIDTH - 20, 24, 380

    def x(value: float) -> float:
        return left + (right - left) * math.log(value / across[0]) / math.log(across[1] / across[0])

    def y(value: float) -> float:
        part = math.log(value / upward[0]) / math.log(upward[1] / upward[0])
        return bottom - (bottom - top) * part

    parts = [_open(_WIDTH, 450, "Roofline: TFLOP/s over operations a byte")]
    for tick in _decades(across):
        parts.append(_line(x(tick), top, x(tick), bottom, "grid"))
        parts.append(_text(x(tick), bottom + 16, f"{tick:g}", "middle", "small"))
    for tick in _decades(upward):
        parts.append(_line(left, y(tick), right, y(tick), "grid"))
        parts.append(_text(left - 6, y(tick) + 4, f"{tick:g}", "end", "small"))
    if chart.roofs is not None:
        roofs = chart.roofs
        # From where the slanted roof comes up from below.
        first = min(max(across[0], upward[0] / tera / roofs.bytes_per_second), across[1])
        xs = sorted({first, min(max(roofs.ridge, first), across[1]), across[1]})
        corners = [(x(value), y(max(roofs.at(value) * tera, upward[0]))) for value in xs]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
        parts.append(f'<polyline class="roof" points="{path}"/>')
        words = (
            f"{roofs.flops_per_second * tera:.0f} TFLOP/s, {roofs.bytes_per_second * tera:.2f} TB/s"
        )
        parts.append(_text(right, y(roofs.flops_per_second * tera) - 6, words, "end", "small"))
    for index in reversed(range(len(chart.series))):
        series = chart.series[index]
        parts += [
            _mark(index, x(point.intensity), y(point.flops_per_second * tera), point, series.name)
            for point in series.points
        ]
    middle = (left + right) / 2
    parts.append(
        _text(middle, bottom + 34, "operations for each byte that must be moved", "middle", "small")
    )
    parts.append(_text(left, 14, "TFLOP/s", "end", "small"))
    at = float(left)
    for index, series in enumerate(chart.series):
        parts.append(_mark(index, at + 6, bottom + 56, None, ""))
        parts.append(_text(at + 18, bottom + 60, series.name, "start", "label"))
        at += 40 + 8 * len(series.name)
    return "".join(parts) + "</svg>"


def _mark(index: int, x: float, y: float, point: Point | None, name: str) -> str:
    """A filled disc for ours, then an open triangle, square and diamond."""
    if index == 0:
        form = f'<circle class="mark0" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    else:
        corners: Sequence[tuple[float, float]] = (
            ((0, -6), (5.5, 4), (-5.5, 4)),
            ((-5, -5), (5, -5), (5, 5), (-5, 5)),
            ((0, -6), (6, 0), (0, 6), (-6, 0)),
        )[min(index, 3) - 1]
        path = " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in corners)
        form = f'<polygon class="mark{min(index, 3)}" points="{path}"/>'
    if point is None:
        return form
    words = f"{name}, {point.label}: {point.flops_per_second * 1e-12:.3g} TFLOP/s"
    return f"<g><title>{escape(words)}</title>{form}</g>"


def _decades(between: tuple[float, float]) -> list[float]:
    first, last = math.ceil(math.log10(between[0])), math.floor(math.log10(between[1]))
    return [10.0**power for power in range(first, last + 1)]


def _open(width: int, height: int, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" style="max-width: {width}px" role="img" '
        f'aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">'
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str) -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )
