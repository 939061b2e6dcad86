"""Tile orders: which tile of a rows x cols grid is visited at a given place in the walk.

The same as `tk/grid/order.hpp`, tile by tile (a test compares them). Every order is a bijection
from [0, rows * cols) onto the grid. With clusters the grid is one of cluster tiles.

To add an order: a closed form needs a name here, a branch in `tile` and one in order.hpp, and a
line in `tk.schedulers.traffic`; anything else needs a name here and a function in _TABLES.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tk.schedulers.hilbert import hilbert_walk
from tk.schedulers.morton import morton_walk

CODES = {
    "row": 0,
    "column": 1,
    "grouped_m": 2,
    "grouped_n": 3,
    "snake": 4,
    "hilbert": 5,
    "morton": 5,
}
"""Order names and the `order_kind` that reaches the device; 5 is any order given by a table."""

GROUPED = ("grouped_m", "grouped_n")
"""The orders by bands, which have a width."""

_TABLES: dict[str, Callable[[int, int], list[tuple[int, int]]]] = {
    "hilbert": hilbert_walk,
    "morton": morton_walk,
}

# A table entry is row << 16 | col in an int32.
MAX_TABLE_ROWS = 1 << 15
MAX_TABLE_COLS = 1 << 16
MAX_PARAM = (1 << 31) - 1  # an int on the device


def is_whole(value: object) -> bool:
    """Whether it is an int, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class Order:
    """A tile order by name, with the width of its bands where it has them.

    "row": column index fastest. "column": row index fastest. "grouped_m": bands of `param` tile
    rows, in a band the row index fastest, the last band may be narrower. "grouped_n": the same
    with rows and columns exchanged. "snake": row order with every odd row reversed. "hilbert": a
    generalised Hilbert curve. "morton": Morton's, by quarters of the enclosing square. `param` is
    at least 1 for the grouped orders and 0 for the others.
    """

    kind: str
    param: int = 0

    def __post_init__(self) -> None:
        if self.kind not in CODES:
            raise ValueError(f"unknown order {self.kind!r}; known: {', '.join(CODES)}")
        if not is_whole(self.param) or self.param > MAX_PARAM:
            raise ValueError(
                f"order {self.kind}: param is {self.param!r};"
                f" needs a whole number up to {MAX_PARAM}"
            )
        if self.kind in GROUPED:
            if self.param < 1:
                raise ValueError(f"order {self.kind}: param is {self.param}; needs a width >= 1")
        elif self.param != 0:
            raise ValueError(f"order {self.kind} takes no param; got {self.param}")

    @staticmethod
    def parse(text: str) -> Order:
        """The order of a text such as "row", "grouped_m:8" or "grouped_m(8)", as str gives it.

        ValueError says what is wrong with it.
        """
        kind, _, param = text.strip().replace("(", ":").removesuffix(")").partition(":")
        if param and not param.isdecimal():
            raise ValueError(f"order {text!r}: {param!r} is no width; write {kind}:8, for example")
        return Order(kind, int(param) if param else 0)

    @property
    def code(self) -> int:
        """The kind as the device knows it."""
        return CODES[self.kind]

    @property
    def needs_table(self) -> bool:
        """Whether the device reads this order from a table."""
        return self.kind in _TABLES

    def tile(self, index: int, rows: int, cols: int) -> tuple[int, int]:
        """(row, col) of the tile at place `index`. ValueError when it is outside the grid."""
        if not 0 <= index < rows * cols:
            raise ValueError(f"index {index} is outside a grid of {rows} x {cols} tiles")
        if self.kind == "column":
            col, row = divmod(index, rows)
            return row, col
        if self.kind == "grouped_m":
            return _banded(index, self.param, rows, cols)
        if self.kind == "grouped_n":
            col, row = _banded(index, self.param, cols, rows)
            return row, col
        if self.needs_table:
            return _walk(self.kind, rows, cols)[index]
        row, col = divmod(index, cols)
        return row, cols - 1 - col if self.kind == "snake" and row % 2 else col

    def tiles(self, rows: int, cols: int) -> list[tuple[int, int]]:
        """The whole walk: rows * cols pairs (row, col)."""
        return list(self.some_tiles(0, rows * cols, rows, cols))

    def some_tiles(self, begin: int, end: int, rows: int, cols: int) -> Sequence[tuple[int, int]]:
        """Those at places begin to end - 1 of the walk."""
        if self.needs_table:
            return _walk(self.kind, rows, cols)[begin:end]
        return [self.tile(index, rows, cols) for index in range(begin, end)]

    def table(self, rows: int, cols: int) -> list[int] | None:
        """What the device reads, row << 16 | col for each place, or None for a closed form.

        ValueError when the grid is too large for the entries.
        """
        if not self.needs_table:
            return None
        if rows > MAX_TABLE_ROWS or cols > MAX_TABLE_COLS:
            raise ValueError(
                f"order {self.kind}: a grid of {rows} x {cols} tiles does not fit its table;"
                f" at most {MAX_TABLE_ROWS} x {MAX_TABLE_COLS}"
            )
        return [row << 16 | col for row, col in _walk(self.kind, rows, cols)]

    def __str__(self) -> str:
        return f"{self.kind}({self.param})" if self.param else self.kind

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"kind": self.kind, "param": self.param}


def _banded(index: int, width: int, lines: int, length: int) -> tuple[int, int]:
    """(line, place in the line) for bands of `width` lines, the line fastest inside a band."""
    width = min(width, lines)
    band, rest = divmod(index, width * length)
    first = band * width
    place, line = divmod(rest, min(width, lines - first))
    return first + line, place


@lru_cache(maxsize=32)
def _walk(kind: str, rows: int, cols: int) -> tuple[tuple[int, int], ...]:
    return tuple(_TABLES[kind](rows, cols))
