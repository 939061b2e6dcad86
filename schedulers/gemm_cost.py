"""The time model of the matrix product: rounds of a persistent grid, bytes by operand, power.

A candidate's grid runs `items` work items (a cluster tile and a split of K each) in rounds. A round
takes as long as its slowest chain: one block's K loop and epilogue, or the bytes of all blocks
through L2, or the bytes from and to memory. Everything that does not depend on the tile order is
worked out once per candidate; an order changes the bytes from memory alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tk.schedulers.cost import Prediction, overlapped, power_limited
from tk.schedulers.device import Device
from tk.schedulers.instance import Instance
from tk.schedulers.order import Order
from tk.schedulers.pipeline import pipeline_for
from tk.schedulers.problem import DTYPE_BYTES, GemmProblem
from tk.schedulers.traffic import panels_read
from tk.schedulers.walk import ceil_div, cluster_grid

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
        dynamic: bool = False,
    ) -> None:
        self.problem, self.device, self.instance = problem, device, instance
        self.splits = splits
        shape = GemmShape.of(problem, device, instance, cluster, splits)
        self.shape = shape
        cluster_size = cluster[0] * cluster[1]
        clusters = shape.clusters if grid is None else max(grid // cluster_size, 1)
        clusters = min(clusters, shape.clusters)
        self.clusters = clusters
        self.full_rounds, self.last = divmod(shape.items, clusters)
        if self.last == 0 and self.full_rounds:
            self.full_rounds, self.last = self.full_rounds - 1, clusters
        rounds = self.full_rounds + 1
        # Memory does not serve all blocks alike. The last has its share that much later; if they
        # take work as they become free, in the last round alone. Blocks of a cluster wait for each
        # other at every stage.
        self.unevenness = 1 + device.memory_unevenness * cluster_size / (rounds if dynamic else 1)

        # One block's chain through a round.
        size = DTYPE_BYTES[problem.dtype]
        out_size = DTYPE_BYTES[problem.out_dtype]
        consumers = instance.consumer_warpgroups
        store = device.element_store_bandwidth
        if problem.stored_by_vectors:
            store = device.store_bandwidth
        k_tiles = ceil_div(shape.k_tiles, splits)
        fraction = 1.0 if instance.loader == "tma" else device.gather_fraction
        tile_out = problem.m * problem.n / (shape.tiles_m * shape.tiles_n)
        block_bytes = problem.m / shape.tiles_m + problem.n / shape.tiles_n
        block_bytes *= min(instance.tile_k, problem.k) * size
        compute = stage_seconds(instance, device)
        load = block_bytes / (device.sm_bandwidth * fraction)
        self.k_tiles = k_tiles  # of a split
        self.stage = max(compute, load)
        self.epilogue = tile_out * out_size / (consumers * store) + device.epilogue_overhead_s
        self.tile_out_bytes = tile_out * out_size
        self.partial = self.reduction = self.partial_bytes = 0.0
        if splits > 1:
            # Rows beyond the product's last are not parked.
            rows_kept = min(instance.tile_m, ceil_div(problem.m, _FRAGMENT_M) * _FRAGMENT_M)
            self.partial_bytes = float(rows_kept * instance.tile_n * _ACCUMULATOR_BYTES)
            summing = self.partial_bytes / (consumers * device.partial_bandwidth)
            self.partial = summing + device.split_overhead_s
            self.reduction = splits * summing

        # Bytes. A cluster loads each row of a and column of b once, by multicast.
        self.row_bytes = problem.m / shape.rows * problem.k * size
        self.col_bytes = problem.n / shape.cols * problem.k * size
        self.out_bytes = float(problem.batch * problem.m * problem.n * out_size)
        tiles = shape.rows * shape.cols * problem.batch
        self.l2_bytes = tiles * (self.row_bytes + self.col_bytes)
        asked = self.row_bytes * _lines_touched(problem.k, problem.m, problem.a_major)
        asked += self.col_bytes * _lines_touched(problem.k, problem.n, problem.b_major)
        self.l2_seconds = tiles * asked / device.l2_bandwidth
        self.padding_seconds = 0.0
        if instance.loader == "tma":
            lines_m = shape.tiles_m * instance.tile_m - problem.m
            lines_n = shape.tiles_n * instance.tile_n - problem.n
            lines = lines_m * shape.tiles_n + lines_n * shape.tiles_m
            padding = problem.batch * lines * problem.k * size
            self.padding_seconds = padding / device.padding_bandwidth
        self.launch = device.launch_overhead_s
        if cluster_size > 1:
            self.launch += device.cluster_overhead_s
        blocks = shape.tiles_m * shape.tiles_n * problem.batch
        self.num_stages, self.compute = num_stages, compute
        self.busy = {
            "tensor cores": blocks * compute * shape.k_tiles / device.num_sms,
            "L2": self.l2_seconds,
            "padding": self.padding_seconds,
            "loads of a block": rounds * load * k_tiles,
        }
        self.rounds = rounds
        self.least_bytes = problem.batch * (problem.m + problem.n) * problem.k * size

    @property
    def memory_bound(self) -> bool:
        """Whether the bytes that must come from memory take longer than the blocks' own work."""
        blocks_work = self.stage * self.k_tiles * self.shape.items / self.clusters
        return self.least_bytes / self.device.dram_bandwidth > blocks_work

    def floor(self) -> float:
        """A time that no order can beat: that of compulsory bytes from memory."""
        return self._seconds(self.least_bytes)[0]

    @cached_property
    def pipeline(self) -> str:
        """The ring's depth and what limits it, in words."""
        return str(pipeline_for(self.instance, self.device, self.compute, self.num_stages))

    def stage_latency(self, read_bytes: float) -> float:
        """Seconds a stage when loads are waited for: the ring but one stage covers one latency.

        That one is read by products in flight. `read_bytes` of what is loaded come from memory and
        take longer.
        """
        missed = min(read_bytes / self.l2_bytes, 1.0) if self.l2_bytes else 0.0
        latency = self.device.load_latency_s + missed * self.device.memory_latency_s
        return latency / max(self.num_stages - 1, 1)

    def predict(self, order: Order) -> Prediction:
        """The whole prediction with that tile order."""
        shape, problem = self.shape, self.problem
        panels = panels_read(
            order,
            shape.rows,
            shape.cols,
            wave=self.clusters / self.splits,
            row_bytes=self.row_bytes,
            col_bytes=self.col_bytes,
            device=self.device,
        )
        a_bytes = panels.rows * self.row_bytes * problem.batch
        b_bytes = panels.cols * self.col_bytes * problem.batch
        seconds, parts = self._seconds(a_bytes + b_bytes)
        moved = a_bytes + b_bytes + self.out_bytes
        waited = self.rounds * self.k_tiles * self.stage_latency(a_bytes + b_bytes)
        return Prediction(
            seconds=seconds,
            parts=parts,
            busy={**self.busy, "latency": waited, "HBM": moved / self.device.dram_bandwidth},
            bytes={"a": a_bytes, "b": b_bytes, "out": self.out_bytes, "l2": self.l2_bytes},
            flops=float(problem.flops),
            waves=shape.items / self.clusters,
            pipeline=self.pipeline,
        )

    def _seconds(self, read_bytes: float) -> tuple[float, dict[str, float]]:
        device = self.device
        exponent = device.overlap_exponent
        items = self.shape.items
        chain = max(self.stage, self.stage_latency(read_bytes)) * self.k_tiles
        loop = 0.0
        # Rounds before the last. What the one before has written drains to memory. The end of a
        # tile adds to the blocks' chain and to the bytes' time alike: its own loads and stores
        # queue behind those in flight, and little is asked for meanwhile.
        if self.full_rounds:
            share = self.clusters / items
            finish = self.epilogue
            if self.splits > 1:
                finish = self.partial + (self.epilogue + self.reduction) / self.splits
            moving = overlapped(
                exponent,
                self.l2_seconds * share,
                self.padding_seconds * share,
                (read_bytes * self.unevenness + self.out_bytes) * share / device.dram_bandwidth,
            )
            loop += self.full_rounds * overlapped(exponent, chain + finish, moving + finish)
        # The last round: fewer blocks may be left, and its epilogue is exposed.
        share = self.last / items
        loop += overlapped(
            exponent,
            chain,
            self.l2_seconds * share,
            self.padding_seconds * share,
            read_bytes * self.unevenness * share / device.dram_bandwidth,
        )
        tail = self.epilogue
        split = self.partial + self.reduction
        busy = device.fill_s + loop + tail + split
        joules = (
            self.problem.flops * device.joules_per_flop
            + self.l2_bytes * device.joules_per_l2_byte
            + (read_bytes + self.out_bytes) * device.joules_per_dram_byte
        )
        limited = power_limited(device, busy, joules)
        parts = {
            "launch": self.launch,
            "fill": device.fill_s,
            "main loop": loop,
            "last epilogue": tail,
            "split reduction": split,
            "power limit": limited - busy,
        }
        return self.launch + limited, parts
