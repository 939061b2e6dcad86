"""Numbers and their units as text, and tables that fit the console they are drawn on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text, TextType

MISSING = "-"
UNITS = {"mhz": "MHz", "watts": "W", "celsius": "C"}  # of the readings of a device, by suffix
PADDING = (0, 1, 0, 0)


def seconds(value: float | None) -> str:
    """A time with three significant digits or more: "8.31 us", "1.573 ms"."""
    if value is None or not math.isfinite(value):
        return MISSING
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= 0.9995 * scale:
            return f"{_digits(value / scale)} {unit}"
    return f"{_digits(value * 1e6)} us"


def span(low: float, high: float) -> str:
    """Two times in one unit: "8.25-8.40"; the unit is that of ``seconds(high)``."""
    for scale in (1.0, 1e-3, 1e-6):
        if high >= 0.9995 * scale:
            return f"{_digits(low / scale)}-{_digits(high / scale)}"
    return f"{_digits(low * 1e6)}-{_digits(high * 1e6)}"


def rate(amount: float, duration: float | None) -> str:
    """Amount (in units of 1e12) a second: TFLOP/s or TB/s."""
    if duration is None or duration <= 0:
        return MISSING
    value = amount / duration * 1e-12
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(part: float | None, whole: float | None) -> str:
    """part / whole in percent."""
    if part is None or whole is None or whole <= 0:
        return MISSING
    return f"{100 * part / whole:.0f}%"


def ratio(value: float | None) -> Text:
    """A ratio to a rival, coloured: above 1 is faster than the rival."""
    if value is None:
        return Text(MISSING)
    style = "green" if value >= 1.0 else "yellow" if value >= 0.92 else "red"
    return Text(f"{value:.3f}", style=style)


def relative_error(value: float | None) -> str:
    """A relative error: "1.66e-03"."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.2e}"


def byte_count(value: float | None) -> str:
    """Bytes in binary units: "60 MiB"."""
    if value is None:
        return MISSING
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value:.0f} B"


def _digits(value: float) -> str:
    if value >= 1000:
        return f"{value:.0f}"
    if value >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 10 else f"{value:.3f}"


@dataclass(frozen=True)
class Column:
    """A column of a table of rows of any type: its head, its cell, and what it may cost.

    On a narrow console the columns with the highest ``spare`` are left out first; 0 stays.
    """

    head: str
    cell: Callable[[Any], str | Text]
    spare: int = 0
    right: bool = True


def fitted_table(
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Any],
    console: Console,
    caption: str = "",
) -> RenderableType:
    """Title, table and caption, with as many columns as the console is wide enough for."""
    kept = list(columns)
    while True:
        table = _table(kept, rows)
        spare = max(column.spare for column in kept)
        if spare == 0 or natural_width(table, console) <= console.width:
            break
        kept = [column for column in kept if column.spare != spare]
    left_out = [column.head for column in columns if column not in kept]
    return titled(title, table, caption, left_out)


def narrowed(table: Table, spare: Sequence[str], wrapped: str, console: Console) -> RenderableType:
    """A finished table that fits the console: of its columns those named in ``spare`` go first.

    The column ``wrapped`` may be broken into lines, of a third of the console's width at least.
    """
    title, caption = table.title, table.caption
    table.title = table.caption = None
    table.box, table.pad_edge, table.padding = box.SIMPLE_HEAD, False, PADDING
    left_out: list[str] = []
    for head in (*spare, ""):
        width = natural_width(table, console)
        room = console.width
        for column in table.columns:
            if column.header == wrapped:
                cells = max(map(len, map(str, column.cells)), default=0)
                room += max(cells - console.width // 3, 0)
        if width <= room or not head:
            break
        table.columns = [column for column in table.columns if column.header != head]
        left_out.append(head)
    return titled(_unmarked(title), table, _unmarked(caption), left_out)


def natural_width(table: Table, console: Console) -> int:
    """Columns of text that a table would take if there were no limit."""
    return console.measure(table, options=console.options.update_width(1000)).maximum


def titled(
    title: TextType, table: Table, caption: TextType, left_out: Sequence[str]
) -> RenderableType:
    """The table between its title and its caption, which fill the console and not the table."""
    parts: list[RenderableType] = []
    if title:
        parts.append(Text.assemble(title, style="bold"))
    parts.append(table)
    if caption:
        parts.append(Text.assemble(caption, style="dim"))
    if left_out:
        parts.append(Text(f"left out at this width: {', '.join(left_out)}", style="dim"))
    return Group(*parts, Text())


def _unmarked(words: TextType | None) -> TextType:
    """What rich would read as markup in a title, as text."""
    return Text.from_markup(words) if isinstance(words, str) else words or ""


def _table(columns: Sequence[Column], rows: Sequence[Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=PADDING)
    for column in columns:
        table.add_column(
            Text(column.head), justify="right" if column.right else "left", no_wrap=True
        )
    for row in rows:
        table.add_row(*(_as_text(column.cell(row)) for column in columns))
    return table


def _as_text(cell: str | Text) -> Text:
    """A cell as it stands: what rich would read as markup in a string is shown."""
    return Text(cell) if isinstance(cell, str) else cell
