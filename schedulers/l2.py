"""The L2 model: a persistent grid's loads and stores, replayed through a device's L2 cache.

What is replayed. Clusters walk their items as kernels do (`persistent_walk`) and march along K in
steps, all at the same pace; each starts a little late, by a fraction of an item that differs from
cluster to cluster and is `Device.wave_drift` at most. At each step a cluster asks for its panel of
a and its panel of b, once for all its blocks (multicast). At its end an item stores its output.

The cache. Hopper's L2 is `Device.l2_partitions` = 2 halves, each next to half of the
multiprocessors. A line has one home, but a multiprocessor asks the half next to it; if that is not
the home and has no copy, it asks the home, and keeps a copy. So what everybody reads takes up lines
twice, and a product's loads see half of the capacity. Each half drops what was used longest ago,
and holds `Device.l2_usable` / `l2_partitions` of `Device.l2_bytes`. Outputs take up lines in their
homes until they are dropped, which is when they are written to memory.

Which line is whose: panels and steps alternate between the homes. Which multiprocessors are next to
which half is not documented; clusters are spread evenly, without a period.

Why two halves with copies. An H200's counters for 8192^3 (tiles of 128 x 256, clusters of 2 x 1,
bands of 1, 2, 4, 8 cluster tiles) say 2.41, 2.40, 1.51 and 1.23 GB from memory, and hit rates of
58-61 %, 70 % and 76 % at widths 1, 4 and 8. This model says 2.34, 2.34, 1.49, 1.22 GB and 61, 59,
71, 76 %, with no constant fitted to them. A cache in one piece reads the same bytes, but has hit
rates of 73, 73, 83 and 86 %: what it lacks are the copies' misses and the questions of one half to
the other, which the counter counts as well.

Not modelled: sets and ways, sectors, lines of other kernels, the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol, runtime_checkable

from tk.schedulers.choose import family_named
from tk.schedulers.device import Device
from tk.schedulers.l2_reference import L2Counts, L2Work, Loads
from tk.schedulers.l2_reference import replay as reference
from tk.schedulers.order import Order, is_whole
from tk.schedulers.plan import Plan
from tk.schedulers.walk import ceil_div, cluster_grid

DEFAULT_STEPS = 64
"""Steps that an item's K is replayed in, at most: a step of more is close enough, and quicker."""

MOST_LOADS = 1 << 24
"""Steps of all items that are replayed, at most."""

_QUICK_LOADS = 1 << 20  # compiled, 25 ns each
_WORD = 1 << 32
_GOLDEN = 2654435769  # the golden ratio's and sqrt(2)'s fractions: multiples of these are spread
_ROOT_2 = 1779033704  # evenly modulo 2^32, with no short period


@dataclass(frozen=True)
class L2Wave:
    """Bytes of one wave: of the items that clusters do as their first, second, and so on."""

    a_requested: float
    b_requested: float
    a_read: float
    b_read: float
    crossed: float


@dataclass(frozen=True)
class L2Traffic:
    """Bytes that a grid moves between multiprocessors, L2 and memory.

    `requested`: asked of L2 by clusters (multicast asks once). `read`: from memory into L2.
    `crossed`: asked by one partition of L2 of another. `stored`: outputs, and with splits their
    sums, written into L2; all of it reaches memory some time, and `written` of it before the grid's
    end. `sums_*` is what the last split of each output adds up.
    """

    a_requested: float
    b_requested: float
    sums_requested: float
    a_read: float
    b_read: float
    sums_read: float
    crossed: float
    stored: float
    written: float
    waves: tuple[L2Wave, ...] = ()

    @property
    def requested(self) -> float:
        """All bytes asked of L2."""
        return self.a_requested + self.b_requested + self.sums_requested

    @property
    def read(self) -> float:
        """All bytes read from memory."""
        return self.a_read + self.b_read + self.sums_read

    @property
    def hit_rate(self) -> float:
        """Hits over look-ups, 0 to 1, as lts__t_sector_hit_rate counts them.

        A question to another partition is a look-up of its own, after a miss; a store is a hit.
        """
        looked_up = self.requested + self.crossed + self.stored
        return 1 - (self.read + self.crossed) / looked_up if looked_up > 0 else 1.0

    def exchanged(self) -> L2Traffic:
        """The same with a and b exchanged: the traffic of out^T = b^T a^T."""
        return replace(
            self,
            a_requested=self.b_requested,
            b_requested=self.a_requested,
            a_read=self.b_read,
            b_read=self.a_read,
            waves=tuple(
                L2Wave(w.b_requested, w.a_requested, w.b_read, w.a_read, w.crossed)
                for w in self.waves
            ),
        )


@runtime_checkable
class Replayable(Protocol):
    """A group of candidates (`tk.schedulers.choose.Group`) that can be replayed through L2."""

    def replay(self, order: Order, *, waves: bool = False) -> L2Traffic:
        """The traffic of the candidate with that order, by the operands' own names."""
        ...


def replay_l2(plan: Plan, *, waves: bool = False) -> L2Traffic:
    """The bytes that a plan moves through its device's L2, by the names of its problem's operands.

    With `waves` also wave by wave. Takes milliseconds for most plans (14 ms at 16384^3), a hundred
    times that without the binding. ValueError when the plan's family has no replay, or when the
    plan has too many items (MOST_LOADS).
    """
    group = _group(plan)
    if not isinstance(group, Replayable):
        raise ValueError(f"plans of the family {plan.problem.family!r} cannot be replayed")
    return group.replay(plan.order, waves=waves)


def replays_quickly(plan: Plan) -> bool:
    """Whether `replay_l2` takes less than a few hundredths of a second for it."""
    size = plan.cluster[0] * plan.cluster[1]
    clusters = min(plan.grid // size, plan.device.clusters_at_once(size))
    few = plan.prediction.waves * clusters * DEFAULT_STEPS <= _QUICK_LOADS
    return few and compiled() and isinstance(_group(plan), Replayable)


def _group(plan: Plan) -> object:
    family = family_named(plan.problem.family)
    return family.group_of(plan.problem, plan.device, plan.choice)


def replay_grid(
    order: Order,
    tiles_m: int,
    tiles_n: int,
    k_tiles: int,
    *,
    device: Device,
    a_bytes: float,
    b_bytes: float,
    out_bytes: float = 0.0,
    sum_bytes: float = 0.0,
    grid: int,
    cluster: tuple[int, int] = (1, 1),
    batch: int = 1,
    splits: int = 1,
    k_step: int | None = None,
    waves: bool = False,
) -> L2Traffic:
    """The bytes that a persistent grid of `grid` blocks moves through the device's L2.

    The output has batch x tiles_m x tiles_n tiles of `out_bytes` bytes, whose K is `k_tiles` tiles:
    of a row of tiles one is `a_bytes` large, of a column `b_bytes`. With `splits` > 1 each split
    stores `sum_bytes` an output tile, and the last to finish reads them all. `k_step` K tiles are
    loaded at a time (default: a 64th of an item's). ValueError when a size is not positive, when
    the grid is no multiple of the cluster, or when there are more than MOST_LOADS steps.
    """
    sizes = {"tiles_m": tiles_m, "tiles_n": tiles_n, "k_tiles": k_tiles, "grid": grid}
    sizes |= {"cluster[0]": cluster[0], "cluster[1]": cluster[1], "batch": batch, "splits": splits}
    for name, size in (sizes if k_step is None else sizes | {"k_step": k_step}).items():
        if not is_whole(size) or size < 1:
            raise ValueError(f"{name} is {size!r}; needs a whole number >= 1")
    amounts = {"a_bytes": a_bytes, "b_bytes": b_bytes}
    amounts |= {"out_bytes": out_bytes, "sum_bytes": sum_bytes}
    for name, amount in amounts.items():
        if not 0 <= amount < float("inf"):
            raise ValueError(f"{name} is {amount!r}; needs a number >= 0")
    if splits > k_tiles:
        raise ValueError(f"splits is {splits}; K has {k_tiles} tiles, so 1 to {k_tiles}")
    size = cluster[0] * cluster[1]
    if grid % size:
        raise ValueError(f"grid of {grid} blocks is no multiple of the cluster's {size}")
    rows, cols = cluster_grid(tiles_m, tiles_n, cluster)
    items = batch * rows * cols * splits
    item_tiles = ceil_div(k_tiles, splits)
    if k_step is None:
        most_steps = max(min(DEFAULT_STEPS, MOST_LOADS // items), 1)
        k_step = ceil_div(item_tiles, most_steps)
    steps = ceil_div(item_tiles, k_step)
    if items * steps > MOST_LOADS:
        raise ValueError(f"{items} items of {steps} steps are too many: at most {MOST_LOADS}")
    clusters = min(grid // size, items)
    # A panel at the edge is smaller; each counts as their mean.
    of_a, of_b = tiles_m * a_bytes / rows, tiles_n * b_bytes / cols
    blocks = tiles_m * tiles_n / (rows * cols)
    delayed = device.wave_drift * steps
    counts = _replay()(
        L2Work(
            order=order,
            rows=rows,
            cols=cols,
            batch=batch,
            splits=splits,
            k_tiles=k_tiles,
            k_step=k_step,
            a_bytes=round(of_a),
            b_bytes=round(of_b),
            out_bytes=round(blocks * out_bytes),
            sum_bytes=round(blocks * sum_bytes),
            delays=tuple(int(c * _ROOT_2 % _WORD * delayed / _WORD) for c in range(clusters)),
            near=tuple(
                c * _GOLDEN % _WORD * device.l2_partitions // _WORD for c in range(clusters)
            ),
            partitions=device.l2_partitions,
            capacity=int(device.l2_usable * device.l2_bytes) // device.l2_partitions,
            by_wave=waves,
        )
    )
    sums = blocks * sum_bytes / device.l2_partitions
    outs = blocks * out_bytes / device.l2_partitions
    total = _wave(counts.total, of_a, of_b)
    return L2Traffic(
        a_requested=total.a_requested,
        b_requested=total.b_requested,
        sums_requested=counts.sums_requested * sums,
        a_read=total.a_read,
        b_read=total.b_read,
        sums_read=counts.sums_read * sums,
        crossed=total.crossed,
        stored=batch * tiles_m * tiles_n * (out_bytes + (splits * sum_bytes if splits > 1 else 0)),
        written=counts.sums_evicted * sums + counts.outs_evicted * outs,
        waves=tuple(_wave(loads, of_a, of_b) for loads in counts.waves),
    )


def _wave(loads: Loads, a_bytes: float, b_bytes: float) -> L2Wave:
    return L2Wave(
        a_requested=loads.a_requested * a_bytes,
        b_requested=loads.b_requested * b_bytes,
        a_read=loads.a_read * a_bytes,
        b_read=loads.b_read * b_bytes,
        crossed=loads.a_crossed * a_bytes + loads.b_crossed * b_bytes,
    )


def compiled() -> bool:
    """Whether replays run compiled: otherwise they take more than a hundred times as long."""
    return _replay() is not reference


@cache
def _replay() -> Callable[[L2Work], L2Counts]:
    try:
        from tk._binding import replay_l2 as counted
    except ImportError:
        return reference

    def replay(work: L2Work) -> L2Counts:
        arguments: dict[str, Any] = {
            name: getattr(work, name) for name in work.__dataclass_fields__ if name != "order"
        }
        total, sums, waves = counted(
            order_kind=work.order.code,
            order_param=work.order.param,
            order_table=work.order.table(work.rows, work.cols) or [],
            **arguments,
        )
        sums_requested, sums_read, sums_evicted, outs_evicted = sums
        return L2Counts(
            Loads(*total),
            sums_requested,
            sums_read,
            sums_evicted,
            outs_evicted,
            [Loads(*loads) for loads in waves],
        )

    return replay
