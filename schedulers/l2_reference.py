"""The replay of a persistent grid through an L2 cache, step by step: `tk.schedulers.l2` says why.

The same as `cpp/schedulers/l2_replay.cpp`, integer for integer (a test compares them); this one is
to be read, and serves where the binding was not built.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from tk.schedulers.order import Order


@dataclass(frozen=True)
class L2Work:
    """What is replayed.

    A panel is what a cluster loads of an operand: the rows of a, or the columns of b, of its tiles.
    Items are (batch, place in the order, split), the last fastest; of n clusters, cluster c takes
    items c, c + n, and so on.
    """

    order: Order
    rows: int  # of cluster tiles
    cols: int
    batch: int
    splits: int
    k_tiles: int
    k_step: int  # K tiles that are loaded at a time
    a_bytes: int  # of one K tile of a panel
    b_bytes: int
    out_bytes: int  # of one output
    sum_bytes: int  # of one split's sums
    delays: tuple[int, ...]  # steps that each cluster starts late
    near: tuple[int, ...]  # the partition that each cluster asks
    partitions: int
    capacity: int  # bytes of one partition
    by_wave: bool  # fill L2Counts.waves

    @property
    def items(self) -> int:
        """Work items of the whole grid."""
        return self.batch * self.rows * self.cols * self.splits

    def cells(self) -> list[list[int]]:
        """K tiles of every step, for each split: the first splits have one more, as in kernels."""
        shortest, longer = divmod(self.k_tiles, self.splits)
        lengths = [shortest + (split < longer) for split in range(self.splits)]
        return [
            [min(self.k_step, length - at) for at in range(0, length, self.k_step)]
            for length in lengths
        ]


class Loads(NamedTuple):
    """K tiles of panels: asked for by clusters, by one partition of another, and from memory."""

    a_requested: int
    b_requested: int
    a_crossed: int
    b_crossed: int
    a_read: int
    b_read: int


class L2Counts(NamedTuple):
    """What L2Work amounts to. Sums and outputs are counted in partitions' shares of one."""

    total: Loads
    sums_requested: int  # when the last split of an output adds all of them
    sums_read: int
    sums_evicted: int  # written back before the end
    outs_evicted: int
    waves: list[Loads]  # by the items that a cluster did before


class LruCache:
    """Entries in the order of their last use; the oldest leave when there is no room."""

    def __init__(self, capacity: int) -> None:
        self._room = capacity
        self._bytes: OrderedDict[int, int] = OrderedDict()  # the latest used comes last

    def touch(self, entry: int) -> bool:
        """Whether the entry is here; it is the latest used then."""
        if entry not in self._bytes:
            return False
        self._bytes.move_to_end(entry)
        return True

    def insert(self, entry: int, size: int) -> list[int]:
        """Inserts an entry that is not here, and returns those that left (it may be among them)."""
        self._bytes[entry] = size
        self._room -= size
        gone = []
        while self._room < 0:
            oldest, freed = self._bytes.popitem(last=False)
            self._room += freed
            gone.append(oldest)
        return gone


def replay(work: L2Work) -> L2Counts:
    """Counts what the grid's loads and stores do to the cache."""
    cells_of = work.cells()
    cells = [k_tiles for split in cells_of for k_tiles in split]
    ends = list(accumulate(len(split) for split in cells_of))
    panels = work.rows + work.cols
    tiles = work.rows * work.cols
    walk = work.order.tiles(work.rows, work.cols)
    # Entries: the panels' steps, the sums of splits, the outputs.
    first_sum = work.batch * len(cells) * panels
    first_out = first_sum + (work.items if work.splits > 1 else 0)
    arrived = [0] * (work.batch * tiles)
    caches = [LruCache(work.capacity) for _ in range(work.partitions)]
    total = [0] * 6
    sums_requested = sums_read = sums_evicted = outs_evicted = 0
    clusters = len(work.delays)
    waves = [[0] * 6 for _ in range(-(-work.items // clusters))] if work.by_wave else []

    def insert(partition: int, entry: int, size: int) -> None:
        nonlocal sums_evicted, outs_evicted
        for gone in caches[partition].insert(entry, size):
            outs_evicted += gone >= first_out
            sums_evicted += first_sum <= gone < first_out

    def store(entry: int, size: int) -> None:
        for partition in range(work.partitions):
            insert(partition, entry, size // work.partitions)

    def ask(near: int, entry: int, home: int, size: int) -> tuple[bool, bool]:
        """Whether the near partition had to ask the home one, and the home one memory."""
        if caches[near].touch(entry):
            return False, False
        crossed = home != near
        read = not (crossed and caches[home].touch(entry))
        if read:
            insert(home, entry, size)
        if crossed:
            insert(near, entry, size)
        return crossed, read

    item_of = list(range(min(clusters, work.items)))
    step_of = [0] * len(item_of)  # within the item
    running = len(item_of)
    now = 0
    while running > 0:
        for cluster in range(len(item_of)):
            item = item_of[cluster]
            if now < work.delays[cluster] or item >= work.items:
                continue
            place, split = divmod(item, work.splits)
            which, index = divmod(place, tiles)
            row, col = walk[index]
            cell = ends[split] - len(cells_of[split]) + step_of[cluster]
            k_tiles = cells[cell]
            near = work.near[cluster]
            first = (which * len(cells) + cell) * panels
            a = ask(near, first + row, (row + cell) % work.partitions, k_tiles * work.a_bytes)
            b = ask(
                near,
                first + work.rows + col,
                (col + cell) % work.partitions,
                k_tiles * work.b_bytes,
            )
            flags = (True, True, a[0], b[0], a[1], b[1])
            for counts in (total, waves[item // clusters]) if work.by_wave else (total,):
                for position, flag in enumerate(flags):
                    counts[position] += k_tiles * flag
            step_of[cluster] += 1
            if cell + 1 < ends[split]:
                continue
            step_of[cluster] = 0
            item_of[cluster] += clusters
            running -= item_of[cluster] >= work.items
            if work.splits > 1:
                store(first_sum + item, work.sum_bytes)
                arrived[place] += 1
                if arrived[place] < work.splits:
                    continue
                for other in range(work.splits):
                    for cache in caches:
                        sums_requested += 1
                        sums_read += not cache.touch(first_sum + place * work.splits + other)
            store(first_out + place, work.out_bytes)
        now += 1
    return L2Counts(
        Loads(*total),
        sums_requested,
        sums_read,
        sums_evicted,
        outs_evicted,
        [Loads(*counts) for counts in waves],
    )
