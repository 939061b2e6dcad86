"""The time model of the matrix product: rounds of a persistent grid, bytes by operand, power.

A candidate's grid runs `items` work items (a cluster tile and a split of K each) in rounds. A round
takes as long as its slowest chain: one block's K loop and epilogue, or the bytes of all blocks
through L2, or the bytes from and to memory. Everything that does not depend on the tile order is
worked out once per candidate; an order changes the bytes from memory alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tk.schedulers.cost import Prediction, overlapped, power_limited
from tk.schedulers.device import Device
from tk.schedulers.instance import Instance
from tk.schedulers.memo import TableMemo
from tk.schedulers.order import Order
from tk.schedulers.pipeline import pipeline_for
from tk.schedulers.problem import DTYPE_BYTES, GemmProblem
from tk.schedulers.traffic import Panels, panels_read
from tk.schedulers.walk import ceil_div, cluster_grid

_WGMMA_M, _WGMMA_K = 64, 16  # PTX ISA, wgmma.mma_async for 16-bit types
_FRAGMENT_M = 16  # rows of one warp's accumulators
_ACCUMULATOR_BYTES = 4
_LINE_BYTES = 128
_MOST_WALKS = 8192  # of a device whose panels are remembered
_JUST_BELOW = 1 - 1e-9  # of a bound, for rounding

# What an order reads of a grid of tiles: instances and clusters with tiles of the same size share
# it, and so do the layouts and data types of a problem.
_Walk = tuple[int, int, float, float, float]
_known_panels: TableMemo[dict[tuple[Order, _Walk], Panels]] = TableMemo(lambda device, _: {})


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


def _lines_touched(k: int, other: int, major: str) -> int:
    """Lines of the cache in which a loaded row of 128 bytes lies, if the operand is dense."""
    contiguous = k if major == "k" else other
    return 1 if contiguous * DTYPE_BYTES["bf16"] % _LINE_BYTES == 0 else 2


@dataclass(frozen=True)
class GemmShape:
    """How a problem falls into tiles, cluster tiles and work items for one candidate."""

    tiles_m: int
    tiles_n: int
    rows: int  # of cluster tiles
    cols: int
    k_tiles: int
    clusters: int  # running at once
    items: int

    @staticmethod
    def of(
        problem: GemmProblem,
        device: Device,
        instance: Instance,
        cluster: tuple[int, int],
        splits: int,
    ) -> GemmShape:
        """The shape of a candidate; the grid is as large as the device and the work allow."""
        tiles_m = ceil_div(problem.m, instance.tile_m)
        tiles_n = ceil_div(problem.n, instance.tile_n)
        rows, cols = cluster_grid(tiles_m, tiles_n, cluster)
        items = rows * cols * problem.batch * splits
        at_once = device.clusters_at_once(cluster[0] * cluster[1])
        return GemmShape(
            tiles_m=tiles_m,
            tiles_n=tiles_n,
            rows=rows,
            cols=cols,
            k_tiles=ceil_div(problem.k, instance.tile_k),
            clusters=max(min(at_once, items), 1),
            items=items,
        )


class GemmTiles:
    """What of the model depends on an instance and a cluster, whatever the splits and the grid.

    Planning asks for many splits of each, and is to take microseconds: so this is worked out once.
    `compute` is `stage_seconds`, when it is known.
    """

    def __init__(
        self,
        problem: GemmProblem,
        device: Device,
        instance: Instance,
        cluster: tuple[int, int],
        compute: float | None = None,
    ) -> None:
        m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
        tile_m, tile_n = instance.tile_m, instance.tile_n
        cluster_m, cluster_n = cluster
        self.tiles_m = tiles_m = -(-m // tile_m)
        self.tiles_n = tiles_n = -(-n // tile_n)
        self.rows = rows = -(-tiles_m // cluster_m)  # of cluster tiles
        self.cols = cols = -(-tiles_n // cluster_n)
        self.k_tiles = -(-k // instance.tile_k)
        self.cluster_size = cluster_m * cluster_n
        self.at_once = device.clusters_at_once(self.cluster_size)
        self.cluster_tiles = tiles = rows * cols * batch

        # One block's chain through a round.
        size = DTYPE_BYTES[problem.dtype]
        out_size = DTYPE_BYTES[problem.out_dtype]
        consumers = instance.consumer_warpgroups
        store = device.element_store_bandwidth
        if problem.stored_by_vectors:
            store = device.store_bandwidth
        fraction = 1.0 if instance.loader == "tma" else device.gather_fraction
        tile_out = m * n / (tiles_m * tiles_n)
        block_bytes = m / tiles_m + n / tiles_n
        block_bytes *= min(instance.tile_k, k) * size
        self.compute = stage_seconds(instance, device) if compute is None else compute
        self.load = block_bytes / (device.sm_bandwidth * fraction)
        self.stage = max(self.compute, self.load)
        self.tile_out_bytes = tile_out * out_size
        self.epilogue = self.tile_out_bytes / (consumers * store) + device.epilogue_overhead_s
        # Rows beyond the product's last are not parked.
        rows_kept = min(tile_m, -(-m // _FRAGMENT_M) * _FRAGMENT_M)
        self.partial_bytes = float(rows_kept * tile_n * _ACCUMULATOR_BYTES)
        self.summing = self.partial_bytes / (
            consumers * device.partial_bandwidth
        )  # of a split's part
        self.receiving = self.partial_bytes / (consumers * device.cluster_partial_bandwidth)

        # Bytes. A cluster loads each row of a and column of b once, by multicast.
        self.row_bytes = m / rows * k * size
        self.col_bytes = n / cols * k * size
        self.out_bytes = float(batch * m * n * out_size)
        self.l2_bytes = tiles * (self.row_bytes + self.col_bytes)
        asked = self.row_bytes * _lines_touched(k, m, problem.a_major)
        asked += self.col_bytes * _lines_touched(k, n, problem.b_major)
        self.l2_seconds = tiles * asked / device.l2_bandwidth
        self.padding_seconds = 0.0
        if instance.loader == "tma":
            lines_m = tiles_m * tile_m - m
            lines_n = tiles_n * tile_n - n
            lines = lines_m * tiles_n + lines_n * tiles_m
            padding = batch * lines * k * size
            self.padding_seconds = padding / device.padding_bandwidth
        self.least_bytes = batch * (m + n) * k * size
        self.launch = device.launch_overhead_s
        if self.cluster_size > 1:
            self.launch += device.cluster_overhead_s
        self.cluster_launch = device.launch_overhead_s + device.cluster_overhead_s

    def stage_latency(self, device: Device, read_bytes: float, num_stages: int) -> float:
        """Seconds a stage when loads are waited for: the ring but two stages covers one latency.

        One of the two is read by products in flight, the other is given back only after the next
        ones are issued. `read_bytes` of what is loaded come from memory and take longer.
        """
        missed = min(read_bytes / self.l2_bytes, 1.0) if self.l2_bytes else 0.0
        latency = device.load_latency_s + missed * device.memory_latency_s
        return latency / max(num_stages - 2, 0.5)

    def exchange(self, device: Device, splits: int, in_cluster: bool) -> tuple[float, float]:
        """Seconds in which a block hands on its part of a tile, and in which the sum is formed."""
        if splits == 1:
            return 0.0, 0.0
        if in_cluster:
            return (splits - 1) * device.cluster_split_overhead_s, (splits - 1) * self.receiving
        return self.summing + device.split_overhead_s, splits * self.summing

    def items_at_once(self, device: Device, splits: int, in_cluster: bool) -> int:
        """Work items that the device runs at the same time, a cluster's blocks of each."""
        return device.clusters_at_once(splits) * splits if in_cluster else self.at_once

    def least_times(
        self, device: Device, num_stages: int, in_cluster: bool = False
    ) -> Callable[[int], tuple[float, bool]]:
        """A function of the splits: a time below `GemmCost.floor`, some times quicker than it, and
        whether it is `GemmCost.memory_bound` over more than one round.

        The p-norm of sums is at most the sum of p-norms, so the rounds' activities are summed up
        before they are overlapped; what the output and the power limit add is left out.
        """
        exponent = device.overlap_exponent
        stage = self.stage
        least = self.least_bytes / device.dram_bandwidth
        waited = max(stage, self.stage_latency(device, self.least_bytes, num_stages))
        moving = overlapped(exponent, self.l2_seconds, self.padding_seconds, least)
        base = device.fill_s + self.epilogue
        base += self.cluster_launch if in_cluster else self.launch
        all_tiles, all_k = self.cluster_tiles, self.k_tiles
        epilogue = self.epilogue
        scale = _JUST_BELOW if exponent >= 1 else 0.0  # below 1 it is no norm

        def least_time(splits: int) -> tuple[float, bool]:
            items = all_tiles * splits
            at_once = self.items_at_once(device, splits, in_cluster)
            clusters = at_once if at_once < items else items
            full_rounds = (items - 1) // clusters
            k_tiles = -(-all_k // splits)
            seconds = base
            finish = epilogue
            if splits > 1:
                partial, reduction = self.exchange(device, splits, in_cluster)
                seconds += partial + reduction
                finish = partial + (epilogue + reduction) / splits
            finish *= full_rounds
            chain = (full_rounds + 1) * k_tiles * waited + finish
            moved = moving + finish
            if chain < moved:
                chain, moved = moved, chain
            if chain > 0:
                seconds += chain * (1 + (moved / chain) ** exponent) ** (1 / exponent)
            drawn = full_rounds > 0 and least > stage * k_tiles * items / clusters
            return seconds * scale, drawn

        return least_time


class GemmCost:
    """The model of one candidate but for its tile order.

    `problem` is what the kernel sees: of a swapped candidate, the exchanged one.
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
        tiles: GemmTiles | None = None,
    ) -> None:
        self.problem, self.device, self.instance = problem, device, instance
        self.cluster, self.splits, self.num_stages = cluster, splits, num_stages
        self.swapped, self.dynamic, self.splits_in_cluster = swapped, dynamic, splits_in_cluster
        if tiles is None:
            tiles = GemmTiles(problem, device, instance, cluster)
        self.tiles = tiles
        self.items = items = tiles.cluster_tiles * splits
        at_once = tiles.items_at_once(device, splits, splits_in_cluster)
        self.most_clusters = most = max(min(at_once, items), 1)
        clusters = most if grid is None else min(max(grid // tiles.cluster_size, 1), most)
        self.clusters = clusters  # running at once
        if grid is None:  # a cluster of splits has one tile
            grid = items if splits_in_cluster else clusters * tiles.cluster_size
        self.grid = grid
        full_rounds, last = divmod(items, clusters)
        if last == 0 and full_rounds:
            full_rounds, last = full_rounds - 1, clusters
        self.full_rounds, self.last = full_rounds, last
        self.rounds = rounds = full_rounds + 1
        # Memory does not serve all blocks alike. The last has its share that much later; if they
        # take work as they become free, in the last round alone. Blocks of a cluster wait for each
        # other at every stage.
        uneven = device.memory_unevenness * tiles.cluster_size
        self.unevenness = 1 + uneven / (rounds if dynamic else 1)
        self.k_tiles = -(-tiles.k_tiles // splits)  # of a split
        self.launch = tiles.cluster_launch if splits_in_cluster else tiles.launch
        self.partial, self.reduction = tiles.exchange(device, splits, splits_in_cluster)
        self.partial_bytes = tiles.partial_bytes if splits > 1 else 0.0

    @property
    def shape(self) -> GemmShape:
        """Tiles, cluster tiles and work items."""
        tiles = self.tiles
        return GemmShape(
            tiles_m=tiles.tiles_m,
            tiles_n=tiles.tiles_n,
            rows=tiles.rows,
            cols=tiles.cols,
            k_tiles=tiles.k_tiles,
            clusters=self.most_clusters,
            items=self.items,
        )

    @property
    def memory_bound(self) -> bool:
        """Whether the bytes that must come from memory take longer than the blocks' own work."""
        blocks_work = self.tiles.stage * self.k_tiles * self.items / self.clusters
        return self.tiles.least_bytes / self.device.dram_bandwidth > blocks_work

    def floor(self) -> float:
        """A time that no order can beat: that of compulsory bytes from memory."""
        return self._time(self.tiles.least_bytes)[0]

    def stage_latency(self, read_bytes: float) -> float:
        """`GemmTiles.stage_latency` with this ring."""
        return self.tiles.stage_latency(self.device, read_bytes, self.num_stages)

    def seconds(self, order: Order) -> float:
        """The predicted time with that tile order."""
        a_bytes, b_bytes = self._bytes_read(order)
        return self._time(a_bytes + b_bytes)[0]

    def _bytes_read(self, order: Order) -> tuple[float, float]:
        """Bytes of a and b from memory."""
        tiles, batch = self.tiles, self.problem.batch
        walk = tiles.rows, tiles.cols, self.clusters / self.splits, tiles.row_bytes, tiles.col_bytes
        known = _known_panels.get(self.device, ())
        panels = known.get((order, walk))
        if panels is None:
            rows, cols, wave, row_bytes, col_bytes = walk
            panels = panels_read(
                order,
                rows,
                cols,
                wave=wave,
                row_bytes=row_bytes,
                col_bytes=col_bytes,
                device=self.device,
            )
            if len(known) >= _MOST_WALKS:
                known.clear()
            known[order, walk] = panels
        return panels.rows * tiles.row_bytes * batch, panels.cols * tiles.col_bytes * batch

    def predict(self, order: Order) -> Prediction:
        """The whole prediction with that tile order."""
        problem, device, tiles = self.problem, self.device, self.tiles
        a_bytes, b_bytes = self._bytes_read(order)
        seconds, loop, split, slowed = self._time(a_bytes + b_bytes)
        moved = a_bytes + b_bytes + tiles.out_bytes
        waited = self.rounds * self.k_tiles * self.stage_latency(a_bytes + b_bytes)
        blocks = tiles.tiles_m * tiles.tiles_n * problem.batch
        parts = self.splits - 1 if self.splits_in_cluster else 0
        pipeline = pipeline_for(self.instance, device, tiles.compute, self.num_stages, parts)
        return Prediction(
            seconds=seconds,
            parts={
                "launch": self.launch,
                "fill": device.fill_s,
                "main loop": loop,
                "last epilogue": tiles.epilogue,
                "split reduction": split,
                "power limit": slowed,
            },
            busy={
                "tensor cores": blocks * tiles.compute * tiles.k_tiles / device.num_sms,
                "L2": tiles.l2_seconds,
                "padding": tiles.padding_seconds,
                "loads of a block": self.rounds * tiles.load * self.k_tiles,
                "latency": waited,
                "HBM": moved / device.dram_bandwidth,
            },
            bytes={"a": a_bytes, "b": b_bytes, "out": tiles.out_bytes, "l2": tiles.l2_bytes},
            flops=float(problem.flops),
            waves=self.items / self.clusters,
            pipeline=str(pipeline),
        )

    def _time(self, read_bytes: float) -> tuple[float, float, float, float]:
        """Seconds in all, of the main loop, of the split reduction and added by the power limit,
        when that much is read from memory."""
        device, tiles, items = self.device, self.tiles, self.items
        exponent = device.overlap_exponent
        chain = max(tiles.stage, self.stage_latency(read_bytes)) * self.k_tiles
        loop = 0.0
        # Rounds before the last. What the one before has written drains to memory. The end of a
        # tile adds to the blocks' chain and to the bytes' time alike: its own loads and stores
        # queue behind those in flight, and little is asked for meanwhile.
        if self.full_rounds:
            share = self.clusters / items
            finish = tiles.epilogue
            if self.splits > 1:
                finish = self.partial + (tiles.epilogue + self.reduction) / self.splits
            moving = overlapped(
                exponent,
                tiles.l2_seconds * share,
                tiles.padding_seconds * share,
                (read_bytes * self.unevenness + tiles.out_bytes) * share / device.dram_bandwidth,
            )
            loop += self.full_rounds * overlapped(exponent, chain + finish, moving + finish)
        # The last round: fewer blocks may be left, and its epilogue is exposed.
        share = self.last / items
        loop += overlapped(
            exponent,
            chain,
            tiles.l2_seconds * share,
            tiles.padding_seconds * share,
            read_bytes * self.unevenness * share / device.dram_bandwidth,
        )
        split = self.partial + self.reduction
        busy = device.fill_s + loop + tiles.epilogue + split
        joules = (
            self.problem.flops * device.joules_per_flop
            + tiles.l2_bytes * device.joules_per_l2_byte
            + (read_bytes + tiles.out_bytes) * device.joules_per_dram_byte
        )
        limited = power_limited(device, busy, joules)
        return self.launch + limited, loop, split, limited - busy
