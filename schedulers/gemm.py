"""The matrix product as a family: its candidates, what makes one illegal, and `plan_gemm`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt
from typing import Any

from tk.schedulers.choose import Choice, Group, Rejected, register
from tk.schedulers.cost import Prediction
from tk.schedulers.device import Device
from tk.schedulers.gemm_cost import GemmCost, GemmShape
from tk.schedulers.instance import Instance
from tk.schedulers.l2 import L2Traffic, replay_grid
from tk.schedulers.order import MAX_TABLE_COLS, MAX_TABLE_ROWS, Order
from tk.schedulers.pipeline import FEWEST_STAGES, num_stages_for, stages_that_fit
from tk.schedulers.plan import Plan, make_plan
from tk.schedulers.problem import DTYPE_BYTES, MAX_SIZE, GemmProblem
from tk.schedulers.walk import ceil_div, cluster_grid

CLUSTERS = ((1, 1), (2, 1), (1, 2))
"""Cluster shapes (along M, along N) that are tried."""

MAX_CLUSTER_SPLITS = 8
"""The most blocks of a cluster that every device runs (CUDA C++ Programming Guide)."""

_SWAPPED_ROWS = 256
"""Up to this M the exchanged problem is tried, too: its N, the narrow side of a tile, is small."""

_WIDTHS = (4, 8, 16)  # of bands that are tried, beside those that the model computes
_MAX_SPLITS = 64
_SMALL_SPLITS = (3, 4, 6, 8, 12, 16, 24, 32, 48)
_MAX_INDEX = (1 << 31) - 1  # tiles are numbered in 32 bits
_MAX_TABLE_TILES = 4096  # a larger table takes longer to make than it saves


class GemmGroup(GemmCost):
    """The candidates of one instance, cluster, split and depth.

    `problem` is what the kernel sees: with `swapped`, the exchanged one.
    """

    def __init__(
        self,
        problem: GemmProblem,
        device: Device,
        instance: Instance,
        cluster: tuple[int, int],
        splits: int,
        num_stages: int,
        grid: int | None = None,
        swapped: bool = False,
        dynamic: bool = False,
        splits_in_cluster: bool = False,
    ) -> None:
        super().__init__(problem, device, instance, cluster, splits, num_stages, grid, dynamic)
        self.swapped = swapped
        self.dynamic = dynamic
        self.splits_in_cluster = splits_in_cluster
        self.cluster = cluster
        self.num_stages = num_stages
        self.grid = self.clusters * cluster[0] * cluster[1] if grid is None else grid

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
            out_bytes=self.tile_out_bytes,
            sum_bytes=self.partial_bytes,
            grid=self.grid,
            cluster=self.cluster,
            batch=problem.batch,
            splits=self.splits,
            waves=waves,
        )
        return traffic.exchanged() if self.swapped else traffic

    def orders(self) -> Sequence[Order]:
        """Bands whose waves are about square in bytes, then bands of set widths, plain orders."""
        rows, cols = self.shape.rows, self.shape.cols
        if rows == 1 or cols == 1:
            return (Order("row"),)
        wave = max(self.clusters / self.splits, 1.0)
        square = sqrt(wave * max(self.col_bytes, 1.0) / max(self.row_bytes, 1.0))
        found: dict[Order, None] = {}
        for factor in (1.0, 0.5, 2.0):
            for kind, lines, ideal in (
                ("grouped_m", rows, square * factor),
                ("grouped_n", cols, wave / square * factor),
            ):
                width = min(max(round(ideal), 1), lines)
                width = ceil_div(lines, ceil_div(lines, width))  # bands of even width
                if width > 1:
                    found[Order(kind, width)] = None
            if self.full_rounds == 0:
                break  # one wave: every order reads the same bytes
        if self.full_rounds > 0:
            for width in _WIDTHS:
                for kind, lines in (("grouped_m", rows), ("grouped_n", cols)):
                    if width < lines:
                        found[Order(kind, width)] = None
        found[Order("row")] = None
        if self.full_rounds > 0:
            found[Order("column")] = None
            found[Order("snake")] = None
        return tuple(found)

    def table_orders(self) -> Sequence[Order]:
        """Hilbert, where the grid is a few waves of a table that is quickly made."""
        tiles = self.shape.rows * self.shape.cols
        if (
            self.full_rounds == 0
            or tiles > _MAX_TABLE_TILES
            or min(self.shape.rows, self.shape.cols) < 4
        ):
            return ()
        return (Order("hilbert"),)


def _problem_reason(problem: GemmProblem) -> str | None:
    for name in ("m", "n", "k", "batch"):
        if getattr(problem, name) > MAX_SIZE:
            return f"{name} is {getattr(problem, name)}; at most {MAX_SIZE}"
    for name in ("m", "n", "batch"):
        if getattr(problem, name) == 0:
            return f"{name} is 0: the product is empty and needs no plan"
    return None


def _instance_reason(problem: GemmProblem, device: Device, instance: Instance) -> str | None:
    if instance.dtype != problem.dtype:
        return f"its operands are {instance.dtype}, the problem's {problem.dtype}"
    if instance.dtype not in device.peak_flops:
        return f"{device.name} has no rate for {instance.dtype}"
    if problem.loader == "gather" and instance.loader != "gather":
        return "TMA cannot load these operands (strides or alignment)"
    if instance.loader == "tma":
        for operand, have, want in (
            ("a", instance.a_major, problem.a_major),
            ("b", instance.b_major, problem.b_major),
        ):
            if have != want:
                return f"it loads {operand} with {have} contiguous, the problem has {want}"
    if stages_that_fit(instance, device) < FEWEST_STAGES:
        return (
            f"{FEWEST_STAGES} stages of {instance.bytes_per_stage} bytes and"
            f" {instance.fixed_bytes} fixed bytes exceed {device.shared_memory_per_block} bytes"
            " of shared memory"
        )
    return None


def _cluster_reason(device: Device, instance: Instance, cluster: tuple[int, int]) -> str | None:
    size = cluster[0] * cluster[1]
    if cluster[0] < 1 or cluster[1] < 1 or size > device.max_cluster:
        return f"cluster {cluster[0]}x{cluster[1]}: a cluster has 1 to {device.max_cluster} blocks"
    if any(blocks & (blocks - 1) for blocks in cluster):
        return f"cluster {cluster[0]}x{cluster[1]}: both numbers must be powers of two"
    if not _shares_whole_rows(instance, cluster):
        return (
            f"cluster {cluster[0]}x{cluster[1]}: a block's part of a tile of"
            f" {instance.tile_m}x{instance.tile_n} would be less than 8 rows"
        )
    if size > device.num_sms:
        return f"cluster {cluster[0]}x{cluster[1]} needs more blocks than the device runs at once"
    if size > 1 and instance.loader != "tma":
        return f"cluster {cluster[0]}x{cluster[1]}: only the tma loader multicasts"
    return None


def _shares_whole_rows(instance: Instance, cluster: tuple[int, int]) -> bool:
    """Whether each block's part of an operand's tile is 8 rows, a swizzle's height, or more."""
    # With K contiguous the rows are those of the output; else K's, in panels that are dealt whole.
    a_whole = instance.a_major != "k" or instance.tile_m % (8 * cluster[1]) == 0
    return a_whole and (instance.b_major != "k" or instance.tile_n % (8 * cluster[0]) == 0)


def _dynamic_reason(instance: Instance, cluster: tuple[int, int]) -> str | None:
    if instance.loader != "tma" or cluster != (1, 1):
        return "dynamic needs the tma loader and clusters of one block"
    return None


def _cluster_of_splits_reason(device: Device, choice: Choice) -> str | None:
    most = min(device.max_cluster, MAX_CLUSTER_SPLITS)
    if not 2 <= choice.splits <= most:
        return f"splits is {choice.splits}; splits_in_cluster takes 2 to {most}"
    if choice.instance.bytes_per_part == 0:
        return f"instance {choice.instance.name} cannot sum the splits of a tile in a cluster"
    if choice.cluster != (1, 1) or choice.dynamic:
        return "splits_in_cluster needs cluster (1, 1) and no dynamic"
    return None


def _splits_reason(splits: int, k_tiles: int) -> str | None:
    if not 1 <= splits <= max(k_tiles, 1):
        return f"splits is {splits}; K has {k_tiles} tiles, so 1 to {max(k_tiles, 1)}"
    return None


def _split_counts(tiles: int, at_once: int, k_tiles: int) -> list[int]:
    """Splits worth trying: those that fill one, two or three rounds, and a few small ones."""
    if tiles >= 4 * at_once or k_tiles < 2:
        return [1]
    filling = {rounds * at_once // tiles for rounds in (1, 2, 3)}
    small = {s for s in _SMALL_SPLITS if s * tiles <= at_once}
    most = min(k_tiles, _MAX_SPLITS)
    return sorted(s for s in {1, 2} | filling | small if 1 <= s <= most)


def _as_seen(problem: GemmProblem, choice: Choice) -> GemmProblem:
    """The problem that the choice's kernel sees."""
    return problem.exchanged() if choice.swapped else problem


def _views(
    problem: GemmProblem, device: Device, instances: Sequence[Instance]
) -> tuple[list[tuple[GemmProblem, Instance, bool]], list[Rejected]]:
    """The instances that can run the problem as it is, and those worth running it exchanged.

    An exchanged tile is not worth it where a direct one covers the same part of the output: that
    one stores it faster.
    """
    exchanged = problem.exchanged()
    narrow = problem.m <= _SWAPPED_ROWS
    views = []
    swapped = []
    rejected = []
    for instance in instances:
        reason = _instance_reason(problem, device, instance)
        fits_exchanged = narrow and _instance_reason(exchanged, device, instance) is None
        if reason is None:
            views.append((problem, instance, False))
        elif not fits_exchanged:
            rejected.append(Rejected(instance.name, reason))
        if fits_exchanged:
            swapped.append(instance)
    direct = {(i.tile_m, i.tile_n, i.consumer_warpgroups) for _, i, _ in views}
    views += [
        (exchanged, instance, True)
        for instance in swapped
        if (instance.tile_n, instance.tile_m, instance.consumer_warpgroups) not in direct
    ]
    by_tma = [view for view in views if view[1].loader == "tma"]
    if by_tma and len(by_tma) < len(views):
        slower = dict.fromkeys(i.name for _, i, _ in views if i.loader != "tma")
        rejected.extend(Rejected(name, "TMA can load these operands") for name in slower)
        views = by_tma
    return views, rejected


class GemmFamily:
    """The matrix product, for the registry of families."""

    name = "gemm"

    def groups(
        self, problem: GemmProblem, device: Device, instances: Iterable[Instance]
    ) -> tuple[list[Group], list[Rejected]]:
        """Instances x clusters x splits at the deepest ring that fits."""
        groups: list[Group] = []
        views, rejected = _views(problem, device, list(instances))
        for work, instance, swapped in views:
            num_stages = num_stages_for(instance, device)
            tiles_m = ceil_div(work.m, instance.tile_m)
            tiles_n = ceil_div(work.n, instance.tile_n)
            k_tiles = ceil_div(work.k, instance.tile_k)
            for cluster in CLUSTERS:
                reason = _cluster_reason(device, instance, cluster)
                if reason is None and (cluster[0] > tiles_m or cluster[1] > tiles_n):
                    reason = f"cluster {cluster[0]}x{cluster[1]} on {tiles_m}x{tiles_n} tiles"
                if reason is None:
                    rows, cols = cluster_grid(tiles_m, tiles_n, cluster)
                    if rows * cols * work.batch > _MAX_INDEX:
                        reason = f"{rows}x{cols} cluster tiles do not fit in 32 bits"
                if reason is not None:
                    rejected.append(Rejected(instance.name, reason))
                    continue
                at_once = device.clusters_at_once(cluster[0] * cluster[1])
                may_draw = _dynamic_reason(instance, cluster) is None
                for splits in _split_counts(rows * cols * work.batch, at_once, k_tiles):
                    sizes = (work, device, instance, cluster, splits, num_stages)
                    made = partial(GemmGroup, *sizes, swapped=swapped)
                    group = made()
                    groups.append(group)
                    if may_draw and group.full_rounds > 0 and group.memory_bound:
                        groups.append(made(dynamic=True))
        return groups, rejected

    def illegal(self, problem: GemmProblem, device: Device, choice: Choice) -> str | None:
        """Why the choice cannot run, in one line, or None when it can."""
        instance, cluster = choice.instance, choice.cluster
        reason = _problem_reason(problem)
        if reason is not None:
            return reason
        work = _as_seen(problem, choice)
        reason = _instance_reason(work, device, instance) or _cluster_reason(
            device, instance, cluster
        )
        if reason is None and choice.dynamic:
            reason = _dynamic_reason(instance, cluster)
        if reason is not None:
            how = " (swapped)" if choice.swapped else ""
            return f"instance {instance.name}{how}: {reason}"
        if choice.splits_in_cluster:
            reason = _cluster_of_splits_reason(device, choice)
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
        reason = _splits_reason(choice.splits, shape.k_tiles)
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


register(GemmFamily())


def plan_gemm(
    problem: GemmProblem, device: Device, instances: Sequence[Instance], *, keep: int = 8
) -> Plan:
    """The plan with the shortest predicted time, and up to `keep` runners-up.

    ValueError names what is wrong when there is nothing to compute or no instance fits.
    """
    reason = _problem_reason(problem)
    if reason is not None:
        raise ValueError(f"{problem}: {reason}")
    return make_plan(problem, device, instances, keep=keep)
