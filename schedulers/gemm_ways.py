"""Which compiled instances, clusters and splits can run a matrix product, and why others cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tk.schedulers.choose import Choice, Rejected
from tk.schedulers.device import Device
from tk.schedulers.gemm_tiles import Figure, Tiling, covered_stages
from tk.schedulers.instance import Instance
from tk.schedulers.memo import TableMemo
from tk.schedulers.pipeline import FEWEST_STAGES, num_stages_for, stages_that_fit
from tk.schedulers.problem import MAX_SIZE, GemmProblem

CLUSTERS = ((1, 1), (2, 1), (1, 2))
"""Cluster shapes (along M, along N) that are tried."""

MAX_CLUSTER_SPLITS = 8
"""The most blocks of a cluster that every device runs (CUDA C++ Programming Guide)."""

_SWAPPED_ROWS = 256
"""Up to this M the exchanged problem is tried, too: its N, the narrow side of a tile, is small."""

MAX_SPLITS = 64
"""The most splits that are tried."""

_MOST_SPLIT_ROUNDS = 4
_SMALL_SPLITS = (3, 4, 6, 8, 12, 16, 24, 32, 48)


def problem_reason(problem: GemmProblem) -> str | None:
    """Why nothing can compute the problem, or None."""
    for name in ("m", "n", "k", "batch"):
        if getattr(problem, name) > MAX_SIZE:
            return f"{name} is {getattr(problem, name)}; at most {MAX_SIZE}"
    for name in ("m", "n", "batch"):
        if getattr(problem, name) == 0:
            return f"{name} is 0: the product is empty and needs no plan"
    return None


def instance_reason(problem: GemmProblem, device: Device, instance: Instance) -> str | None:
    """Why an instance cannot run the problem as it is, or None."""
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


def cluster_reason(device: Device, instance: Instance, cluster: tuple[int, int]) -> str | None:
    """Why an instance cannot run in such clusters, or None."""
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


def dynamic_reason(instance: Instance, cluster: tuple[int, int]) -> str | None:
    """Why its blocks cannot take work when they are free, or None."""
    if instance.loader != "tma" or cluster != (1, 1):
        return "dynamic needs the tma loader and clusters of one block"
    return None


def cluster_of_splits_reason(device: Device, choice: Choice) -> str | None:
    """Why the splits of a tile cannot be the blocks of a cluster, or None."""
    most = min(device.max_cluster, MAX_CLUSTER_SPLITS)
    if not 2 <= choice.splits <= most:
        return f"splits is {choice.splits}; splits_in_cluster takes 2 to {most}"
    if choice.instance.bytes_per_part == 0:
        return f"instance {choice.instance.name} cannot sum the splits of a tile in a cluster"
    if choice.cluster != (1, 1) or choice.dynamic:
        return "splits_in_cluster needs cluster (1, 1) and no dynamic"
    return None


def splits_reason(splits: int, k_tiles: int) -> str | None:
    """Why K cannot be cut into so many parts, or None."""
    if not 1 <= splits <= max(k_tiles, 1):
        return f"splits is {splits}; K has {k_tiles} tiles, so 1 to {max(k_tiles, 1)}"
    return None


def is_split(rounds: Figure, k_tiles: Figure) -> Figure:
    """Whether splits are tried for tiles that take so many rounds of the device."""
    return (rounds < _MOST_SPLIT_ROUNDS) & (k_tiles > 1)


def split_counts(tiles: int, at_once: int, k_tiles: int) -> list[int]:
    """Splits worth trying: those that fill one, two or three rounds, and a few small ones."""
    if not is_split(tiles / at_once, k_tiles):
        return [1]
    filling = {rounds * at_once // tiles for rounds in (1, 2, 3)}
    small = {s for s in _SMALL_SPLITS if s * tiles <= at_once}
    most = min(k_tiles, MAX_SPLITS)
    return sorted(s for s in {1, 2} | filling | small if 1 <= s <= most)


@dataclass(frozen=True)
class Way:
    """A compiled way to run problems of some kind: an instance and a cluster."""

    instance: Instance
    swapped: bool
    cluster: tuple[int, int]
    num_stages: int
    tiling: Tiling
    may_draw: bool  # its blocks may take work when they are free


@dataclass(frozen=True)
class WaysTable:
    """The figures of ways that do not depend on a problem, as arrays with one for each way."""

    tiling: Tiling
    swapped: NDArray[np.bool_]
    any_swapped: bool
    covered: NDArray[np.float64]  # stages
    sums_in_cluster: NDArray[np.bool_]  # splits may be the blocks of a cluster

    @staticmethod
    def of(ways: Sequence[Way]) -> WaysTable:
        """That of some ways, in their order."""
        rows = np.array([way.tiling for way in ways], dtype=np.float64)
        columns = rows.reshape(-1, len(Tiling._fields)).T
        return WaysTable(
            Tiling(*columns),
            np.array([way.swapped for way in ways], dtype=np.bool_),
            any(way.swapped for way in ways),
            np.array([covered_stages(way.num_stages) for way in ways], dtype=np.float64),
            np.array([way.instance.bytes_per_part > 0 for way in ways], dtype=np.bool_),
        )


@dataclass(frozen=True)
class Ways:
    """The ways to run problems of one kind, and the instances and clusters that are none."""

    ways: tuple[Way, ...]
    table: WaysTable
    rejected: tuple[Rejected, ...]


def cluster_splits(device: Device, way: Way, tiles: int, k_tiles: int) -> Iterator[tuple[int, int]]:
    """Splits worth trying as the blocks of a cluster, each with the depth of its ring.

    All clusters run at once: a second round of a few of them would cost as much as the first.
    """
    if way.instance.bytes_per_part == 0 or way.cluster != (1, 1):
        return
    most = min(device.max_cluster, MAX_CLUSTER_SPLITS, k_tiles)
    for splits in range(2, most + 1):
        if tiles > device.clusters_at_once(splits):
            return
        if stages_that_fit(way.instance, device, splits - 1) >= FEWEST_STAGES:
            yield splits, num_stages_for(way.instance, device, splits - 1)


_Kind = tuple[str, str, str, str, bool]


def _kind_of(problem: GemmProblem) -> _Kind:
    """What of a problem decides which instances can run it."""
    majors = problem.a_major, problem.b_major
    return problem.dtype, *majors, problem.loader, problem.m <= _SWAPPED_ROWS


_known_ways: TableMemo[dict[_Kind, Ways]] = TableMemo(lambda device, instances: {})


def ways_of(problem: GemmProblem, device: Device, instances: Sequence[Instance]) -> Ways:
    """The ways to run problems of this one's kind, and the instances and clusters that are none."""
    known = _known_ways.get(device, instances)
    kind = _kind_of(problem)
    found = known.get(kind)
    if found is None:
        views, rejected = _views(problem, device, instances)
        ways = []
        for instance, swapped in views:
            num_stages = num_stages_for(instance, device)
            for cluster in CLUSTERS:
                reason = cluster_reason(device, instance, cluster)
                if reason is not None:
                    rejected.append(Rejected(instance.name, reason))
                    continue
                may_draw = dynamic_reason(instance, cluster) is None
                tiling = Tiling.of(instance, cluster, device)
                ways.append(Way(instance, swapped, cluster, num_stages, tiling, may_draw))
        found = known[kind] = Ways(tuple(ways), WaysTable.of(ways), tuple(rejected))
    return found


def _views(
    problem: GemmProblem, device: Device, instances: Sequence[Instance]
) -> tuple[list[tuple[Instance, bool]], list[Rejected]]:
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
        reason = instance_reason(problem, device, instance)
        fits_exchanged = narrow and instance_reason(exchanged, device, instance) is None
        if reason is None:
            views.append((instance, False))
        elif not fits_exchanged:
            rejected.append(Rejected(instance.name, reason))
        if fits_exchanged:
            swapped.append(instance)
    direct = {(i.tile_m, i.tile_n, i.consumer_warpgroups) for i, _ in views}
    views += [
        (instance, True)
        for instance in swapped
        if (instance.tile_n, instance.tile_m, instance.consumer_warpgroups) not in direct
    ]
    by_tma = [view for view in views if view[0].loader == "tma"]
    if by_tma and len(by_tma) < len(views):
        slower = dict.fromkeys(i.name for i, _ in views if i.loader != "tma")
        rejected.extend(Rejected(name, "TMA can load these operands") for name in slower)
        views = by_tma
    return views, rejected
