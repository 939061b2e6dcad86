"""The ring of input stages over time: when each stage is loaded, computed on and given back, and
where the products wait for a load.

One block, by a simulation of its two sides. The producer asks for a stage as soon as it is free and
has it one latency later, or when the block's bandwidth has brought what was asked for before. The
consumers compute one K tile after the other; products in flight read their stage until those of the
next are issued, so it is given back then. After the last K tile of an output tile they write it,
while loads for the next tile go on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tk.schedulers.pipeline import FEWEST_STAGES
from tk.schedulers.waves import cost_of

if TYPE_CHECKING:
    from tk.schedulers.plan import Plan


@dataclass(frozen=True)
class StageTimes:
    """What the simulation takes, in seconds (or any one unit).

    `latency` is from asking for a stage to having it, `transfer` the least time between the arrival
    of two, `compute` that of the products of a stage, `epilogue` that of writing an output tile.
    """

    latency: float
    transfer: float
    compute: float
    epilogue: float

    def __post_init__(self) -> None:
        for name, least in (("latency", 0), ("transfer", 0), ("epilogue", 0)):
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} is {getattr(self, name)!r}; needs a number >= 0")
        if not self.compute > 0:
            raise ValueError(f"compute is {self.compute!r}; needs a number > 0")


@dataclass(frozen=True)
class StageUse:
    """One K tile's way through a stage."""

    tile: int  # output tile of the block
    k: int  # K tile of it
    stage: int
    asked: float  # the stage was free, and the load began
    loaded: float
    begin: float  # of the products
    end: float
    released: float  # the stage may be loaded again
    waited: float  # how long the products would have begun earlier, had it been loaded
    cause: str  # of that: "fill", "latency" or "bandwidth"; "" where none


@dataclass(frozen=True)
class Store:
    """The end of an output tile, when its products are written."""

    tile: int
    begin: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """All events of a block's `num_tiles` output tiles, in the order of K tiles."""

    num_stages: int
    times: StageTimes
    uses: tuple[StageUse, ...]
    stores: tuple[Store, ...]

    @property
    def seconds(self) -> float:
        """When the last tile is written."""
        return self.stores[-1].end

    @property
    def fill(self) -> float:
        """When the first products begin."""
        return self.uses[0].begin

    @property
    def starved(self) -> float:
        """How long the products wait for loads, but for the first one."""
        return sum(use.waited for use in self.uses if use.cause != "fill")

    @property
    def starves(self) -> str:
        """What the products wait for longest after the first load: "latency", "bandwidth" or "".

        Waits of rounding do not count.
        """
        waits = {"latency": 0.0, "bandwidth": 0.0}
        for use in self.uses:
            if use.cause in waits:
                waits[use.cause] += use.waited
        cause = max(waits, key=waits.__getitem__)
        return cause if waits[cause] > 1e-9 * self.seconds else ""


def simulate(times: StageTimes, num_stages: int, k_tiles: int, num_tiles: int = 1) -> Timeline:
    """The timeline of a block that computes `num_tiles` output tiles of `k_tiles` K tiles each,
    through a ring of `num_stages`. ValueError for less than two stages, or one of the others."""
    for name, value, least in (
        ("num_stages", num_stages, FEWEST_STAGES),
        ("k_tiles", k_tiles, 1),
        ("num_tiles", num_tiles, 1),
    ):
        if value < least:
            raise ValueError(f"{name} is {value}; needs >= {least}")
    uses: list[StageUse] = []
    stores: list[Store] = []
    released: list[float] = []  # of the uses so far but the last
    free = 0.0  # when the consumers are done with what came before
    for at in range(k_tiles * num_tiles):
        tile, k = divmod(at, k_tiles)
        asked = released[at - num_stages] if at >= num_stages else 0.0
        by_latency = asked + times.latency
        by_bandwidth = uses[-1].loaded + times.transfer if uses else 0.0
        loaded = max(by_latency, by_bandwidth)
        begin = max(loaded, free)
        cause = ""
        if begin > free:
            late = "bandwidth" if by_bandwidth > by_latency else "latency"
            cause = late if uses else "fill"
        if k > 0:  # these products are issued, those before give back their stage
            released.append(begin)
            uses[-1] = replace(uses[-1], released=begin)
        end = begin + times.compute
        use = StageUse(
            tile, k, at % num_stages, asked, loaded, begin, end, end, begin - free, cause
        )
        uses.append(use)
        free = end
        if k == k_tiles - 1:
            released.append(end)
            stores.append(Store(tile, end, end + times.epilogue))
            free = stores[-1].end
    return Timeline(num_stages, times, tuple(uses), tuple(stores))


def stage_times(plan: Plan) -> StageTimes:
    """The times of a matrix product's plan, by the model of `gemm_cost`.

    A stage arrives no sooner after another than the block's own bandwidth, its share of that of L2,
    or of the memory's allows. ValueError when the plan is for something else.
    """
    cost = cost_of(plan)
    read = plan.prediction.bytes["a"] + plan.prediction.bytes["b"]
    stages = cost.items / cost.clusters * max(cost.k_tiles, 1)  # of one block
    return StageTimes(
        latency=cost.stage_latency(read) * max(plan.num_stages - 1, 1),
        transfer=max(
            cost.tiles.load,
            cost.tiles.l2_seconds / stages,
            cost.tiles.padding_seconds / stages,
            read / plan.device.dram_bandwidth / stages,
        ),
        compute=cost.tiles.compute,
        epilogue=cost.tiles.epilogue,
    )


def k_tiles_of(plan: Plan) -> int:
    """K tiles that a block computes of an output tile: of one split."""
    return max(cost_of(plan).k_tiles, 1)


def tiles_of_block(plan: Plan) -> int:
    """Output tiles (or splits of one) of the block with the most."""
    return cost_of(plan).rounds


def timeline_of(plan: Plan, *, k_tiles: int | None = None, num_tiles: int = 2) -> Timeline:
    """The first `num_tiles` output tiles of a block of the plan, with all their K tiles unless a
    number is given."""
    return simulate(
        stage_times(plan),
        plan.num_stages,
        k_tiles_of(plan) if k_tiles is None else k_tiles,
        num_tiles,
    )
