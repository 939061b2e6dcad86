"""A matrix product's walk wave by wave: what runs together, which panels it reads, and which of
them the L2 cache still has.

What `tk.schedulers.traffic` adds up from a few sampled waves is here for every wave and panel, so
that it can be looked at. Another model of the cache is any `WaveModel`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from tk.schedulers.choose import family_named
from tk.schedulers.device import Device
from tk.schedulers.gemm_cost import GemmCost
from tk.schedulers.order import Order
from tk.schedulers.traffic import LOOK_BACK, SOFT, hit_fraction, shared_misses

if TYPE_CHECKING:
    from tk.schedulers.plan import Plan


@dataclass(frozen=True)
class Wave:
    """What one wave does: places begin to end - 1 of the walk, on all clusters at a time.

    `row_hits` and `col_hits` say of each panel that it reads which fraction of it L2 still has from
    earlier waves; `again_rows` and `again_cols` how many panels more it reads because its blocks
    drift apart. Panels are those of cluster tiles.
    """

    begin: int
    end: int
    row_hits: Mapping[int, float]
    col_hits: Mapping[int, float]
    again_rows: float = 0.0
    again_cols: float = 0.0

    @property
    def rows_read(self) -> float:
        """Row panels read from memory."""
        return sum(1 - hit for hit in self.row_hits.values()) + self.again_rows

    @property
    def cols_read(self) -> float:
        """Column panels read from memory."""
        return sum(1 - hit for hit in self.col_hits.values()) + self.again_cols


class WaveModel(Protocol):
    """A model of the cache: what each wave of a walk over a rows x cols grid reads."""

    def __call__(
        self,
        order: Order,
        rows: int,
        cols: int,
        *,
        wave: float,
        row_bytes: float,
        col_bytes: float,
        device: Device,
    ) -> list[Wave]:
        """The waves of `wave` tiles each; the arguments are those of `traffic.panels_read`."""
        ...


def footprint_waves(
    order: Order,
    rows: int,
    cols: int,
    *,
    wave: float,
    row_bytes: float,
    col_bytes: float,
    device: Device,
) -> list[Wave]:
    """The model of `traffic.panels_read`, of each wave and each panel."""
    walk = order.tiles(rows, cols)
    wave = max(wave, 1.0)
    capacity = device.l2_usable * device.l2_bytes / device.l2_partitions
    # Where all panels fit, none is read twice.
    keeps_all = rows * row_bytes + cols * col_bytes <= (1 - SOFT) * capacity and wave < len(walk)
    seen: tuple[set[int], set[int]] = set(), set()
    touched: list[tuple[set[int], set[int]]] = []
    found = []
    starts = [int(index * wave) for index in range(-int(-len(walk) // wave))]
    for begin, end in pairwise([*starts, len(walk)]):
        mine = {row for row, _ in walk[begin:end]}, {col for _, col in walk[begin:end]}
        if keeps_all:
            row_hits, col_hits = (
                {panel: float(panel in seen[axis]) for panel in sorted(mine[axis])}
                for axis in (0, 1)
            )
            again = (0.0, 0.0)
        else:
            row_hits, col_hits = _hits(mine, touched[-LOOK_BACK:], (row_bytes, col_bytes), capacity)
            footprint = len(mine[0]) * row_bytes + len(mine[1]) * col_bytes
            again = shared_misses(
                end - begin, len(mine[0]), len(mine[1]), footprint, capacity, device
            )
        found.append(Wave(begin, end, row_hits, col_hits, *again))
        touched.append(mine)
        for axis in (0, 1):
            seen[axis].update(mine[axis])
    return found


def _hits(
    mine: tuple[set[int], set[int]],
    touched: Sequence[tuple[set[int], set[int]]],
    sizes: tuple[float, float],
    capacity: float,
) -> list[dict[int, float]]:
    """Which fraction of each of a wave's row and column panels is left from the waves before."""
    hits = [dict.fromkeys(sorted(panels), 0.0) for panels in mine]
    since: tuple[set[int], set[int]] = set(), set()
    for old in reversed(touched):
        # Half of this wave and half of that one lie between two uses of the same bytes.
        distance = 0.0
        for axis in (0, 1):
            partly = len(old[axis] - since[axis]) + len(mine[axis] - since[axis])
            distance += (len(since[axis]) + partly / 2) * sizes[axis]
        hit = hit_fraction(distance, capacity)
        if hit == 0:
            break
        for axis in (0, 1):
            hits[axis].update(dict.fromkeys((old[axis] & mine[axis]) - since[axis], hit))
            since[axis].update(old[axis])
    return hits


@dataclass(frozen=True)
class Schedule:
    """A plan of a matrix product as its waves; the kernel's rows, columns and operands.

    A swapped plan computes the transposed product, so that its rows are columns of the output, and
    `operands`, the names of what row and column panels are of, is ("b", "a"). `splits` parts of a
    tile run side by side; of a batch, one matrix is looked at.
    """

    plan: Plan
    rows: int  # of cluster tiles
    cols: int
    walk: Sequence[tuple[int, int]]
    waves: Sequence[Wave]
    row_bytes: float  # of one panel over all of K
    col_bytes: float
    operands: tuple[str, str]
    at_once: float  # cluster tiles

    def read_bytes(self, wave: Wave) -> tuple[float, float]:
        """Bytes of row and of column panels that a wave reads from memory."""
        return wave.rows_read * self.row_bytes, wave.cols_read * self.col_bytes

    def asked_bytes(self, wave: Wave) -> float:
        """Bytes that a wave's clusters ask the L2 cache for."""
        return (wave.end - wave.begin) * (self.row_bytes + self.col_bytes)

    def hit_rate(self, waves: Sequence[Wave] | None = None) -> float:
        """The fraction of the bytes asked for that L2 has; of all waves unless some are given."""
        chosen = self.waves if waves is None else waves
        asked = sum(self.asked_bytes(wave) for wave in chosen)
        read = sum(sum(self.read_bytes(wave)) for wave in chosen)
        return max(1 - read / asked, 0.0) if asked > 0 else 0.0

    def wave_of_tile(self) -> dict[tuple[int, int], int]:
        """The number of the wave in which each tile is computed."""
        return {
            self.walk[place]: number
            for number, wave in enumerate(self.waves)
            for place in range(wave.begin, wave.end)
        }


def grid_of(plan: Plan) -> tuple[int, int]:
    """Rows and columns of cluster tiles that the plan's kernel walks."""
    shape = cost_of(plan).shape
    return shape.rows, shape.cols


def cost_of(plan: Plan) -> GemmCost:
    """The model of the plan's candidate. ValueError when it is no matrix product's."""
    group = family_named(plan.problem.family).group_of(plan.problem, plan.device, plan.choice)
    if not isinstance(group, GemmCost):
        raise ValueError(f"the plan for {plan.problem} is no matrix product's")
    return group


def schedule_of(plan: Plan, model: WaveModel = footprint_waves) -> Schedule:
    """The waves of a plan for a matrix product. ValueError when it is for something else."""
    group = cost_of(plan)
    rows, cols = group.shape.rows, group.shape.cols
    at_once = max(group.clusters / group.splits, 1.0)
    waves = model(
        plan.order,
        rows,
        cols,
        wave=at_once,
        row_bytes=group.tiles.row_bytes,
        col_bytes=group.tiles.col_bytes,
        device=plan.device,
    )
    return Schedule(
        plan=plan,
        rows=rows,
        cols=cols,
        walk=plan.order.tiles(rows, cols),
        waves=waves,
        row_bytes=group.tiles.row_bytes,
        col_bytes=group.tiles.col_bytes,
        operands=("b", "a") if plan.swapped else ("a", "b"),
        at_once=at_once,
    )
