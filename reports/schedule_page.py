"""A product's walk as a picture: an SVG, animated by its own style, and a page to step through it.

Neither needs anything else: no network, no fonts, no library; light or dark as the reader's system
is. The page's style and script are `pages/schedule.html`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from tk.reports.schedule import megabytes, title_lines

if TYPE_CHECKING:
    from tk.schedulers.waves import Schedule, Wave

MOST_TILES = 16384
"""Cluster tiles that a picture has at most; a browser slows down with more."""

_MOST_FRAMES = 96  # waves of an animation; more would make a film of minutes
_SECONDS_A_WAVE = 0.8
_GRID_WIDTH, _GRID_HEIGHT = 660.0, 600.0  # at most; pixels
_LARGEST_CELL, _LEAST_SIDE = 30.0, 40.0
_EDGE = 34.0  # beside the grid, for the panels and their names
_PANEL = 9.0  # thickness of a panel's mark
_CHART_WIDTH, _CHART_HEIGHT, _CHART_GAP = 300.0, 130.0, 66.0
_LINE = 18.0  # of text

_STYLE = """
:root { --bg: #ffffff; --fg: #1c2430; --soft: #66707f; --line: #d9dee6; --todo: #eef1f5;
  --done: #b9cbe4; --now: #1f5fd0; --memory: #d9570b; --part: #e3a008; --cache: #1d9a6c;
  --row: #0e8fa8; --col: #8a5cd1; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #12161d; --fg: #e6eaf0; --soft: #98a3b3; --line: #303845; --todo: #1d232d;
    --done: #37506f; --now: #6ea8ff; --memory: #ff8a3d; --part: #f2c14e; --cache: #3ecf96;
    --row: #3cc4dd; --col: #b492f0; } }
svg.walk { font: 12px system-ui, sans-serif; background: var(--bg); }
svg.walk text { fill: var(--soft); }
svg.walk .strong { fill: var(--fg); font-weight: 600; }
svg.walk .panel { fill: var(--todo); }
svg.walk .frame { fill: none; stroke: var(--line); }
svg.walk .rows { fill: var(--row); }
svg.walk .cols { fill: var(--col); }
svg.walk .total { fill: none; stroke: var(--now); stroke-width: 2; }
svg.walk .dot { fill: var(--now); stroke: var(--bg); stroke-width: 2; }
"""


def svg(schedule: Schedule) -> str:
    """The picture alone, with the product's name; waves follow each other where it is viewed by a
    browser. ValueError when the grid has more than `MOST_TILES` tiles."""
    return _svg(schedule, alone=True)


def html(schedule: Schedule) -> str:
    """The page, with the figures of every wave. ValueError when the grid has too many tiles."""
    lines = title_lines(schedule)
    figures = [_figures(schedule, wave) for wave in schedule.waves]
    total = 0.0
    for entry, wave in zip(figures, schedule.waves, strict=True):
        total += sum(schedule.read_bytes(wave))
        entry["so_far"] = megabytes(total)
    page = files("tk.reports").joinpath("pages/schedule.html").read_text(encoding="utf-8")
    data = {"waves": figures, "operands": schedule.operands}
    parts = {
        "title": escape(lines[0]),
        "lines": "".join(f"<p>{escape(line)}</p>" for line in lines[1:]),
        "picture": _svg(schedule, alone=False),
        # "<" could end the script early.
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text).replace(f"/*{name}*/", text)
    return page


def _figures(schedule: Schedule, wave: Wave) -> dict[str, object]:
    """What the page says of a wave; panels as [number, fraction found in L2]."""
    rows, cols = schedule.read_bytes(wave)
    return {
        "tiles": wave.end - wave.begin,
        "rows": [[panel, round(hit, 3)] for panel, hit in wave.row_hits.items()],
        "cols": [[panel, round(hit, 3)] for panel, hit in wave.col_hits.items()],
        "rows_read": f"{wave.rows_read:.1f}",
        "cols_read": f"{wave.cols_read:.1f}",
        "row_bytes": megabytes(rows),
        "col_bytes": megabytes(cols),
        "hit": f"{100 * schedule.hit_rate([wave]):.0f}%",
    }


def _svg(schedule: Schedule, *, alone: bool) -> str:
    if schedule.rows * schedule.cols > MOST_TILES:
        raise ValueError(
            f"a picture of {schedule.rows} x {schedule.cols} tiles is too large; at most"
            f" {MOST_TILES} tiles"
        )
    cell_width, cell_height = _cell(schedule)
    lines = title_lines(schedule) if alone else []
    top = 16.0 + len(lines) * _LINE + (8.0 if lines else 0.0)
    left = 12.0 + _EDGE
    grid_width, grid_height = cell_width * schedule.cols, cell_height * schedule.rows
    chart_left = left + max(grid_width, 60.0) + 58.0
    charts_height = 2 * _CHART_HEIGHT + _CHART_GAP + _EDGE
    width = max(chart_left + _CHART_WIDTH + 16.0, 680.0 if alone else 0.0)
    height = top + _EDGE + max(grid_height, charts_height) + 44.0
    animated = alone and 1 < len(schedule.waves) <= _MOST_FRAMES
    style = _STYLE + (_animation(schedule) if animated else "")
    parts = [
        f'<svg class="walk" xmlns="http://www.w3.org/2000/svg" width="{width:.0f}"'
        f' height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape(title_lines(schedule)[0])}</title>",
        f"<style>{style}</style>",
        *(
            f'<text x="12" y="{16 + (number + 0.6) * _LINE:.1f}"'
            f' class="{"plain" if number else "strong"}">{escape(line)}</text>'
            for number, line in enumerate(lines)
        ),
        _grid(schedule, left, top + _EDGE, cell_width, cell_height),
        _legend(12.0, height - 14.0),
        _charts(schedule, chart_left, top + _EDGE),
        "</svg>",
    ]
    return "\n".join(parts)


def _cell(schedule: Schedule) -> tuple[float, float]:
    """Width and height of a cluster tile: its own proportions, unless they are extreme."""
    plan = schedule.plan
    wide = plan.instance.tile_n * plan.cluster[1] / (plan.instance.tile_m * plan.cluster[0])
    wide = min(max(wide, 0.5), 2.0)
    height = min(_GRID_HEIGHT / schedule.rows, _GRID_WIDTH / schedule.cols / wide, _LARGEST_CELL)
    # A line of tiles is widened until it can be seen.
    widest = max(height * wide, min(_LARGEST_CELL, _LEAST_SIDE / schedule.cols))
    return widest, max(height, min(_LARGEST_CELL, _LEAST_SIDE / schedule.rows))


def _grid(schedule: Schedule, left: float, top: float, width: float, height: float) -> str:
    gap = 1.0 if min(width, height) >= 6 else 0.4 if min(width, height) >= 3 else 0.0
    parts = []
    for number, wave in enumerate(schedule.waves):
        # Neighbouring waves get hues far apart: the golden angle.
        hue = round(number * 137.508) % 360
        rects = "".join(
            f'<rect x="{left + col * width:.2f}" y="{top + row * height:.2f}"'
            f' width="{width - gap:.2f}" height="{height - gap:.2f}"/>'
            for row, col in schedule.walk[wave.begin : wave.end]
        )
        parts.append(f'<g class="w" id="w{number}" fill="hsl({hue} 55% 62%)">{rects}</g>')
    edge_x, edge_y = left - _PANEL - 5, top - _PANEL - 5
    parts += [
        f'<rect class="panel" id="r{row}" x="{edge_x:.2f}" y="{top + row * height:.2f}"'
        f' width="{_PANEL}" height="{height - gap:.2f}"/>'
        for row in range(schedule.rows)
    ]
    parts += [
        f'<rect class="panel" id="c{col}" x="{left + col * width:.2f}" y="{edge_y:.2f}"'
        f' width="{width - gap:.2f}" height="{_PANEL}"/>'
        for col in range(schedule.cols)
    ]
    first, second = (f"panels of {name}" for name in schedule.operands)
    middle = top + height * schedule.rows / 2
    parts.append(f'<text x="{left:.1f}" y="{edge_y - 6:.1f}">{second}</text>')
    if height * schedule.rows >= 90:
        parts.append(
            f'<text text-anchor="middle" transform="translate({edge_x - 7:.1f} {middle:.1f})'
            f' rotate(-90)">{first}</text>'
        )
    return "\n".join(parts)


def _legend(left: float, y: float) -> str:
    entries = (
        ("now", "runs now"),
        ("done", "done"),
        ("memory", "panel read from memory"),
        ("part", "in part"),
        ("cache", "found in L2"),
    )
    parts = []
    for name, words in entries:
        parts.append(
            f'<rect x="{left:.1f}" y="{y - 10:.1f}" width="11" height="11" rx="2"'
            f' fill="var(--{name})"/><text x="{left + 16:.1f}" y="{y:.1f}">{words}</text>'
        )
        left += 38 + 7 * len(words)
    return "".join(parts)


def _charts(schedule: Schedule, left: float, top: float) -> str:
    """Bytes from memory by wave, by operand, and their sum so far."""
    reads = [schedule.read_bytes(wave) for wave in schedule.waves]
    most = max((sum(read) for read in reads), default=0.0) or 1.0
    step = _CHART_WIDTH / len(reads)
    bar = max(min(step - (1.0 if step > 4 else 0.0), 28.0), 0.3)
    floor = top + _CHART_HEIGHT
    first, second = schedule.operands
    parts = [
        f'<text x="{left:.1f}" y="{top - 10:.1f}" class="strong">read from memory, by wave</text>',
        f'<text x="{left + _CHART_WIDTH:.1f}" y="{top - 10:.1f}" text-anchor="end">'
        f"up to {megabytes(most)}</text>",
    ]
    for number, (rows, cols) in enumerate(reads):
        x = left + number * step + (step - bar) / 2
        high, low = rows / most * _CHART_HEIGHT, cols / most * _CHART_HEIGHT
        parts.append(
            f'<g class="bar" id="b{number}">'
            f'<rect class="rows" x="{x:.2f}" y="{floor - low - high:.2f}" width="{bar:.2f}"'
            f' height="{high:.2f}"/><rect class="cols" x="{x:.2f}" y="{floor - low:.2f}"'
            f' width="{bar:.2f}" height="{low:.2f}"/></g>'
        )
    parts += [
        f'<path class="frame" d="M{left:.1f} {floor + 0.5:.1f}h{_CHART_WIDTH}"/>',
        f'<rect x="{left:.1f}" y="{floor + 10:.1f}" width="11" height="11" rx="2" class="rows"/>'
        f'<text x="{left + 16:.1f}" y="{floor + 20:.1f}">{first}</text>'
        f'<rect x="{left + 46:.1f}" y="{floor + 10:.1f}" width="11" height="11" rx="2"'
        f' class="cols"/><text x="{left + 62:.1f}" y="{floor + 20:.1f}">{second}</text>',
    ]
    total = sum(map(sum, reads)) or 1.0
    ground = floor + _CHART_GAP + _CHART_HEIGHT
    so_far, points = 0.0, [(left, ground)]
    for number, read in enumerate(reads, start=1):
        so_far += sum(read)
        points.append((left + number * step, ground - so_far / total * _CHART_HEIGHT))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts += [
        f'<text x="{left:.1f}" y="{ground - _CHART_HEIGHT - 10:.1f}" class="strong">so far</text>',
        f'<text x="{left + _CHART_WIDTH:.1f}" y="{ground - _CHART_HEIGHT - 10:.1f}"'
        f' text-anchor="end">{megabytes(total)} in all</text>',
        f'<path class="frame" d="M{left:.1f} {ground + 0.5:.1f}h{_CHART_WIDTH}"/>',
        f'<polyline class="total" id="total" points="{path}"/>',
        f'<circle class="dot" id="dot" r="5" cx="{points[-1][0]:.1f}" cy="{points[-1][1]:.1f}"/>',
    ]
    return "\n".join(parts)


def _animation(schedule: Schedule) -> str:
    """A style that shows one wave after the other; still where the reader wants no motion."""
    count = len(schedule.waves)
    rules = []
    for number in range(count):
        before, after = ["var(--todo)"] * number, ["var(--done)"] * (count - number - 1)
        rules.append(_keyframes(f"w{number}", "fill", [*before, "var(--now)", *after]))
        shown = ["1" if at >= number else "0.25" for at in range(count)]
        rules.append(_keyframes(f"b{number}", "fill-opacity", shown))
    for letter, size, panels in (
        ("r", schedule.rows, [wave.row_hits for wave in schedule.waves]),
        ("c", schedule.cols, [wave.col_hits for wave in schedule.waves]),
    ):
        rules += [
            _keyframes(f"{letter}{panel}", "fill", [_panel_colour(hits, panel) for hits in panels])
            for panel in range(size)
        ]
    body = "\n".join(rules)
    return (
        "svg.walk .dot { display: none; }\n"
        f"@media (prefers-reduced-motion: no-preference) {{\n{body}\n}}\n"
    )


def _panel_colour(hits: Mapping[int, float], panel: int) -> str:
    if panel not in hits:
        return "var(--todo)"
    name = "memory" if hits[panel] < 0.05 else "cache" if hits[panel] > 0.95 else "part"
    return f"var(--{name})"


def _keyframes(name: str, what: str, values: Sequence[str]) -> str:
    """An element's value wave by wave, as an animation that jumps from one to another."""
    frames = "".join(
        f"{100 * number / len(values):.3f}%{{{what}:{value}}}"
        for number, value in enumerate(values)
        if number == 0 or value != values[number - 1]
    )
    seconds = _SECONDS_A_WAVE * len(values)
    return (
        f"@keyframes {name} {{{frames}100%{{{what}:{values[-1]}}}}}"
        f"#{name} {{animation:{name} {seconds:.1f}s step-end infinite}}"
    )
