"""The time model of attention: waves of query tiles, each as long as its key tiles take.

Fitted to timings on an H200 (1024 to 16384 keys, head dimensions 64 and 128, full and causal: 30
timings within 2.5%): of a key tile's products and exponentials a part overlaps, and what its
consumers do not hide of each other's waits is added. How many heads should share L2 is from a trial
of such a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tk.schedulers.attention_problem import AttentionInstance, AttentionProblem
from tk.schedulers.attention_tiles import key_tiles
from tk.schedulers.choose import Choice
from tk.schedulers.cost import Prediction, overlapped
from tk.schedulers.device import Device
from tk.schedulers.order import Order
from tk.schedulers.problem import DTYPE_BYTES
from tk.schedulers.walk import ceil_div

_EXPONENTIALS = 16  # a clock and multiprocessor (CUDA C++ Programming Guide, arithmetic throughput)
_PRODUCTS_SHARE = 0.68  # of the products' time, and of the exponentials', that is not overlapped
_EXPONENTIALS_SHARE = 0.87
_WAITS = {1: 4e-7, 2: 3.9e-7, 3: 3e-7}  # s of a key tile that so many consumers, or more, leave
_ITEM_SECONDS = 2.2e-6  # what an item's first products and its end take beside its key tiles
_ITEM_SECONDS_OF_ONE = 1.1e-6  # with one consumer: decoding 8192 keys takes 266 us
_L2_SHARE = 0.535  # of L2 for the keys and values of the heads that are worked on
_MOST_COLUMNS = 4096  # query tiles whose key tiles are counted one by one


def num_stages_for(instance: AttentionInstance, device: Device) -> int:
    """The deepest ring that fits. ValueError when fewer stages than the instance needs do."""
    room = device.shared_memory_per_block - instance.fixed_bytes
    fits = min(room // instance.bytes_per_stage, instance.max_stages)
    if fits < instance.min_stages:
        raise ValueError(
            f"instance {instance.name}: {instance.min_stages} stages of {instance.bytes_per_stage}"
            f" bytes and {instance.fixed_bytes} fixed bytes exceed the"
            f" {device.shared_memory_per_block} bytes of shared memory of {device.name}"
        )
    return int(fits)


def task_grid(
    problem: AttentionProblem, instance: AttentionInstance, pack_heads: bool
) -> tuple[int, int]:
    """(rows, columns) of the grid of tasks: heads and query tiles, as the kernel numbers them. Of
    packed sequences a few columns are empty: only the length of all together is known."""
    heads = problem.kv_heads if pack_heads else problem.heads
    if problem.packed:
        rows_in_all = problem.total_queries * (problem.group if pack_heads else 1)
        return heads, rows_in_all // instance.tile_q + problem.batch
    rows_of_a_head = problem.queries * (problem.group if pack_heads else 1)
    return problem.batch * heads, ceil_div(rows_of_a_head, instance.tile_q)


def key_tiles_of(problem: AttentionProblem, instance: AttentionInstance) -> int:
    """Key tiles of the longest sequence."""
    return ceil_div(problem.keys, instance.tile_k)


@dataclass(frozen=True)
class AttentionGroup:
    """The candidates of one way to run a problem, which differ in their order."""

    problem: AttentionProblem
    device: Device
    instance: AttentionInstance
    num_stages: int
    splits: int
    grid: int
    dynamic: bool
    longest_first: bool
    turns: bool
    pack_heads: bool

    def choice(self, order: Order) -> Choice:
        """The candidate with that order."""
        return Choice(
            self.instance,
            self.num_stages,
            (1, 1),
            order,
            self.splits,
            self.grid,
            dynamic=self.dynamic,
            longest_first=self.longest_first,
            turns=self.turns,
            pack_heads=self.pack_heads,
        )

    def orders(self) -> Sequence[Order]:
        """As many heads a group as have their keys and values in L2, fewer, and one by one."""
        wanted = self._heads_in_l2
        found: dict[Order, None] = {}
        if self.problem.uneven and self._rows > 1 and self._columns > 1:
            for heads in (wanted, wanted // 2, wanted // 4):
                width = min(max(heads, 1), self._rows)
                if width > 1:
                    found[Order("grouped_m", width)] = None
        found[Order("row")] = None
        return tuple(found)

    def table_orders(self) -> Sequence[Order]:
        """None: the kernel's closed forms are enough."""
        return ()

    def floor(self) -> float:
        """Seconds that no order of this group can beat."""
        return self._fixed_seconds + max(self._mean_load, self._memory_seconds(self._bytes_once))

    def seconds(self, order: Order) -> float:
        """The prediction's time alone."""
        return self.predict(order).seconds

    def predict(self, order: Order) -> Prediction:
        """What the model says of it."""
        device = self.device
        span = self._span(order)
        kv_bytes = self._kv_bytes(order)
        out_bytes = self._bytes_once - self._kv_once
        memory = self._memory_seconds(kv_bytes + out_bytes)
        l2 = self._l2_bytes / device.l2_bandwidth
        main = max(overlapped(device.overlap_exponent, span, memory, l2), self._mean_load)
        tiles = self._tiles_in_all
        seconds = self._fixed_seconds + main
        return Prediction(
            seconds=seconds,
            parts={"launch and fill": self._fixed_seconds, "main loop": main},
            busy={
                "tensor cores": tiles * self._product_seconds / self._workers,
                "exponentials": tiles * self._exponential_seconds / self._workers,
                "HBM": memory,
                "L2": l2,
            },
            bytes={"kv": kv_bytes, "q and out": out_bytes, "l2": self._l2_bytes},
            flops=float(max(self.problem.flops, 1)),
            waves=self._items / self._workers,
            pipeline=f"{self.num_stages} stages of {self.instance.bytes_per_stage / 1024:.0f} KiB",
        )

    @cached_property
    def _grid_of_tasks(self) -> tuple[int, int]:
        return task_grid(self.problem, self.instance, self.pack_heads)

    @property
    def _rows(self) -> int:
        return self._grid_of_tasks[0]

    @property
    def _columns(self) -> int:
        return self._grid_of_tasks[1]

    @property
    def _items(self) -> int:
        return self._rows * self._columns * self.splits

    @property
    def _workers(self) -> int:
        return min(self.grid, self.device.num_sms)

    @cached_property
    def _tiles_of_columns(self) -> tuple[list[int], int]:
        """Key tiles of each query tile of a typical sequence, the longest last, and how many of its
        tiles each entry stands for."""
        problem, instance = self.problem, self.instance
        queries, keys = problem.typical
        tile_q = max(instance.tile_q // problem.group, 1) if self.pack_heads else instance.tile_q
        stands_for = max(ceil_div(ceil_div(queries, tile_q), _MOST_COLUMNS), 1)
        seen = key_tiles(queries, keys, tile_q * stands_for, instance.tile_k, window=problem.window)
        return sorted(ceil_div(len(tiles), self.splits) for tiles in seen), stands_for

    @cached_property
    def _tiles_in_all(self) -> float:
        """Key tiles times query tiles that are computed."""
        tiles, stands_for = self._tiles_of_columns
        sequences = self.problem.batch if self.problem.packed else 1
        return float(sum(tiles) * stands_for * sequences * self._rows * self.splits)

    @cached_property
    def _product_seconds(self) -> float:
        """Both products of a query tile with a key tile."""
        i = self.instance
        flops = 2 * i.tile_q * i.tile_k * (i.head_dim + i.value_dim)
        return flops * self.device.num_sms / self.device.flops(i.dtype)

    @cached_property
    def _exponential_seconds(self) -> float:
        """The exponentials of a query tile and a key tile."""
        scores = self.instance.tile_q * self.instance.tile_k
        return scores / (_EXPONENTIALS * self.device.clock_hz)

    @cached_property
    def _tile_seconds(self) -> float:
        waits = _WAITS[min(self.instance.consumer_warpgroups, 3)]
        computed = (
            _PRODUCTS_SHARE * self._product_seconds
            + _EXPONENTIALS_SHARE * self._exponential_seconds
            + waits
        )
        return max(computed, self._tile_bytes / self.device.sm_bandwidth)

    @property
    def _tile_bytes(self) -> float:
        problem = self.problem
        row = (problem.head_dim + problem.value_dim) * DTYPE_BYTES[problem.dtype]
        return self.instance.tile_k * row

    @cached_property
    def _item_seconds(self) -> float:
        """What an item takes beside its key tiles."""
        device, instance = self.device, self.instance
        item = _ITEM_SECONDS if instance.consumer_warpgroups > 1 else _ITEM_SECONDS_OF_ONE
        if self.splits == 1:
            return item
        partial = instance.tile_q * instance.value_dim * 4
        return item + device.split_overhead_s + partial / device.partial_bandwidth

    @property
    def _fixed_seconds(self) -> float:
        return self.device.launch_overhead_s + self.device.fill_s

    @cached_property
    def _mean_load(self) -> float:
        work = self._tiles_in_all * self._tile_seconds + self._items * self._item_seconds
        return work / self._workers

    def _span(self, order: Order) -> float:
        """When the last block is done: whole rounds of equal items; else the mean load and what
        the last items keep some blocks waiting."""
        tiles, _ = self._tiles_of_columns
        if not tiles:
            return self._mean_load
        longest = tiles[-1] * self._tile_seconds + self._item_seconds
        if tiles[0] == tiles[-1] and not self.problem.packed:
            return ceil_div(self._items, self._workers) * longest
        if not self.dynamic:
            last = longest  # who gets the longest items is left to chance
        elif not self.longest_first:
            last = longest / 2
        else:
            # Of a group of heads the shortest tiles come last, so many columns of them at a time.
            columns = self._workers // max(order.param, 1)
            last_tiles = tiles[min(columns, len(tiles) - 1)]
            last = (last_tiles * self._tile_seconds + self._item_seconds) / 2
        return max(self._mean_load + last, longest)

    @property
    def _kv_once(self) -> float:
        problem = self.problem
        keys = problem.total_keys if problem.packed else problem.batch * problem.keys
        row = (problem.head_dim + problem.value_dim) * DTYPE_BYTES[problem.dtype]
        return float(problem.kv_heads * keys * row)

    @property
    def _bytes_once(self) -> float:
        return float(self.problem.min_bytes)

    @property
    def _l2_bytes(self) -> float:
        return self._tiles_in_all * self._tile_bytes

    @cached_property
    def _heads_in_l2(self) -> int:
        """Tasks' rows whose keys and values fit in L2 together."""
        problem = self.problem
        _, keys = problem.typical
        row = (problem.head_dim + problem.value_dim) * DTYPE_BYTES[problem.dtype]
        room = int(_L2_SHARE * self.device.l2_bytes / max(keys * row, 1))
        return max(room, 1) * (1 if self.pack_heads else problem.group)

    def _kv_bytes(self, order: Order) -> float:
        """Keys and values from memory: once, or, where the heads at work do not fit in L2, each
        time that blocks which are not at the same head ask for them."""
        at_once = max(order.param, ceil_div(self._workers, max(self._columns * self.splits, 1)))
        if at_once <= self._heads_in_l2:
            return self._kv_once
        together = max(self._workers / at_once, 1.0)
        return max(self._l2_bytes / together, self._kv_once)

    def _memory_seconds(self, count: float) -> float:
        device = self.device
        return count / min(device.dram_bandwidth, self._workers * device.sm_bandwidth)
