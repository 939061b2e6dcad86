"""Work items of different lengths on equal workers: the order to take them in, and who takes which.

Tiles of causal attention, or of sequences of different lengths, are not alike, and a grid is done
when its slowest block is. Taken longest first, by whoever is free, they end within (4 - 1/m) / 3 of
the shortest possible time on m workers (R. L. Graham, "Bounds on multiprocessing timing anomalies",
SIAM J. Appl. Math. 17, 1969). Costs are in any one unit.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

NO_ITEM = -1
"""What pads the table of a worker that has fewer items than others."""


@dataclass(frozen=True)
class Assignment:
    """Which worker does which items, each worker's in the order in which it does them."""

    costs: tuple[float, ...]  # by item
    items: tuple[tuple[int, ...], ...]  # by worker

    @property
    def loads(self) -> list[float]:
        """The sum of the costs of each worker's items."""
        return [sum(self.costs[item] for item in mine) for mine in self.items]

    @property
    def makespan(self) -> float:
        """When the last worker is done."""
        return max(self.loads)

    @property
    def balance(self) -> float:
        """The mean load over the makespan: 1 when all workers are done together."""
        makespan = self.makespan
        return sum(self.costs) / (len(self.items) * makespan) if makespan > 0 else 1.0

    def table(self) -> list[int]:
        """Item numbers by step and then by worker, as `table_scheduler` of block/scheduler.hpp
        reads them: entry step * workers + worker, NO_ITEM where a worker has no more."""
        steps = max(map(len, self.items))
        return [
            mine[step] if step < len(mine) else NO_ITEM
            for step in range(steps)
            for mine in self.items
        ]


def longest_first(costs: Sequence[float]) -> list[int]:
    """The items by falling cost, equal ones in their own order: a bijection onto range(len(costs)).

    ValueError when a cost is negative or no number.
    """
    for item, cost in enumerate(costs):
        if not (isfinite(cost) and cost >= 0):
            raise ValueError(f"costs[{item}] is {cost!r}; needs a number >= 0")
    return sorted(range(len(costs)), key=lambda item: -costs[item])


def round_robin(
    costs: Sequence[float], workers: int, order: Sequence[int] | None = None
) -> Assignment:
    """What a static grid does: place i of the order (default: the items' own) goes to worker
    i mod workers. ValueError when the order is no bijection."""
    walk = _checked(costs, workers, order)
    return Assignment(tuple(costs), tuple(tuple(walk[w::workers]) for w in range(workers)))


def when_free(
    costs: Sequence[float], workers: int, order: Sequence[int] | None = None
) -> Assignment:
    """What a queue does: the next item of the order (default: the items' own) goes to the worker
    that is free first, of several to the lowest number. ValueError when it is no bijection."""
    walk = _checked(costs, workers, order)
    items: list[list[int]] = [[] for _ in range(workers)]
    free = [(0.0, worker) for worker in range(workers)]
    for item in walk:
        at, worker = free[0]
        heapq.heapreplace(free, (at + costs[item], worker))
        items[worker].append(item)
    return Assignment(tuple(costs), tuple(map(tuple, items)))


@dataclass(frozen=True)
class Makespans:
    """When the last of some workers is done, by how they take their items; in the costs' unit."""

    static: float  # round robin in the items' own order
    static_longest_first: float
    dynamic: float  # when free, in the items' own order
    dynamic_longest_first: float
    bound: float  # no assignment is done before

    def __str__(self) -> str:
        return (
            f"static {self.static:g}, longest first {self.static_longest_first:g};"
            f" dynamic {self.dynamic:g}, longest first {self.dynamic_longest_first:g};"
            f" none below {self.bound:g}"
        )


def makespans(costs: Sequence[float], workers: int) -> Makespans:
    """The makespans of `costs` on `workers` workers, and a lower bound of all: the mean load, the
    longest item, or the two shortest of the workers + 1 longest."""
    first = longest_first(costs)
    bound = max(sum(costs) / workers, max(costs, default=0.0)) if workers > 0 else 0.0
    if 0 < workers < len(costs):
        bound = max(bound, costs[first[workers - 1]] + costs[first[workers]])
    return Makespans(
        static=round_robin(costs, workers).makespan,
        static_longest_first=round_robin(costs, workers, first).makespan,
        dynamic=when_free(costs, workers).makespan,
        dynamic_longest_first=when_free(costs, workers, first).makespan,
        bound=bound,
    )


def _checked(costs: Sequence[float], workers: int, order: Sequence[int] | None) -> Sequence[int]:
    if workers < 1:
        raise ValueError(f"workers is {workers}; needs >= 1")
    if order is None:
        return range(len(costs))
    if sorted(order) != list(range(len(costs))):
        raise ValueError(f"order does not name each of the {len(costs)} items once")
    return order
