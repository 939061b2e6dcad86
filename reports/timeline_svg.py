"""The ring of stages over time as an SVG: lanes of stages, products and output; light or dark as
the reader's system is, and without anything from elsewhere."""

from __future__ import annotations

from html import escape
from math import floor, log10
from typing import TYPE_CHECKING

from tk.reports.format import seconds
from tk.reports.timeline import WORDS, lanes, spans, title_lines, verdict

if TYPE_CHECKING:
    from tk.schedulers import Plan
    from tk.schedulers.timeline import Timeline

_LEFT, _RIGHT, _LANE, _BAR, _LINE = 84.0, 20.0, 30.0, 22.0, 18.0
_WIDTH = 1000.0  # of the time axis
_LEAST_LABEL = 16.0  # pixels of a bar that has room for a K tile's number
_STYLE = """
:root { --bg: #ffffff; --fg: #1c2430; --soft: #66707f; --line: #e3e7ed; --load: #a9cbee;
  --ready: #e6edf6; --compute: #1f7a55; --starve: #d9480f; --store: #8a5cd1; --on: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #12161d; --fg: #e6eaf0; --soft: #98a3b3; --line: #262e3a; --load: #35618f;
    --ready: #222c3a; --compute: #3ecf96; --starve: #ff7a3d; --store: #b492f0; --on: #10231a; } }
svg { font: 12px system-ui, sans-serif; background: var(--bg); }
text { fill: var(--soft); }
.strong { fill: var(--fg); font-weight: 600; }
.grid { stroke: var(--line); }
.k { font-size: 10px; text-anchor: middle; fill: var(--fg); }
.k.compute { fill: var(--on); }
rect.load { fill: var(--load); } rect.ready { fill: var(--ready); }
rect.compute { fill: var(--compute); } rect.starve { fill: var(--starve); }
rect.store { fill: var(--store); }
"""


def svg(plan: Plan, drawn: Timeline, whole: Timeline) -> str:
    """The picture of `drawn`, with the verdict on `whole`, all of its K tiles."""
    all_k_tiles = whole.uses[-1].k + 1
    lines = [*title_lines(plan, drawn, all_k_tiles), f"the ring {verdict(whole)}"]
    names = lanes(drawn)
    top = 20.0 + len(lines) * _LINE
    bottom = top + len(names) * _LANE
    width, height = _LEFT + _WIDTH + _RIGHT, bottom + 62.0
    scale = _WIDTH / drawn.seconds
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape(lines[0])}</title><style>{_STYLE}</style>",
    ]
    for number, line in enumerate(lines):
        strong = number in (0, len(lines) - 1)
        parts.append(
            f'<text x="12" y="{22 + number * _LINE:.1f}" class="{"strong" if strong else "plain"}">'
            f"{escape(line)}</text>"
        )
    step = _tick(drawn.seconds)
    for tick in range(int(drawn.seconds / step) + 1):
        x = _LEFT + tick * step * scale
        at = f"{tick * step * 1e6:g} us" if tick else "0"
        parts.append(
            f'<path class="grid" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>'
            f'<text x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{at}</text>'
        )
    lane_tops = {name: top + number * _LANE for number, name in enumerate(names)}
    parts += [
        f'<text x="12" y="{y + _BAR - 4:.1f}" class="strong">{name}</text>'
        for name, y in lane_tops.items()
    ]
    for span in spans(drawn):
        x, length = _LEFT + span.begin * scale, (span.end - span.begin) * scale
        y = lane_tops[span.lane] + (_LANE - _BAR) / 2
        about = "" if span.k is None else f"K tile {span.k} "
        parts.append(
            f'<rect class="{span.what}" x="{x:.2f}" y="{y:.1f}" height="{_BAR}" rx="2"'
            f' width="{max(length - 0.6, 0.4):.2f}"><title>{about}{WORDS[span.what]},'
            f" {seconds(span.end - span.begin)}</title></rect>"
        )
        if span.k is not None and span.what in ("load", "compute") and length >= _LEAST_LABEL:
            parts.append(
                f'<text class="k {span.what}" x="{x + length / 2:.2f}" y="{y + 15:.1f}">'
                f"{span.k}</text>"
            )
    left = _LEFT
    for what, words in WORDS.items():
        y = bottom + 34
        parts.append(
            f'<rect class="{what}" x="{left:.1f}" y="{y:.1f}" width="11" height="11" rx="2"/>'
            f'<text x="{left + 16:.1f}" y="{y + 10:.1f}">{words}</text>'
        )
        left += 40 + 7 * len(words)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _tick(length: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that divides a length into 10 parts or less."""
    power = 10.0 ** floor(log10(length / 10))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= length / 10)
