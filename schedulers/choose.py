"""Choosing among candidates, the same for every family of kernels: enumerate, drop, rank.

A family (the matrix product, attention) says which candidates there are and what
each costs; nothing here knows which family it is working for. Candidates come in groups that differ
in their tile order alone, because a group can say cheaply what no order of it can beat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Protocol

from tk.schedulers.cost import Prediction
from tk.schedulers.device import Device
from tk.schedulers.instance import TableLine
from tk.schedulers.order import Order, is_whole

_HOPELESS = 1.25  # a group whose bound is this far behind the best is not looked at further
_FAR = 1 << 62  # more than any number of steps
_OUT_OF_REACH = 1.02  # and one this far behind cannot be the best, on however many blocks
_CLOSE = 1.03  # groups this close to the best have all their orders tried
_FIRST_ORDERS = 2  # how many are tried in every group
_TIE = 1e-3  # predictions closer than this are equal; the earlier candidate wins
_MORE_BLOCKS = 1.01  # of groups this close to the best, that on the most blocks is taken
_TABLE_GAIN = 0.99  # an order that needs a table must be this much faster


FromDict = Callable[[Any], Any]
"""Makes something from its plain values."""

WAYS = ("swapped", "dynamic", "splits_in_cluster", "longest_first", "turns", "pack_heads")
"""The fields of a choice that are True or False."""


@dataclass(frozen=True)
class Choice:
    """What a plan decides: everything that a launch needs beside the problem itself.

    With `swapped` the kernel computes the transposed problem; instance, cluster and order are that
    one's. With `dynamic` a block takes the next piece of work when it is free, not every grid-th.
    With `splits_in_cluster` the splits of a piece are the blocks of a cluster, which sum them in
    its shared memory, not in global memory. With `longest_first` the order's columns are walked
    from the last to the first, with `turns` consumers compute and multiply in turns, and with
    `pack_heads` the rows of a tile are those of several heads; families say which of all these
    they have.
    """

    instance: Any  # of the family's class, a TableLine
    num_stages: int
    cluster: tuple[int, int]
    order: Order
    splits: int
    grid: int  # blocks
    swapped: bool = False
    dynamic: bool = False
    splits_in_cluster: bool = False
    longest_first: bool = False
    turns: bool = False
    pack_heads: bool = False

    def __post_init__(self) -> None:
        for name, kind in (("instance", TableLine), ("order", Order)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; needs an object of {kind.__name__}"
                )
        if not isinstance(self.cluster, tuple) or len(self.cluster) != 2:
            raise ValueError(f"cluster is {self.cluster!r}; needs two numbers >= 1")
        if not all(is_whole(blocks) and blocks >= 1 for blocks in self.cluster):
            raise ValueError(f"cluster is {self.cluster!r}; needs two numbers >= 1")
        for name in ("num_stages", "splits", "grid"):
            value = getattr(self, name)
            if not is_whole(value):
                raise ValueError(f"{name} is {value!r}; needs a whole number")
            if value < 1:
                raise ValueError(f"{name} is {value}; needs >= 1")
        for name in WAYS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} is {getattr(self, name)!r}; needs True or False")

    def __str__(self) -> str:
        return (
            f"{self.instance.tile} ({self.instance.consumer_warpgroups})"
            f"{' swapped' if self.swapped else ''}, {self.num_stages} stages,"
            f" cluster {self.cluster[0]}x{self.cluster[1]}, {self.order}, splits {self.splits}"
            f"{' in a cluster' if self.splits_in_cluster else ''},"
            f" grid {self.grid}{' dynamic' if self.dynamic else ''}"
            f"{self._more_words}"
        )

    @property
    def _more_words(self) -> str:
        words = {"longest_first": "longest first", "turns": "turns", "pack_heads": "packed heads"}
        return "".join(f", {text}" for name, text in words.items() if getattr(self, name))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**choice_record(self), "instance": self.instance.to_dict()}

    @property
    def parts_received(self) -> int:
        """Of how many other splits a block receives its part of a tile in shared memory."""
        return self.splits - 1 if self.splits_in_cluster else 0

    @staticmethod
    def from_dict(record: dict[str, Any], instance_from_dict: FromDict) -> Choice:
        """The inverse of `to_dict`; the family says how its instances are made. ValueError names a
        missing field, or one of another type: nothing is converted, as the text "false" would be
        true."""
        try:
            first, second = record["cluster"]
            return Choice(
                instance=instance_from_dict(record["instance"]),
                num_stages=record["num_stages"],
                cluster=(first, second),
                order=Order(**record["order"]),
                splits=record["splits"],
                grid=record["grid"],
                **{name: record.get(name, False) for name in WAYS},
            )
        except KeyError as error:
            raise ValueError(f"plan record lacks {error}") from None
        except (TypeError, OverflowError) as error:
            raise ValueError(f"plan record is malformed: {error}") from None


def choice_record(made: Any) -> dict[str, Any]:
    """Plain values of a choice, or of a plan, which has the same fields; without the instance."""
    return {
        "instance": None,
        "num_stages": made.num_stages,
        "cluster": list(made.cluster),
        "order": made.order.to_dict(),
        "splits": made.splits,
        "grid": made.grid,
        **{name: getattr(made, name) for name in WAYS},
    }


@dataclass(frozen=True)
class Candidate:
    """A legal choice and what the model says of it."""

    choice: Choice
    prediction: Prediction


@dataclass(frozen=True)
class Rejected:
    """Something that was not considered, and the reason in one line."""

    what: str
    reason: str


class Group(Protocol):
    """Candidates that differ in their order alone."""

    @property
    def grid(self) -> int:
        """Blocks of the launch."""
        ...

    def floor(self) -> float:
        """Seconds that no order of this group can beat."""
        ...

    def orders(self) -> Sequence[Order]:
        """Closed forms worth trying, the most robust first (it wins ties)."""
        ...

    def table_orders(self) -> Sequence[Order]:
        """Orders by table worth trying, if this group wins; they cost time to plan and to send."""
        ...

    def choice(self, order: Order) -> Choice:
        """The candidate with that order."""
        ...

    def predict(self, order: Order) -> Prediction:
        """What the model says of it."""
        ...

    def seconds(self, order: Order) -> float:
        """The prediction's time alone, to the last bit."""
        ...


class Prospects(Protocol):
    """The groups of a problem before they are made; each has a bound that its `floor` is not below.

    Indices, whatever they are, sort in the order of `Family.groups`.
    """

    def least(self) -> Any | None:
        """The index of a group that no other's bound is below; None when there is no group."""
        ...

    def within(self, seconds: float) -> Sequence[Any]:
        """The indices of all groups whose bounds are at most that."""
        ...

    def group(self, index: Any) -> Group:
        """The group with that index."""
        ...


class Family(Protocol):
    """A family of kernels, as `register` takes it."""

    name: str

    def groups(
        self, problem: Any, device: Device, instances: Sequence[Any]
    ) -> tuple[list[Group], list[Rejected]]:
        """All candidates, and what was dropped."""
        ...

    def prospects(self, problem: Any, device: Device, instances: Sequence[Any]) -> Prospects:
        """All candidates, to be made as they are needed."""
        ...

    def illegal(self, problem: Any, device: Device, choice: Choice) -> str | None:
        """Why the choice cannot run, in one line, or None when it can."""
        ...

    def default_grid(self, problem: Any, device: Device, choice: Choice) -> int:
        """Blocks to launch for a choice, whatever its own grid is."""
        ...

    def num_stages(self, device: Device, choice: Choice) -> int:
        """The depth for a choice's instance, whatever its own is. ValueError when none fits."""
        ...

    def group_of(self, problem: Any, device: Device, choice: Choice) -> Group:
        """The group that a choice belongs to (for a plan made by hand)."""
        ...

    def problem_from_dict(self, record: dict[str, Any]) -> Any:
        """A problem from its plain values."""
        ...

    def instance_from_dict(self, record: dict[str, Any]) -> Any:
        """A line of the family's instance table from its plain values."""
        ...


_FAMILIES: dict[str, Family] = {}


def register(family: Family) -> None:
    """Makes a family known by its name, which its problems carry as `family`."""
    _FAMILIES[family.name] = family


def family_named(name: str) -> Family:
    """The registered family. ValueError lists the known ones."""
    if name not in _FAMILIES:
        raise ValueError(f"unknown kernel family {name!r}; known: {', '.join(_FAMILIES)}")
    return _FAMILIES[name]


def rank(groups: Sequence[Group], keep: int) -> list[Candidate]:
    """The best candidates, fastest first: of every group its best order, of the winner's them all.

    At most `keep` groups are returned. Groups are taken in the order of their lower bounds and
    those too far behind the best are left out; all orders are tried only in those that are close
    and where an order can matter. Of groups that are about as fast as the best, that on the most
    blocks wins: what one block can load is less certain than what all of them can.
    """
    bounded = sorted((group.floor(), index) for index, group in enumerate(groups))
    best = float("inf")
    found: list[tuple[Group, float, list[Candidate]]] = []
    for bound, index in bounded:
        if bound > best * (_HOPELESS if len(found) < keep else 1.0):
            break
        group = groups[index]
        candidates = _predicted(group, group.orders()[:_FIRST_ORDERS])
        best = min(best, candidates[0].prediction.seconds)
        found.append((group, bound, candidates))
    if not found:
        return []
    for group, bound, candidates in found:
        seconds = candidates[0].prediction.seconds
        may_gain = bound * (1 + _TIE) < seconds and bound <= best * _MORE_BLOCKS
        if may_gain and seconds <= best * _CLOSE:
            _try_others(group, candidates)
    found.sort(key=lambda entry: _key(entry[2][0]))
    limit = found[0][2][0].prediction.seconds * _MORE_BLOCKS
    close = [entry for entry in found if entry[2][0].prediction.seconds <= limit]
    first = max(close, key=lambda entry: entry[2][0].choice.grid)
    found.remove(first)
    winner, _, orders = first
    if len(orders) <= _FIRST_ORDERS:
        _try_others(winner, orders)
    for order in winner.table_orders():
        by_table = Candidate(winner.choice(order), winner.predict(order))
        gained = by_table.prediction.seconds < _TABLE_GAIN * orders[0].prediction.seconds
        orders.insert(0 if gained else len(orders), by_table)
    others = [candidates[0] for _, _, candidates in found[: keep - 1]]
    return [orders[0], *sorted(orders[1:] + others, key=lambda c: c.prediction.seconds)]


def best(prospects: Prospects, keep: int) -> Candidate | None:
    """The first of what `rank` returns, found by working out no more than what decides it."""
    first = prospects.least()
    if first is None:
        return None
    known = {first: _Leading(prospects.group(first))}
    known[first].try_first()
    reach = known[first].seconds * _OUT_OF_REACH
    for index in prospects.within(reach):
        if index != first:
            known[index] = _Leading(prospects.group(index))
    fastest = float("inf")
    found: list[_Leading] = []
    for _, leading in sorted(known.items(), key=lambda entry: (entry[1].bound, entry[0])):
        if leading.bound > fastest * (_OUT_OF_REACH if len(found) < keep else 1.0):
            break
        leading.try_first()
        fastest = min(fastest, leading.seconds)
        found.append(leading)
    same_grid = all(each.grid == found[0].grid for each in found)
    lead = min(each.key for each in found)
    for each in found:
        may_gain = each.bound * (1 + _TIE) < each.seconds and each.bound <= fastest * _MORE_BLOCKS
        if may_gain and each.seconds <= fastest * _CLOSE:
            # Where the number of blocks decides nothing, only a faster one is of interest.
            if same_grid and each.least_key > lead:
                continue
            each.try_others()
            lead = min(lead, each.key)
    found.sort(key=lambda each: each.key)
    limit = found[0].seconds * _MORE_BLOCKS
    winner = max((each for each in found if each.seconds <= limit), key=lambda each: each.grid)
    winner.try_others()
    order, seconds = winner.order, winner.seconds
    assert order is not None
    if winner.bound < _TABLE_GAIN * seconds:
        for by_table in winner.group.table_orders():
            if winner.group.seconds(by_table) < _TABLE_GAIN * seconds:
                order = by_table
    return Candidate(winner.group.choice(order), winner.group.predict(order))


class _Leading:
    """A group with the best of its orders that were tried."""

    __slots__ = ("bound", "grid", "group", "key", "least_key", "order", "seconds", "untried")

    def __init__(self, group: Group) -> None:
        self.group, self.grid = group, group.grid
        self.bound = group.floor()
        self.key = _FAR
        self.seconds = float("inf")
        self.order: Order | None = None
        self.untried: Sequence[Order] = ()

    def try_first(self) -> None:
        """Some orders that should be good."""
        if self.key != _FAR:
            return
        self.least_key = _step(self.bound) if self.bound > 0 else -_FAR
        orders = self.group.orders()
        self.untried = orders[_FIRST_ORDERS:]
        self._try(orders[:_FIRST_ORDERS])

    def try_others(self) -> None:
        """The rest of the orders, until one is as fast as any can be."""
        untried, self.untried = self.untried, ()
        self._try(untried)

    def _try(self, orders: Sequence[Order]) -> None:
        for order in orders:
            if self.key <= self.least_key:
                break  # the earlier of equals is taken
            seconds = self.group.seconds(order)
            key = _step(seconds)
            if key < self.key:
                self.order, self.seconds, self.key = order, seconds, key


def _predicted(group: Group, orders: Sequence[Order]) -> list[Candidate]:
    """Those candidates of a group, fastest first."""
    return sorted((Candidate(group.choice(o), group.predict(o)) for o in orders), key=_key)


def _try_others(group: Group, candidates: list[Candidate]) -> None:
    """Adds the orders that `rank` did not try first."""
    candidates += _predicted(group, group.orders()[_FIRST_ORDERS:])
    candidates.sort(key=_key)


def _key(candidate: Candidate) -> int:
    return _step(candidate.prediction.seconds)


def _step(seconds: float) -> int:
    """A time in steps of _TIE: sorting by it keeps the earlier of two equal ones."""
    return int(log(seconds) / _TIE)
