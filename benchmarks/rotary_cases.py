"""The cases of the rotation's suite as data: sizes, memory, and what is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["HEADS_FIRST", "ROWS_FIRST", "SUITES", "Case", "host", "main", "options", "suite_named"]

HEADS_FIRST, ROWS_FIRST = "heads first", "rows first"
"""(B, H, N, D) and (B, N, H, D) memory."""


@dataclass(frozen=True)
class Case:
    """q (batch, heads, rows, dimension) and k of `k_heads`; packed, the batch is so many sequences
    of equal length one after the other."""

    batch: int
    heads: int
    k_heads: int
    rows: int
    dimension: int
    memory: str = HEADS_FIRST
    inplace: bool = False
    interleaved: bool = False
    rotary_dim: int = 0  # 0: all of the dimension
    positions: bool = False  # by a tensor
    packed: bool = False
    in_mean: bool = True

    @property
    def columns(self) -> int:
        """Those that are rotated."""
        return self.rotary_dim or self.dimension

    @property
    def group(self) -> str:
        """What is asked for, in words."""
        words = ["in place" if self.inplace else "new"]
        words += ["interleaved"] if self.interleaved else []
        words += [f"{self.rotary_dim} columns"] if self.rotary_dim else []
        words += ["positions"] if self.positions else []
        words += ["packed"] if self.packed else []
        return ", ".join(words)

    def __str__(self) -> str:
        sizes = f"{self.batch}x{self.heads}+{self.k_heads}x{self.rows}x{self.dimension}"
        return f"{sizes} {self.memory}, {self.group}"

    def moved_elements(self) -> int:
        """Of q and k, read or written: each once."""
        columns = self.columns if self.inplace else self.dimension
        return 2 * self.batch * (self.heads + self.k_heads) * self.rows * columns


def main() -> list[Case]:
    """What the targets are for: D = 64 and 128, 4k to 16k tokens a sequence, 32k in all, 32 heads
    over 8, both orders in memory, new tensors and in place."""
    return [
        Case(32768 // rows, 32, 8, rows, dimension, memory, inplace)
        for dimension in (64, 128)
        for memory in (HEADS_FIRST, ROWS_FIRST)
        for inplace in (False, True)
        for rows in (4096, 8192, 16384)
    ]


def options() -> list[Case]:
    """What else a call may ask for, at one size; and one token a sequence: the launch binds."""
    sizes = (4, 32, 8, 8192, 128, ROWS_FIRST)
    return [
        Case(*sizes, interleaved=True, in_mean=False),
        Case(*sizes, rotary_dim=32, in_mean=False),
        Case(*sizes, rotary_dim=32, inplace=True, in_mean=False),
        Case(*sizes, positions=True, in_mean=False),
        Case(*sizes, packed=True, in_mean=False),
        Case(1, 32, 8, 4096, 128, ROWS_FIRST, in_mean=False),
        Case(64, 32, 8, 1, 128, ROWS_FIRST, positions=True, in_mean=False),
    ]


def host() -> list[Case]:
    """Small ones that the host architecture computes."""
    return [
        Case(2, 4, 2, 65, 64),
        Case(2, 4, 2, 65, 128, ROWS_FIRST, inplace=True),
        Case(1, 4, 2, 65, 64, interleaved=True, positions=True),
        Case(2, 3, 1, 33, 80, rotary_dim=20),
        Case(3, 4, 2, 20, 64, ROWS_FIRST, packed=True),
    ]


@dataclass(frozen=True)
class Suite:
    """Cases that are measured together, and what for."""

    name: str
    about: str
    cases: tuple[Case, ...]


SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("full", "everything", (*main(), *options())),
        Suite("main", "what makes the geometric mean", tuple(main())),
        Suite("options", "pairings, partial rotation, positions, packed", tuple(options())),
        Suite("host", "small ones that the host architecture computes", tuple(host())),
    )
}
"""By name, in the order in which they are listed."""


def suite_named(name: str) -> Suite:
    """A suite; ValueError names those that there are."""
    if name not in SUITES:
        raise ValueError(f"'{name}' is no suite; there are {', '.join(SUITES)}")
    return SUITES[name]
