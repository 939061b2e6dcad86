"""What the plots show, as numbers: ratios to a rival, and points under the roofs of a device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tk.benchmarks.record import PREDICTED, Record, RecordError
from tk.reports.lines import (
    MODEL,
    OURS,
    RIVAL,
    Line,
    is_measured,
    lines_of,
    name_of,
    problem_text,
    rivals_of,
)

PLOTS = ("ratios", "roofline")


@dataclass(frozen=True)
class Bar:
    """The rival's time over ours on one shape, with what the quartiles of both allow."""

    label: str
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Panel:
    """The bars of one layout of the operands against one rival."""

    title: str
    rival: str
    bars: list[Bar]
    mean: float | None  # geometric, over the rows that count


@dataclass(frozen=True)
class Point:
    """One result: operations for each byte that must be moved, and operations a second."""

    label: str
    intensity: float
    flops_per_second: float


@dataclass(frozen=True)
class Series:
    """The points of one candidate."""

    candidate: str
    name: str
    points: list[Point]


@dataclass(frozen=True)
class Roofs:
    """What a device can do: operations and bytes a second."""

    device: str
    flops_per_second: float
    bytes_per_second: float

    @property
    def ridge(self) -> float:
        """The operations a byte from which on the tensor cores bind."""
        return self.flops_per_second / self.bytes_per_second

    def at(self, intensity: float) -> float:
        """The most operations a second at that many operations a byte."""
        return min(self.flops_per_second, intensity * self.bytes_per_second)


@dataclass(frozen=True)
class Chart:
    """Everything that a plot of a record can show; any part may be empty."""

    device: str
    dtypes: str
    panels: list[Panel]
    series: list[Series]
    roofs: Roofs | None


def chart_of(record: Record) -> Chart:
    """The numbers of a record's plots. RecordError when it holds nothing to plot."""
    series = _series(record)
    chart = Chart(
        record.environment.device
        if record.environment.architecture != "host"
        else record.predicted_for or "host",
        ", ".join(sorted({row.dtype for row in record.rows})),
        _panels(record),
        series,
        _roofs(record),
    )
    if not chart.panels and not any(each.points for each in series):
        raise RecordError(
            "nothing to plot: the record holds no time of a GPU and no prediction for one"
        )
    return chart


def ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios between two, the fewer the wider they are apart; 1 is among them."""
    if high / low > 64:
        first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
        step = math.ceil((last - first + 1) / 8)
        return [10.0**power for power in range(first, last + 1) if power % step == 0]
    fine = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.4)
    medium = (0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5)
    coarse = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
    ticks = fine if high / low < 1.8 else medium if high / low < 4.5 else coarse
    return [tick for tick in ticks if low <= tick <= high]


def ratio_text(ratio: float) -> str:
    """A ratio with two places, or in powers of ten where it is far from 1."""
    return f"{ratio:.2f}" if 0.01 <= ratio < 1000 else f"{ratio:.0e}"


def axis_range(values: Sequence[float]) -> tuple[float, float]:
    """A little beyond the values on both sides, and at least two decades wide."""
    low, high = min(values) / 1.6, max(values) * 1.6
    missing = max(100 * low / high, 1.0) ** 0.5
    return low / missing, high * missing


def _panels(record: Record) -> list[Panel]:
    panels = []
    for rival in rivals_of(record):
        for layout in dict.fromkeys(row.layout for row in record.rows):
            rows = [row for row in record.rows if row.layout == layout]
            bars = []
            counted = []
            for row in rows:
                result = row.result(OURS)
                if result is None or not is_measured(record, Line(row, result)):
                    continue
                line = Line(row, result)
                ratio, span = line.ratio(rival), line.ratio_range(rival)
                if ratio is None or span is None or not _plottable(ratio):
                    continue
                low, high = (min(max(value, 1e-9), 1e9) for value in span)
                bars.append(Bar(problem_text(row), ratio, low, high))
                counted += [ratio] if row.in_mean else []
            mean = math.exp(sum(map(math.log, counted)) / len(counted)) if counted else None
            if bars:
                panels.append(Panel(layout, name_of(rival), bars, mean))
    return panels


def _series(record: Record) -> list[Series]:
    names = {OURS: "tk", MODEL: f"predicted for {record.predicted_for or 'a device'}"}
    names |= {rival: name_of(rival) for rival in rivals_of(record)}
    found: dict[str, list[Point]] = {}
    for line in lines_of(record):
        candidate, rate = line.result.candidate, line.flops_per_second
        measured = is_measured(record, line) or line.result.status == PREDICTED
        if candidate not in names or not measured or line.row.necessary_bytes <= 0:
            continue
        intensity = line.row.floating_point_operations / line.row.necessary_bytes
        if rate is not None and _plottable(rate) and _plottable(intensity):
            found.setdefault(candidate, []).append(Point(line.problem, intensity, rate))
    order = [OURS, RIVAL, *names]
    return [
        Series(name, names[name], found[name]) for name in dict.fromkeys(order) if name in found
    ]


def _plottable(value: float) -> bool:
    """Whether a logarithmic axis can show it."""
    return 1e-6 < value < 1e24


def _roofs(record: Record) -> Roofs | None:
    """The rates of the device that the plans were made for, which stand in them."""
    for line in lines_of(record):
        device = (line.result.plan or {}).get("device")
        if not isinstance(device, Mapping):
            continue
        peaks = device.get("peak_flops")
        peak = peaks.get(line.row.dtype) if isinstance(peaks, Mapping) else None
        bandwidth: Any = device.get("dram_bandwidth")
        if _is_rate(peak) and _is_rate(bandwidth):
            return Roofs(str(device.get("name", "")), float(peak), float(bandwidth))  # type: ignore[arg-type]
    return None


def _is_rate(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 1 < value < 1e24
