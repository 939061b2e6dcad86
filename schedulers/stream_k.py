"""Stream-K: whole waves of tiles as usual, and the K of the rest dealt evenly to all workers.

After Osama, Merrill, Cecka, Garland and Owens, "Stream-K: work-centric parallel decomposition for
dense matrix-matrix multiplication on the GPU" (PPoPP 2023). This is the plan of the work items
alone, for study and for a kernel to come: the matrix product's kernel does not take it yet, what it
takes is split-K (`Plan.splits`), in which every tile is cut into equally many parts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TilePart:
    """K tiles k_begin to k_end - 1 of an output tile; tiles are numbered by their place in the
    tile order."""

    tile: int
    k_begin: int
    k_end: int

    def __len__(self) -> int:
        return self.k_end - self.k_begin


@dataclass(frozen=True)
class FixUp:
    """A tile of several parts: the owner adds the others' sums to its own, in their order, which is
    that of K, and stores the tile. The same parts in the same order give the same bits each run."""

    tile: int
    owner: int  # the worker of the part that begins at K = 0
    others: tuple[int, ...]


@dataclass(frozen=True)
class StreamK:
    """The work of `workers` blocks on `tiles` output tiles of `k_tiles` K tiles each.

    The first `streamed` tiles are laid end to end and cut into equal ranges, one a worker, with no
    regard to where tiles end; ranges differ by one K tile at most. The other tiles are computed
    whole, a multiple of `workers` of them.
    """

    tiles: int
    k_tiles: int
    workers: int
    streamed: int

    def __post_init__(self) -> None:
        for name, least in (("tiles", 0), ("k_tiles", 1), ("workers", 1), ("streamed", 0)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name} is {value}; needs >= {least}")
        whole = self.tiles - self.streamed
        if whole < 0 or whole % self.workers:
            raise ValueError(
                f"streamed is {self.streamed}: the other {whole} of {self.tiles} tiles are no"
                f" multiple of {self.workers} workers"
            )

    def share(self, worker: int) -> range:
        """The worker's range of the K tiles of all streamed tiles, numbered from the first."""
        if not 0 <= worker < self.workers:
            raise ValueError(f"worker is {worker}; needs 0 to {self.workers - 1}")
        each, longer = divmod(self.streamed * self.k_tiles, self.workers)
        begin = worker * each + min(worker, longer)
        return range(begin, begin + each + (worker < longer))

    def work_of(self, worker: int) -> list[TilePart]:
        """What the worker computes, in this order: its share of the streamed tiles, then its whole
        tiles.

        Only the first part of a share can begin inside a tile, and only its last end inside one: a
        worker that waits for the other parts of a tile waits for parts that are computed first.
        """
        parts = []
        share = self.share(worker)
        at = share.start
        while at < share.stop:
            tile, k_begin = divmod(at, self.k_tiles)
            k_end = min(self.k_tiles, k_begin + share.stop - at)
            parts.append(TilePart(tile, k_begin, k_end))
            at += k_end - k_begin
        parts += [
            TilePart(tile, 0, self.k_tiles)
            for tile in range(self.streamed + worker, self.tiles, self.workers)
        ]
        return parts

    def fix_ups(self) -> list[FixUp]:
        """The tiles that several workers have parts of, by tile."""
        contributors: dict[int, list[int]] = {}
        for worker in range(self.workers):
            for part in self.work_of(worker):
                if len(part) < self.k_tiles:
                    contributors.setdefault(part.tile, []).append(worker)
        return [FixUp(tile, who[0], tuple(who[1:])) for tile, who in contributors.items()]

    @property
    def makespan(self) -> int:
        """K tiles of the worker with the most; sums of parts are not counted."""
        whole = (self.tiles - self.streamed) // self.workers * self.k_tiles
        return whole + len(self.share(0))


def stream_k(tiles: int, k_tiles: int, workers: int, *, full_share: bool = True) -> StreamK:
    """The plan that streams what whole waves of `workers` tiles leave over.

    With `full_share` one wave more is streamed where there is one, so that a share is one to two
    tiles long and a tile is cut in at most three parts; without, a share can be a small part of a
    tile, which many others then add to. Nothing is streamed when waves come out even.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}; needs >= 1")
    rest = tiles % workers
    if rest and full_share and tiles >= workers:
        rest += workers
    return StreamK(tiles, k_tiles, workers, rest)
