"""The rotation's instances as planning sees them, and how its work is dealt out. Memory binds: what
is to choose is how many warps there are, and which of them run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tk.schedulers.instance import TableLine

__all__ = ["RotaryInstance", "RotaryPlan", "RotaryWork", "plan_rotary"]

WARPS_PER_BLOCK = 4
ENOUGH_WARPS = 128
"""Of a multiprocessor: some eight times what it holds at once, so that the last ones to start end
nearly with the rest. Fewer are made only of a smaller problem."""
MOST_HEADS = 16
"""Of a task: beyond that, loading cos and sin once for all of them gains next to nothing."""
MOST_HOST_BLOCKS = 4
_MOST_BLOCKS = (1 << 31) - 1


@dataclass(frozen=True)
class RotaryInstance(TableLine):
    """A line of the rotation's instance table: `width` elements are moved at once."""

    index: int
    name: str
    dtype: str
    width: int
    heads_at_once: int

    may_be_zero: ClassVar[frozenset[str]] = frozenset({"index"})


@dataclass(frozen=True)
class RotaryWork:
    """What a call moves. `heads` are those of q and of k; `vectors` says whether its memory can be
    moved by vectors of so many elements, `heads_inside` whether a token's heads lie closer than a
    head's tokens."""

    tokens: int  # of all batches
    heads: tuple[int, int]
    head_dim: int
    rotary_dim: int
    dtype: str
    vectors: dict[int, bool]
    heads_inside: bool
    in_place: bool = False


@dataclass(frozen=True)
class RotaryPlan:
    """How a call is run: `heads_per_task` heads for each of a warp's tasks, tasks of neighbouring
    heads side by side (`groups_first`) or those of neighbouring tokens, on `grid` blocks."""

    instance: RotaryInstance
    heads_per_task: int
    groups_first: bool
    grid: int


def plan_rotary(
    work: RotaryWork, num_sms: int, instances: Sequence[RotaryInstance], *, on_host: bool = False
) -> RotaryPlan:
    """The widest instance that the work's memory allows, and as many heads a task as leave enough
    warps. ValueError when no instance has the dtype."""
    legal = [
        each
        for each in instances
        if each.dtype == work.dtype and (each.width == 1 or work.vectors.get(each.width, False))
    ]
    if not legal:
        raise ValueError(f"no instance of the rotation is of {work.dtype}")
    instance = max(legal, key=lambda each: each.width)
    tiles = _tiles(work, instance.width)
    heads = instance.heads_at_once
    while heads < min(MOST_HEADS, max(work.heads)):
        if tiles * _groups(work, 2 * heads) < ENOUGH_WARPS * num_sms:
            break
        heads *= 2
    blocks = -(-tiles * _groups(work, heads) // WARPS_PER_BLOCK)
    most = MOST_HOST_BLOCKS if on_host else _MOST_BLOCKS
    return RotaryPlan(instance, heads, work.heads_inside, max(1, min(blocks, most)))


def _tiles(work: RotaryWork, width: int) -> int:
    """Tiles of 32 slots, of two units each, as the kernel counts them."""
    rotated = work.rotary_dim // (2 * width)
    rest = 0 if work.in_place else -(-(work.head_dim - work.rotary_dim) // (2 * width))
    return sum(-(-work.tokens * slots // 32) for slots in (rotated, rest))


def _groups(work: RotaryWork, heads_per_task: int) -> int:
    return sum(-(-heads // heads_per_task) for heads in work.heads)
