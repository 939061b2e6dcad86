"""The persistent walk: which blocks compute which tiles, step by step, as the kernels do it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tk.schedulers.order import Order


@dataclass(frozen=True)
class Visit:
    """One block's work at one step: `tile` = (row, col) of output tiles, a batch and a split."""

    block: int
    step: int
    batch: int
    tile: tuple[int, int]
    split: int


def ceil_div(value: int, by: int) -> int:
    """value / by, rounded up."""
    return -(-value // by)


def cluster_grid(tiles_m: int, tiles_n: int, cluster: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of the grid of cluster tiles over tiles_m x tiles_n output tiles."""
    return ceil_div(tiles_m, cluster[0]), ceil_div(tiles_n, cluster[1])


def persistent_walk(
    order: Order,
    tiles_m: int,
    tiles_n: int,
    *,
    grid: int,
    cluster: tuple[int, int] = (1, 1),
    batch: int = 1,
    splits: int = 1,
) -> Iterator[Visit]:
    """Every visit of a persistent grid of `grid` blocks, in the order of the steps.

    Item (batch * rows * cols + tile) * splits + split goes to cluster `item mod clusters`; blocks
    of a cluster take neighbouring tiles, and those that fall outside the output do nothing (they
    are not listed). ValueError when the grid is not a positive multiple of the cluster's size.
    """
    size = cluster[0] * cluster[1]
    if grid < size or grid % size:
        raise ValueError(f"grid of {grid} blocks is no multiple of the cluster's {size}")
    rows, cols = cluster_grid(tiles_m, tiles_n, cluster)
    clusters = grid // size
    walk = order.tiles(rows, cols)
    for item in range(batch * rows * cols * splits):
        step, worker = divmod(item, clusters)
        place, split = divmod(item, splits)
        which_batch, index = divmod(place, rows * cols)
        row, col = walk[index]
        for rank in range(size):
            down, right = divmod(rank, cluster[1])
            tile = (row * cluster[0] + down, col * cluster[1] + right)
            if tile[0] < tiles_m and tile[1] < tiles_n:
                yield Visit(worker * size + rank, step, which_batch, tile, split)
