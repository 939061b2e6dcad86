"""Draws the ring of stages over time in a terminal, and what each depth of it would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tk.reports.format import Column, byte_count, fitted_table, percent, seconds

if TYPE_CHECKING:
    from tk.schedulers import Plan
    from tk.schedulers.timeline import Timeline

_NAMES = 10  # columns left of the picture
_LEAST_WIDTH = 30
_NOTHING = " "
# What is drawn: its letter where only ASCII can be, its style.
_MARKS = {
    "load": ("\u2591", "-", "cyan"),
    "ready": ("\u2592", "=", "blue"),
    "compute": ("\u2588", "#", "green"),
    "starve": ("\u2573", "!", "red"),
    "store": ("\u2593", "o", "magenta"),
}
WORDS = {
    "load": "on its way",
    "ready": "loaded",
    "compute": "computed on",
    "starve": "products wait for a load",
    "store": "output written",
}
"""What a span is, by `Span.what`."""


@dataclass(frozen=True)
class Span:
    """One thing in one lane: what it is (a key of `WORDS`), when, and the K tile that it is of."""

    lane: str
    what: str
    begin: float
    end: float
    k: int | None = None


@dataclass(frozen=True)
class Depth:
    """A depth of the ring and the whole timeline of a block's first tiles with it."""

    plan: Plan
    timeline: Timeline


def lanes(timeline: Timeline) -> list[str]:
    """The names of the lanes: a stage each, then the products and the output."""
    stages = [f"stage {stage}" for stage in range(timeline.num_stages)]
    return [*stages, "products", "output"]


def spans(timeline: Timeline) -> list[Span]:
    """Everything that is drawn, in the order of K tiles."""
    found = []
    for use in timeline.uses:
        lane = f"stage {use.stage}"
        found += [
            Span(lane, "load", use.asked, use.loaded, use.k),
            Span(lane, "ready", use.loaded, use.begin, use.k),
            Span(lane, "compute", use.begin, use.released, use.k),
            Span("products", "starve", use.begin - use.waited, use.begin, use.k),
            Span("products", "compute", use.begin, use.end, use.k),
        ]
    found += [Span("output", "store", store.begin, store.end) for store in timeline.stores]
    return [span for span in found if span.end > span.begin]


def title_lines(plan: Plan, timeline: Timeline, all_k_tiles: int) -> list[str]:
    """The plan, its times, and what its ring starves of; a line each."""
    times = timeline.times
    drawn = timeline.uses[-1].k + 1
    tiles = len(timeline.stores)
    return [
        f"{plan.problem} on {plan.device.name}",
        str(plan.choice),
        f"a stage: {seconds(times.latency)} until it is there, no sooner than"
        f" {seconds(times.transfer)} after another, {seconds(times.compute)} of products;"
        f" an output tile: {seconds(times.epilogue)} to write",
        f"{tiles} output tile{'s' if tiles > 1 else ''} of one block,"
        f" {drawn} of {all_k_tiles} K tiles each",
    ]


def verdict(timeline: Timeline) -> str:
    """Whether the ring starves, of what, and what that costs, in one line."""
    cost = percent(timeline.starved, timeline.seconds)
    if timeline.starves == "latency":
        return (
            f"starves of latency: with {timeline.num_stages} stages products wait {cost} of the"
            " time for loads that were asked for too late"
        )
    if timeline.starves == "bandwidth":
        return (
            f"starves of bandwidth: products wait {cost} of the time for loads that come no"
            " faster; no depth helps"
        )
    return "does not starve: after the first load every stage is there when it is computed on"


def render(
    plan: Plan,
    drawn: Timeline,
    whole: Timeline,
    depths: Sequence[Depth],
    console: Console,
) -> RenderableType:
    """The picture of `drawn`, the verdict on `whole` (all K tiles), and a line for each depth."""
    all_k_tiles = whole.uses[-1].k + 1
    first, *rest = title_lines(plan, drawn, all_k_tiles)
    head = Text.assemble((first, "bold"), "\n", ("\n".join(rest), "dim"))
    bad = bool(whole.starves)
    judged = Text.assemble(("the ring ", ""), (verdict(whole), "red" if bad else "green"))
    return Group(head, Text(), _picture(drawn, console), Text(), judged, _table(depths, console))


def _picture(timeline: Timeline, console: Console) -> Text:
    width = max(console.width - _NAMES - 1, _LEAST_WIDTH)
    a_column = timeline.seconds / width
    ascii_only = console.options.ascii_only
    text = Text(no_wrap=True, overflow="crop")
    everything = spans(timeline)
    for lane in lanes(timeline):
        text.append(lane.ljust(_NAMES), style="bold")
        line: list[str | None] = [None] * width
        for span in everything:
            if span.lane != lane:
                continue
            first = min(int(span.begin / a_column + 0.5), width - 1)
            # What is short is still seen, unless it is next to nothing.
            last = max(
                int(span.end / a_column + 0.5), first + (span.end - span.begin > a_column / 4)
            )
            for column in range(first, min(last, width)):
                line[column] = span.what
        for what in line:
            mark = _MARKS[what] if what else (_NOTHING, _NOTHING, "")
            text.append(mark[ascii_only], style=mark[2])
        text.append("\n")
    text.append(_axis(timeline, width), style="dim")
    text.append("\n" + " " * _NAMES)
    for what, words in WORDS.items():
        text.append(_MARKS[what][ascii_only], style=_MARKS[what][2])
        text.append(f" {words}   ", style="dim")
    return text


def _axis(timeline: Timeline, width: int) -> str:
    """Times under the picture, about every 20 columns."""
    line = " " * _NAMES
    count = max(width // 20, 1)
    for tick in range(count):
        line = line.ljust(_NAMES + tick * width // count)
        line += f"|{seconds(timeline.seconds * tick / count) if tick else '0'}"
    return line


def _table(depths: Sequence[Depth], console: Console) -> RenderableType:
    least = min(depth.timeline.seconds for depth in depths)

    def stage(depth: Depth) -> str:
        return seconds(depth.timeline.seconds / len(depth.timeline.uses))

    def memory(depth: Depth) -> str:
        plan = depth.plan
        return byte_count(
            plan.num_stages * plan.instance.bytes_per_stage + plan.instance.fixed_bytes
        )

    columns = [
        Column("stages", lambda depth: str(depth.plan.num_stages)),
        Column("a K tile", stage),
        Column("/ best", lambda depth: f"{depth.timeline.seconds / least:.3f}"),
        Column("waits", lambda depth: percent(depth.timeline.starved, depth.timeline.seconds)),
        Column("for", lambda depth: depth.timeline.starves or "nothing", right=False),
        Column("shared memory", memory, spare=1),
    ]
    caption = "the same tiles with all their K, at every depth that fits; a K tile with its share"
    return fitted_table("", columns, depths, console, f"{caption} of the output's time")
