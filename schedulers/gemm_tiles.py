"""What of the matrix product's model depends on an instance and a cluster, whatever the splits, the
grid and the tile order: a block's chain through a tile, and the bytes of the whole product.

The formulas take numbers, for one instance and cluster, or arrays with one for each of many:
planning asks what none of them can beat before it looks at the few that may win.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tk.schedulers.cost import overlapped
from tk.schedulers.device import Device
from tk.schedulers.instance import Instance
from tk.schedulers.problem import DTYPE_BYTES, GemmProblem
from tk.schedulers.walk import ceil_div

Figure = Any
"""A number, or a NumPy array of them."""

JUST_BELOW = 1 - 1e-9
"""A bound is multiplied by it, for rounding."""

_WGMMA_M, _WGMMA_K = 64, 16  # PTX ISA, wgmma.mma_async for 16-bit types
_FRAGMENT_M = 16  # rows of one warp's accumulators
_ACCUMULATOR_BYTES = 4
_LINE_BYTES = 128


def stage_seconds(instance: Instance, device: Device) -> float:
    """Time in which a block computes on one stage, when the stage is always there.

    The tensor cores' time or the shared memory's, whichever is longer: every warpgroup reads its
    rows of a and all of b from shared memory for each WGMMA, while the next stage is written.
    """
    tile_m, tile_n, tile_k = instance.tile_m, instance.tile_n, instance.tile_k
    tensor = 2 * tile_m * tile_n * tile_k * device.num_sms / device.flops(instance.dtype)
    size = DTYPE_BYTES[instance.dtype]
    wgmma_bytes = (_WGMMA_M + tile_n) * _WGMMA_K * size
    num_wgmma = ceil_div(tile_m, _WGMMA_M) * ceil_div(tile_k, _WGMMA_K)
    moved = num_wgmma * wgmma_bytes + (tile_m + tile_n) * tile_k * size
    shared = moved / device.shared_bandwidth
    overhead = device.stage_overhead_s / instance.consumer_warpgroups
    return max(tensor, shared) * device.tile_factors.get(instance.tile, 1.0) + overhead


class Tiling(NamedTuple):
    """An instance and a cluster on a device."""

    tile_m: Figure
    tile_n: Figure
    tile_k: Figure
    consumers: Figure  # warpgroups
    cluster_m: Figure
    cluster_n: Figure
    at_once: Figure  # clusters
    compute: Figure  # `stage_seconds`
    load_bandwidth: Figure  # bytes/s into one multiprocessor
    by_tma: Figure  # 1, or 0
    launch: Figure  # seconds
    summing_bandwidth: Figure  # bytes/s of a split's part that a block parks, or reads and adds
    receiving_bandwidth: Figure  # the same of parts that come from a cluster's other blocks

    @staticmethod
    def of(instance: Instance, cluster: tuple[int, int], device: Device) -> Tiling:
        """That of one instance and cluster."""
        by_tma = instance.loader == "tma"
        size = cluster[0] * cluster[1]
        consumers = instance.consumer_warpgroups
        return Tiling(
            instance.tile_m,
            instance.tile_n,
            instance.tile_k,
            consumers,
            *cluster,
            at_once=device.clusters_at_once(size),
            compute=stage_seconds(instance, device),
            load_bandwidth=device.sm_bandwidth * (1.0 if by_tma else device.gather_fraction),
            by_tma=int(by_tma),
            launch=device.launch_overhead_s + (device.cluster_overhead_s if size > 1 else 0.0),
            summing_bandwidth=consumers * device.partial_bandwidth,
            receiving_bandwidth=consumers * device.cluster_partial_bandwidth,
        )


class Sizes(NamedTuple):
    """A problem as a kernel sees it."""

    m: Figure
    n: Figure
    k: int
    batch: int
    size: int  # bytes of an element of a and b
    out_size: int
    store: Figure  # bytes/s that a consumer warpgroup's epilogue writes
    lines_a: Figure  # lines of the cache in which a loaded row of 128 bytes lies
    lines_b: Figure

    @staticmethod
    def of(problem: GemmProblem, device: Device) -> Sizes:
        """Those of one problem."""
        return Sizes(
            problem.m,
            problem.n,
            problem.k,
            problem.batch,
            DTYPE_BYTES[problem.dtype],
            DTYPE_BYTES[problem.out_dtype],
            device.store_bandwidth if problem.stored_by_vectors else device.element_store_bandwidth,
            _lines_touched(problem.k if problem.a_major == "k" else problem.m),
            _lines_touched(problem.k if problem.b_major == "k" else problem.n),
        )


def _lines_touched(contiguous: int) -> int:
    """Lines of the cache in which a loaded row of 128 bytes lies, if the operand is dense."""
    return 1 if contiguous * DTYPE_BYTES["bf16"] % _LINE_BYTES == 0 else 2


class GemmTiles:
    """What does not depend on the splits and the grid; worked out once for all of them."""

    def __init__(
        self,
        sizes: Sizes,
        device: Device,
        tiling: Tiling,
        maximum: Callable[[Figure, Figure], Figure] = max,
        minimum: Callable[[Figure, Figure], Figure] = min,
    ) -> None:
        m, n, k, batch, size, out_size, store, lines_a, lines_b = sizes
        depth_bytes = k * size  # of a row of a, or a column of b
        tile_m, tile_n, tile_k, consumers, cluster_m, cluster_n, at_once, *rates = tiling
        self.compute, load_bandwidth, by_tma, self.launch, summing, receiving = rates
        self.tiles_m = tiles_m = -(-m // tile_m)
        self.tiles_n = tiles_n = -(-n // tile_n)
        self.rows = rows = -(-tiles_m // cluster_m)  # of cluster tiles
        self.cols = cols = -(-tiles_n // cluster_n)
        self.k_tiles = -(-k // tile_k)
        self.cluster_size = cluster_m * cluster_n
        self.at_once = at_once
        self.cluster_tiles = tiles = rows * cols * batch

        # One block's chain through a round.
        block_bytes = (m / tiles_m + n / tiles_n) * minimum(tile_k, k) * size
        self.load = block_bytes / load_bandwidth
        self.stage = maximum(self.compute, self.load)
        self.tile_out_bytes = m * n * out_size / (tiles_m * tiles_n)
        self.epilogue = self.tile_out_bytes / (consumers * store) + device.epilogue_overhead_s
        # Rows beyond the product's last are not parked.
        rows_kept = minimum(tile_m, -(-m // _FRAGMENT_M) * _FRAGMENT_M)
        self.partial_bytes = rows_kept * tile_n * _ACCUMULATOR_BYTES  # of a split's part
        self.summing = self.partial_bytes / summing
        self.receiving = self.partial_bytes / receiving

        # Bytes. A cluster loads each row of a and column of b once, by multicast.
        self.row_bytes = m / rows * depth_bytes
        self.col_bytes = n / cols * depth_bytes
        self.out_bytes = batch * (m * n * out_size)
        self.l2_bytes = tiles * (self.row_bytes + self.col_bytes)
        asked = self.row_bytes * lines_a + self.col_bytes * lines_b
        self.l2_seconds = tiles * asked / device.l2_bandwidth
        # TMA fills what of a tile lies beyond the operands' edges.
        lines = (tiles_m * tile_m - m) * tiles_n + (tiles_n * tile_n - n) * tiles_m
        self.padding_seconds = by_tma * lines * (batch * depth_bytes) / device.padding_bandwidth
        self.least_bytes = (m + n) * (batch * depth_bytes)
        self.cluster_launch = device.launch_overhead_s + device.cluster_overhead_s

    def latency(self, device: Device, read_bytes: float) -> float:
        """Seconds from asking for a stage to having it, when that much comes from memory."""
        missed = min(read_bytes / self.l2_bytes, 1.0) if self.l2_bytes else 0.0
        return device.load_latency_s + missed * device.memory_latency_s

    def stage_latency(self, device: Device, read_bytes: float, num_stages: int) -> float:
        """Seconds a stage when loads are waited for; `read_bytes` of them come from memory."""
        return self.latency(device, read_bytes) / covered_stages(num_stages)

    def exchange(self, device: Device, splits: int, in_cluster: bool) -> tuple[Figure, Figure]:
        """Seconds in which a block hands on its part of a tile, and in which the sum is formed."""
        if splits == 1:
            return 0.0, 0.0
        if in_cluster:
            return (splits - 1) * device.cluster_split_overhead_s, (splits - 1) * self.receiving
        return self.summing + device.split_overhead_s, splits * self.summing

    def items_at_once(self, device: Device, splits: int, in_cluster: bool) -> int:
        """Work items that the device runs at the same time, a cluster's blocks of each."""
        return device.clusters_at_once(splits) * splits if in_cluster else self.at_once

    def least_times(self, device: Device) -> Callable[[int, int, bool], tuple[float, bool]]:
        """A function of the splits, the stages and whether the splits are a cluster: a time below
        `GemmCost.floor`, some times quicker than it, and whether it is `GemmCost.memory_bound` over
        more than one round.

        The p-norm of sums is at most the sum of p-norms, so the rounds' activities are summed up
        before they are overlapped; what the output and the power limit add is left out.
        """
        exponent = device.overlap_exponent
        stage, epilogue = self.stage, self.epilogue
        least = self.least_bytes / device.dram_bandwidth
        latency = self.latency(device, self.least_bytes)
        moving = overlapped(exponent, self.l2_seconds, self.padding_seconds, least)
        base = device.fill_s + epilogue
        all_tiles, all_k = self.cluster_tiles, self.k_tiles

        def least_time(splits: int, num_stages: int, in_cluster: bool) -> tuple[float, bool]:
            items = all_tiles * splits
            at_once = self.items_at_once(device, splits, in_cluster)
            clusters = at_once if at_once < items else items
            full_rounds = (items - 1) // clusters
            k_tiles = -(-all_k // splits)
            seconds = base + (self.cluster_launch if in_cluster else self.launch)
            finish = epilogue
            if splits > 1:
                partial, reduction = self.exchange(device, splits, in_cluster)
                seconds += partial + reduction
                finish = partial + (epilogue + reduction) / splits
            finish *= full_rounds
            waited = latency / covered_stages(num_stages)
            chain = (full_rounds + 1) * k_tiles * (waited if waited > stage else stage) + finish
            moved = moving + finish
            if chain < moved:
                chain, moved = moved, chain
            if chain > 0:
                seconds += chain * (1 + (moved / chain) ** exponent) ** (1 / exponent)
            drawn = full_rounds > 0 and least > stage * k_tiles * items / clusters
            return seconds * JUST_BELOW, drawn

        return least_time


def covered_stages(num_stages: int) -> float:
    """Of a ring that deep, the stages that cover a load's latency: all but two.

    One of the two is read by products in flight, the other is given back only after the next ones
    are issued.
    """
    return num_stages - 2 if num_stages > 2 else 0.5
