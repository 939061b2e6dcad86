"""Draws a product's walk in a terminal: the grid of tiles by wave, and what each wave reads.

A tile is a letter and a colour, both those of its wave, so that it can be read without colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tk.reports.format import Column, fitted_table, percent

if TYPE_CHECKING:
    from tk.schedulers.waves import Schedule, Wave

SYMBOLS = "123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Of the waves, the first one's first; after the last it begins again."""

_COLOURS = (75, 215, 114, 180, 141, 80, 210, 150, 222, 110)  # of 256, all legible under black
_MOST_ROWS = 48  # lines of the picture
_MARGIN = 2  # columns of marks left of it
_FIRST_WAVES, _LAST_WAVES = 12, 3  # lines of the table
_FROM_MEMORY, _IN_PART, _FROM_CACHE = ("M", "dark_orange"), ("m", "yellow"), ("L", "green")
_RUNNING, _DONE, _TO_COME = ("#", "black on color(75)"), (".", "dim"), (" ", "")


def render(schedule: Schedule, console: Console, wave: int | None = None) -> RenderableType:
    """The grid and the table of its waves; with `wave`, from 1 on, the grid at that wave."""
    grid = _grid_by_wave(schedule, console) if wave is None else _grid_at(schedule, console, wave)
    return Group(_head(schedule), Text(), grid, Text(), _table(schedule, console, wave))


def title_lines(schedule: Schedule) -> list[str]:
    """The product, how it is run, its grid, and what that reads in all; a line each."""
    plan = schedule.plan
    read = sum(sum(schedule.read_bytes(wave)) for wave in schedule.waves)
    asked = sum(schedule.asked_bytes(wave) for wave in schedule.waves)
    cluster = f"clusters of {plan.cluster[0]}x{plan.cluster[1]} blocks"
    tiles = "tiles" if plan.cluster == (1, 1) else f"tiles of {cluster}"
    lines = [
        f"{plan.problem} on {plan.device.name}",
        str(plan.choice),
        f"{schedule.rows} x {schedule.cols} {tiles}, {schedule.at_once:.4g} at a time:"
        f" {len(schedule.waves)} wave{'s' if len(schedule.waves) > 1 else ''}",
        f"reads {megabytes(read)} from memory of {megabytes(asked)} asked of L2:"
        f" hit rate {percent(schedule.hit_rate(), 1.0)}",
    ]
    if plan.swapped:
        lines.append("swapped: the transposed product, whose rows are columns of the output")
    if plan.dynamic:
        lines.append("dynamic: a block takes the next tile when it is free; waves are its order")
    if plan.problem.batch > 1:
        lines.append(f"one of {plan.problem.batch} products; bytes are those of one")
    return lines


def megabytes(count: float) -> str:
    """Bytes with three digits: "1.20 GB", "57.3 MB"."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= 0.9995 * scale:
            value = count / scale
            digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
            return f"{value:.{digits}f} {unit}"
    return f"{count:.0f} B"


def symbol_of(wave: int) -> str:
    """The letter of a wave, numbered from 0."""
    return SYMBOLS[wave % len(SYMBOLS)]


def _head(schedule: Schedule) -> Text:
    first, *rest = title_lines(schedule)
    return Text.assemble((first, "bold"), "\n", ("\n".join(rest), "dim"))


@dataclass(frozen=True)
class _Raster:
    """Which tiles are drawn where: every `step`-th of both axes, `width` columns of text each."""

    rows: Sequence[int]
    cols: Sequence[int]
    step: int
    width: int

    @staticmethod
    def of(schedule: Schedule, console: Console) -> _Raster:
        room = max(console.width - _MARGIN, 8)
        rows_step = -(-schedule.rows // _MOST_ROWS)
        step = max(rows_step, -(-schedule.cols // room))
        # Two columns a tile look square.
        width = 2 if -(-schedule.cols // step) * 2 <= room else 1
        return _Raster(range(0, schedule.rows, step), range(0, schedule.cols, step), step, width)

    def note(self) -> str:
        return f"; one in {self.step} rows and columns of tiles is drawn" if self.step > 1 else ""


def _grid_by_wave(schedule: Schedule, console: Console) -> Text:
    raster = _Raster.of(schedule, console)
    waves = schedule.wave_of_tile()
    text = Text()
    for row in raster.rows:
        text.append(" " * _MARGIN)
        for col in raster.cols:
            wave = waves[row, col]
            colour = _COLOURS[wave % len(_COLOURS)]
            text.append(symbol_of(wave) * raster.width, style=f"black on color({colour})")
        text.append("\n")
    legend = f"a letter is a wave: 1 runs first, then 2 ... 9, a ... z, A ... Z{raster.note()}"
    text.append(legend, style="dim")
    return text


def _grid_at(schedule: Schedule, console: Console, number: int) -> Text:
    raster = _Raster.of(schedule, console)
    waves = schedule.wave_of_tile()
    wave = schedule.waves[number - 1]
    text = Text(" " * _MARGIN)
    for col in raster.cols:
        _append_mark(text, wave.col_hits, col, raster.width)
    text.append("\n")
    for row in raster.rows:
        _append_mark(text, wave.row_hits, row, 1)
        text.append(" ")
        for col in raster.cols:
            when = waves[row, col]
            symbol, style = (
                _RUNNING if when == number - 1 else _DONE if when < number - 1 else _TO_COME
            )
            text.append(symbol * raster.width, style=style)
        text.append("\n")
    text.append(
        f"wave {number}: # runs now, . is done; at the edges panels of {schedule.operands[0]}"
        f" (left) and {schedule.operands[1]} (top): M read from memory, m in part, L found in L2"
        f"{raster.note()}",
        style="dim",
    )
    return text


def _append_mark(text: Text, hits: Mapping[int, float], panel: int, width: int) -> None:
    if panel not in hits:
        text.append(" " * width)
        return
    hit = hits[panel]
    symbol, style = _FROM_MEMORY if hit < 0.05 else _FROM_CACHE if hit > 0.95 else _IN_PART
    text.append(symbol * width, style=style)


@dataclass(frozen=True)
class _Line:
    """A line of the table: a wave, or those that are not shown one by one."""

    name: str
    waves: Sequence[Wave]
    so_far: float


def _table(schedule: Schedule, console: Console, wave: int | None) -> RenderableType:
    total = 0.0
    lines = []
    for number, one in enumerate(schedule.waves, start=1):
        total += sum(schedule.read_bytes(one))
        name = f"{number} {symbol_of(number - 1)}" if number > 9 else str(number)
        lines.append(_Line(name, [one], total))
    if wave is not None:
        lines = [lines[wave - 1]]
    elif len(lines) > _FIRST_WAVES + _LAST_WAVES + 1:
        inner = lines[_FIRST_WAVES:-_LAST_WAVES]
        name = f"{_FIRST_WAVES + 1}-{len(lines) - _LAST_WAVES}"
        merged = _Line(name, [one for line in inner for one in line.waves], inner[-1].so_far)
        lines = [*lines[:_FIRST_WAVES], merged, *lines[-_LAST_WAVES:]]

    def panels(line: _Line, axis: str) -> str:
        used = sum(len(getattr(one, f"{axis}_hits")) for one in line.waves)
        return f"{sum(getattr(one, f'{axis}s_read') for one in line.waves):.1f} / {used}"

    def read(line: _Line, axis: int) -> str:
        return megabytes(sum(schedule.read_bytes(one)[axis] for one in line.waves))

    first, second = schedule.operands
    columns = [
        Column("wave", lambda line: line.name, right=False),
        Column("tiles", lambda line: str(sum(one.end - one.begin for one in line.waves))),
        Column(f"{first} panels read", lambda line: panels(line, "row"), spare=2),
        Column(f"{second} panels read", lambda line: panels(line, "col"), spare=2),
        Column(f"{first} bytes", lambda line: read(line, 0), spare=1),
        Column(f"{second} bytes", lambda line: read(line, 1), spare=1),
        Column("hit rate", lambda line: percent(schedule.hit_rate(line.waves), 1.0)),
        Column("read so far", lambda line: megabytes(line.so_far)),
    ]
    caption = "panels read from memory / panels used; more where blocks drift apart and read again"
    return fitted_table("", columns, lines, console, caption)
