"""The matrix product as a family: its candidates, what makes one illegal, and `plan_gemm`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf, sqrt
from typing import Any, NamedTuple

from tk.schedulers.choose import Choice, Group, Rejected, register
from tk.schedulers.cost import Prediction
from tk.schedulers.device import Device
from tk.schedulers.gemm_bounds import way_bounds
from tk.schedulers.gemm_cost import GemmCost, GemmShape
from tk.schedulers.gemm_tiles import GemmTiles, Sizes
from tk.schedulers.gemm_ways import (
    Way,
    cluster_of_splits_reason,
    cluster_reason,
    cluster_splits,
    dynamic_reason,
    instance_reason,
    problem_reason,
    split_counts,
    splits_reason,
    ways_of,
)
from tk.schedulers.instance import Instance
from tk.schedulers.l2 import L2Traffic, replay_grid
from tk.schedulers.order import MAX_TABLE_COLS, MAX_TABLE_ROWS, Order
from tk.schedulers.pipeline import FEWEST_STAGES, num_stages_for, stages_that_fit
from tk.schedulers.plan import Plan, make_plan
from tk.schedulers.problem import DTYPE_BYTES, GemmProblem
from tk.schedulers.walk import ceil_div

_OTHERS_WAYS = ("longest_first", "turns", "pack_heads")
_WIDTHS = (4, 8, 16)  # of bands that are tried, beside those that the model computes
_MAX_INDEX = (1 << 31) - 1  # tiles are numbered in 32 bits
_MAX_TABLE_TILES = 4096  # a larger table takes longer to make than it saves


class GemmGroup(GemmCost):
    """The candidates of one instance, cluster, split and depth."""

    def choice(self, order: Order) -> Choice:
        """The candidate with that order."""
        return Choice(
            self.instance,
            self.num_stages,
            self.cluster,
            order,
            self.splits,
            self.grid,
            self.swapped,
            self.dynamic,
            self.splits_in_cluster,
        )

    def predict(self, order: Order) -> Prediction:
        """What the model says of it; bytes by the operands' own names."""
        prediction = super().predict(order)
        if not self.swapped:
            return prediction
        names = {"a": "b", "b": "a"}
        counted = {names.get(name, name): count for name, count in prediction.bytes.items()}
        return replace(prediction, bytes=counted)

    def replay(self, order: Order, *, waves: bool = False) -> L2Traffic:
        """The candidate's bytes by the L2 model; by the operands' own names."""
        shape, problem = self.shape, self.problem
        k_tiles = max(shape.k_tiles, 1)
        size = DTYPE_BYTES[problem.dtype]
        traffic = replay_grid(
            order,
            shape.tiles_m,
            shape.tiles_n,
            k_tiles,
            device=self.device,
            a_bytes=problem.m * problem.k * size / (shape.tiles_m * k_tiles),
            b_bytes=problem.n * problem.k * size / (shape.tiles_n * k_tiles),
            out_bytes=self.tiles.tile_out_bytes,
            # In a cluster they never leave shared memory.
            sum_bytes=0.0 if self.splits_in_cluster else self.partial_bytes,
            # Blocks beyond those that run at once begin when others end, as their next items would.
            grid=self.clusters * self.tiles.cluster_size,
            cluster=self.cluster,
            batch=problem.batch,
            splits=self.splits,
            waves=waves,
        )
        return traffic.exchanged() if self.swapped else traffic

    def orders(self) -> Sequence[Order]:
        """Bands whose waves are about square in bytes, then bands of set widths, plain orders."""
        tiles = self.tiles
        rows, cols = tiles.rows, tiles.cols
        if rows == 1 or cols == 1:
            return (_order("row"),)
        wave = max(self.clusters / self.splits, 1.0)
        square = sqrt(wave * max(tiles.col_bytes, 1.0) / max(tiles.row_bytes, 1.0))
        found: dict[Order, None] = {}
        for factor in (1.0, 0.5, 2.0):
            for kind, lines, ideal in (
                ("grouped_m", rows, square * factor),
                ("grouped_n", cols, wave / square * factor),
            ):
                width = min(max(round(ideal), 1), lines)
                width = ceil_div(lines, ceil_div(lines, width))  # bands of even width
                if width > 1:
                    found[_order(kind, width)] = None
            if self.full_rounds == 0:
                break  # one wave: every order reads the same bytes
        if self.full_rounds > 0:
            for width in _WIDTHS:
                for kind, lines in (("grouped_m", rows), ("grouped_n", cols)):
                    if width < lines:
                        found[_order(kind, width)] = None
        found[_order("row")] = None
        if self.full_rounds > 0:
            found[_order("column")] = None
            found[_order("snake")] = None
        return tuple(found)

    def table_orders(self) -> Sequence[Order]:
        """Hilbert, where the grid is a few waves of a table that is quickly made."""
        rows, cols = self.tiles.rows, self.tiles.cols
        if self.full_rounds == 0 or rows * cols > _MAX_TABLE_TILES or min(rows, cols) < 4:
            return ()
        return (_order("hilbert"),)


@lru_cache(maxsize=1024)
def _order(kind: str, param: int = 0) -> Order:
    return Order(kind, param)


def _as_seen(problem: GemmProblem, choice: Choice) -> GemmProblem:
    """The problem that the choice's kernel sees."""
    return problem.exchanged() if choice.swapped else problem


class _Prospect(NamedTuple):
    """A group that is not made yet."""

    bound: float  # seconds that no order of it can beat; less than its `floor`
    work: GemmProblem  # what the kernel sees
    way: Way
    tiles: GemmTiles
    splits: int
    num_stages: int
    dynamic: bool = False
    in_cluster: bool = False


class GemmProspects:
    """All groups of a problem, each with a bound that is quickly worked out, and made on request.

    A product of few rows has more than a hundred groups, whose models would take a millisecond; so
    there is a bound for each way to run it, too, and only those that may win are looked into. An
    index is the number of a way and that of one of its groups.
    """

    def __init__(self, problem: GemmProblem, device: Device, instances: Sequence[Instance]) -> None:
        self._device = device
        self._problem = problem
        self._exchanged: GemmProblem | None = None
        self._ways = ways_of(problem, device, instances)
        self._way_bounds = way_bounds(problem, device, self._ways.table)
        self._looked_into: dict[int, list[_Prospect]] = {}

    def least(self) -> tuple[int, int] | None:
        """The index of the group with the least bound; None when there is no group."""
        found = None
        least = inf
        bounds = self._way_bounds
        for number in sorted(range(len(bounds)), key=bounds.__getitem__):
            if bounds[number] > least:
                break
            for place, prospect in enumerate(self._groups_of(number)):
                if prospect.bound < least or found is None:
                    found, least = (number, place), prospect.bound
        return found

    def within(self, seconds: float) -> list[tuple[int, int]]:
        """The indices of all groups whose bounds are at most that."""
        return [
            (number, place)
            for number, bound in enumerate(self._way_bounds)
            if bound <= seconds
            for place, prospect in enumerate(self._groups_of(number))
            if prospect.bound <= seconds
        ]

    def bound(self, index: tuple[int, int]) -> float:
        """Seconds that no order of that group can beat."""
        return self._groups_of(index[0])[index[1]].bound

    def _groups_of(self, number: int) -> list[_Prospect]:
        """The groups of a way."""
        found = self._looked_into.get(number)
        if found is None:
            found = self._looked_into[number] = list(self._look_into(self._ways.ways[number]))
        return found

    def _look_into(self, way: Way) -> Iterator[_Prospect]:
        device = self._device
        work = self._seen_by(way)
        tiles = GemmTiles(Sizes.of(work, device), device, way.tiling)
        if self._reason(way, tiles) is not None:
            return
        least = tiles.least_times(device)
        num_stages = way.num_stages
        for splits in split_counts(tiles.cluster_tiles, tiles.at_once, tiles.k_tiles):
            bound, drawn = least(splits, num_stages, False)
            yield _Prospect(bound, work, way, tiles, splits, num_stages)
            if drawn and way.may_draw:
                yield _Prospect(bound, work, way, tiles, splits, num_stages, dynamic=True)
        for splits, num_stages in cluster_splits(device, way, tiles.cluster_tiles, tiles.k_tiles):
            bound, _ = least(splits, num_stages, True)
            yield _Prospect(bound, work, way, tiles, splits, num_stages, in_cluster=True)

    def _seen_by(self, way: Way) -> GemmProblem:
        """What the way's kernel sees."""
        if not way.swapped:
            return self._problem
        if self._exchanged is None:
            self._exchanged = self._problem.exchanged()
        return self._exchanged

    @staticmethod
    def _reason(way: Way, tiles: GemmTiles) -> str | None:
        """Why this product cannot be run so, or None."""
        down, right = way.cluster
        if down > tiles.tiles_m or right > tiles.tiles_n:
            return f"cluster {down}x{right} on {tiles.tiles_m}x{tiles.tiles_n} tiles"
        if tiles.cluster_tiles > _MAX_INDEX:
            return f"{tiles.rows}x{tiles.cols} cluster tiles do not fit in 32 bits"
        return None

    def group(self, index: tuple[int, int]) -> GemmGroup:
        """The group at that place."""
        made = self._groups_of(index[0])[index[1]]
        return GemmGroup(
            made.work,
            self._device,
            made.way.instance,
            made.way.cluster,
            made.splits,
            made.num_stages,
            swapped=made.way.swapped,
            dynamic=made.dynamic,
            splits_in_cluster=made.in_cluster,
            tiles=made.tiles,
        )

    def rejected(self) -> list[Rejected]:
        """What is in no group, and why."""
        found = list(self._ways.rejected)
        for way in self._ways.ways:
            sizes = Sizes.of(self._seen_by(way), self._device)
            reason = self._reason(way, GemmTiles(sizes, self._device, way.tiling))
            if reason is not None:
                found.append(Rejected(way.instance.name, reason))
        return found


class GemmFamily:
    """The matrix product, for the registry of families."""

    name = "gemm"

    def groups(
        self, problem: GemmProblem, device: Device, instances: Sequence[Instance]
    ) -> tuple[list[Group], list[Rejected]]:
        """Instances x clusters x splits at the deepest ring that fits."""
        prospects = GemmProspects(problem, device, instances)
        return [prospects.group(index) for index in prospects.within(inf)], prospects.rejected()

    def prospects(
        self, problem: GemmProblem, device: Device, instances: Sequence[Instance]
    ) -> GemmProspects:
        """The same groups, not made yet. ValueError when there is nothing to compute."""
        reason = problem_reason(problem)
        if reason is not None:
            raise ValueError(f"{problem}: {reason}")
        return GemmProspects(problem, device, instances)

    def illegal(self, problem: GemmProblem, device: Device, choice: Choice) -> str | None:
        """Why the choice cannot run, in one line, or None when it can."""
        instance, cluster = choice.instance, choice.cluster
        reason = problem_reason(problem)
        if reason is not None:
            return reason
        work = _as_seen(problem, choice)
        reason = instance_reason(work, device, instance) or cluster_reason(
            device, instance, cluster
        )
        foreign = [name for name in _OTHERS_WAYS if getattr(choice, name)]
        if foreign:
            return f"{foreign[0]} is for other kernels, not for matrix products"
        if reason is None and choice.dynamic:
            reason = dynamic_reason(instance, cluster)
        if reason is not None:
            how = " (swapped)" if choice.swapped else ""
            return f"instance {instance.name}{how}: {reason}"
        if choice.splits_in_cluster:
            reason = cluster_of_splits_reason(device, choice)
            if reason is not None:
                return reason
        parts = choice.parts_received
        if stages_that_fit(instance, device, parts) < FEWEST_STAGES:
            return f"{FEWEST_STAGES} stages do not fit beside the parts of {parts} other splits"
        deepest = num_stages_for(instance, device, parts)
        if not FEWEST_STAGES <= choice.num_stages <= deepest:
            return (
                f"num_stages is {choice.num_stages}; {instance.name} takes {FEWEST_STAGES} to"
                f" {deepest}"
            )
        shape = GemmShape.of(work, device, instance, cluster, choice.splits)
        reason = splits_reason(choice.splits, shape.k_tiles)
        if reason is not None:
            return reason
        if shape.items > _MAX_INDEX:
            return f"{shape.items} work items do not fit in 32 bits"
        size = cluster[0] * cluster[1]
        most = shape.items * size
        if choice.splits_in_cluster and choice.grid != most:
            return f"grid is {choice.grid}; splits_in_cluster needs a block a split, {most}"
        if choice.grid % size or not size <= choice.grid <= most:
            return (
                f"grid is {choice.grid}; needs a multiple of the cluster's {size} blocks,"
                f" {size} to {most}"
            )
        if choice.order.needs_table and (
            shape.rows > MAX_TABLE_ROWS or shape.cols > MAX_TABLE_COLS
        ):
            return f"order {choice.order} cannot number {shape.rows}x{shape.cols} cluster tiles"
        return None

    def default_grid(self, problem: GemmProblem, device: Device, choice: Choice) -> int:
        """As many clusters as run at once, or as there is work for."""
        work = _as_seen(problem, choice)
        shape = GemmShape.of(work, device, choice.instance, choice.cluster, choice.splits)
        if choice.splits_in_cluster:
            return shape.items
        return shape.clusters * choice.cluster[0] * choice.cluster[1]

    def group_of(self, problem: GemmProblem, device: Device, choice: Choice) -> Group:
        """The group that a choice belongs to."""
        return GemmGroup(
            _as_seen(problem, choice),
            device,
            choice.instance,
            choice.cluster,
            choice.splits,
            choice.num_stages,
            choice.grid,
            choice.swapped,
            choice.dynamic,
            choice.splits_in_cluster,
        )

    def problem_from_dict(self, record: dict[str, Any]) -> GemmProblem:
        """A problem from its plain values."""
        return GemmProblem.from_dict(record)

    def instance_from_dict(self, record: dict[str, Any]) -> Instance:
        """A line of the instance table from its plain values."""
        return Instance.from_dict(record)

    def num_stages(self, device: Device, choice: Choice) -> int:
        """The deepest ring that fits beside the parts of other splits."""
        return num_stages_for(choice.instance, device, choice.parts_received)


register(GemmFamily())


def plan_gemm(
    problem: GemmProblem, device: Device, instances: Sequence[Instance], *, keep: int = 8
) -> Plan:
    """The plan with the shortest predicted time, and up to `keep` runners-up.

    ValueError names what is wrong when there is nothing to compute or no instance fits.
    """
    return make_plan(problem, device, instances, keep=keep)
