"""For every way to run a matrix product a time that none of its candidates can beat, for all ways
at once: most lose by it, and are not looked at further.

`GemmTiles` has the formulas of the model; here is what is left out of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tk.schedulers.device import Device
from tk.schedulers.gemm_tiles import JUST_BELOW, GemmTiles, Sizes
from tk.schedulers.gemm_ways import MAX_SPLITS, WaysTable, is_split
from tk.schedulers.problem import GemmProblem

Array = NDArray[np.float64]


def way_bounds(problem: GemmProblem, device: Device, table: WaysTable) -> list[float]:
    """Seconds that no candidate of each way can beat; infinite where a cluster is larger than the
    product."""
    if table.covered.size == 0:
        return []
    sizes = Sizes.of(problem, device)
    if table.any_swapped:
        exchanged = Sizes.of(problem.exchanged(), device)
        pairs = zip(exchanged, sizes, strict=True)
        sizes = Sizes(
            *(
                here if here == there else np.where(table.swapped, here, there)
                for here, there in pairs
            )
        )
    tiling = table.tiling
    tiles = GemmTiles(sizes, device, tiling, np.maximum, np.minimum)
    share = tiles.cluster_tiles / tiles.at_once
    least = tiles.least_bytes / device.dram_bandwidth
    latency = device.load_latency_s
    if problem.k > 0:
        latency = latency + tiles.least_bytes / tiles.l2_bytes * device.memory_latency_s
    waited = np.maximum(tiles.stage, latency / table.covered)

    # In such a unit no power overflows; one that vanishes makes a bound lower.
    rounds = np.ceil(share)
    chain = rounds * tiles.k_tiles * waited
    finish = (rounds - 1) * tiles.epilogue
    unit = float((chain + finish + tiles.l2_seconds + tiles.padding_seconds).max() + np.max(least))
    exponent, root = device.overlap_exponent, 1 / device.overlap_exponent
    scale = 1 / unit if unit > 0 else 1.0
    moved = (tiles.l2_seconds * scale) ** exponent + (tiles.padding_seconds * scale) ** exponent
    moved = moved + (least * scale) ** exponent
    # One split: `GemmTiles.least_times` as it is.
    finish = finish * scale
    alone = ((chain * scale + finish) ** exponent + (moved**root + finish) ** exponent) ** root
    # More: work that falls into rounds without a remainder, sums as of two splits.
    chain = np.maximum(np.maximum(share, 1 / MAX_SPLITS) * tiles.k_tiles, 1.0) * waited
    hand_on, sum_up = tiles.exchange(device, 2, in_cluster=False)
    summing = hand_on + sum_up
    hand_on, sum_up = tiles.exchange(device, 2, in_cluster=True)
    in_cluster = hand_on + sum_up + (tiles.cluster_launch - tiles.launch)
    summing = np.where(table.sums_in_cluster, np.minimum(summing, in_cluster), summing)
    split = ((chain * scale) ** exponent + moved) ** root + summing * scale
    loop = np.where(is_split(share, tiles.k_tiles), np.minimum(alone, split), alone)

    bounds = (loop / scale + tiles.launch + tiles.epilogue + device.fill_s) * JUST_BELOW
    fits = (tiling.cluster_m <= tiles.tiles_m) & (tiling.cluster_n <= tiles.tiles_n)
    found: list[float] = np.where(fits, bounds, np.inf).tolist()
    return found
