"""The time model of the matrix product: rounds of a persistent grid, bytes by operand, power.

A candidate's grid runs `items` work items (a cluster tile and a split of K each) in rounds. A round
takes as long as its slowest chain: one block's K loop and epilogue, or the bytes of all blocks
through L2, or the bytes from and to memory. Everything that does not depend on the tile order is
worked out once per candidate; an order changes the bytes from memory alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from tk.schedulers.cost import Prediction, overlapped, power_limited
from tk.schedulers.device import Device
from tk.schedulers.gemm_tiles import GemmTiles, Sizes, Tiling
from tk.schedulers.instance import Instance
from tk.schedulers.memo import TableMemo
from tk.schedulers.order import Order
from tk.schedulers.pipeline import pipeline_for
from tk.schedulers.problem import GemmProblem
from tk.schedulers.traffic import Panels, panels_read
from tk.schedulers.walk import ceil_div, cluster_grid

_MOST_WALKS = 8192  # of a device whose panels are remembered

# What an order reads of a grid of tiles: instances and clusters with tiles of the same size share
# it, and so do the layouts and data types of a problem.
_Walk = tuple[int, int, float, float, float]
_known_panels: TableMemo[dict[tuple[Order, _Walk], Panels]] = TableMemo(lambda device, _: {})


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
        swapped: bool = False,
        dynamic: bool = False,
        splits_in_cluster: bool = False,
        tiles: GemmTiles | None = None,
    ) -> None:
        self.problem, self.device, self.instance = problem, device, instance
        self.cluster, self.splits, self.num_stages = cluster, splits, num_stages
        self.swapped, self.dynamic, self.splits_in_cluster = swapped, dynamic, splits_in_cluster
        if tiles is None:
            tiling = Tiling.of(instance, cluster, device)
            tiles = GemmTiles(Sizes.of(problem, device), device, tiling)
        self.tiles = tiles
        items: int = tiles.cluster_tiles * splits
        self.items = items
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
        self.k_tiles: int = -(-tiles.k_tiles // splits)  # of a split
        self.launch = tiles.cluster_launch if splits_in_cluster else tiles.launch
        self.partial, self.reduction = tiles.exchange(device, splits, splits_in_cluster)
        self.partial_bytes = float(tiles.partial_bytes) if splits > 1 else 0.0

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
        blocks_work: float = self.tiles.stage * self.k_tiles * self.items / self.clusters
        return float(self.tiles.least_bytes) / self.device.dram_bandwidth > blocks_work

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
            bytes={"a": a_bytes, "b": b_bytes, "out": float(tiles.out_bytes), "l2": tiles.l2_bytes},
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
