"""A plan: what was chosen for a problem on a device, what it should cost, and what it beat."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from dataclasses import replace as replace_fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from tk.schedulers.choose import (
    Candidate,
    Choice,
    Family,
    Rejected,
    best,
    choice_record,
    family_named,
    rank,
)
from tk.schedulers.cost import Prediction
from tk.schedulers.device import MOST, Device
from tk.schedulers.files import replace_file
from tk.schedulers.instance import TableLine
from tk.schedulers.memo import TableMemo
from tk.schedulers.order import Order, is_whole

if TYPE_CHECKING:
    from rich.table import Table

_VERSION = 1


@dataclass(frozen=True)
class Plan:
    """How one problem is run on one device.

    `cluster` is (blocks along M, blocks along N), `grid` the blocks of the launch, `splits` the
    parts that the reduced axis is cut into. A `swapped` plan is run as out^T = b^T a^T, and its
    instance, cluster and order are those of that problem. In a `dynamic` one a block takes the next
    piece of work when it is free, not every grid-th. With `splits_in_cluster` the splits of a tile
    are the blocks of a cluster, which sum them in its shared memory. `longest_first`, `turns` and
    `pack_heads` are attention's (`tk.schedulers.attention`). `alternatives` are runners-up,
    fastest first, and `rejected` what could not be considered, with a reason each. `measured` is
    the median time in seconds at which it won a tuning, None for a plan of the model alone.
    """

    problem: Any
    device: Device
    instance: Any  # of the family's class
    num_stages: int
    cluster: tuple[int, int]
    order: Order
    splits: int
    grid: int
    prediction: Prediction
    swapped: bool = False
    dynamic: bool = False
    splits_in_cluster: bool = False
    longest_first: bool = False
    turns: bool = False
    pack_heads: bool = False
    alternatives: Sequence[Candidate] = field(default=(), compare=False, repr=False)
    rejected: Sequence[Rejected] = field(default=(), compare=False, repr=False)
    measured: float | None = field(default=None, compare=False)
    # What decides the launch, as JSON that `from_dict` reads, without the runners-up. Made at once
    # and kept: an operator's schema takes a string, and a compiler that traces the call can only
    # read one that is there.
    text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _text_of(self))

    @property
    def choice(self) -> Choice:
        """The decision alone."""
        return Choice(**{name: getattr(self, name) for name in _CHOICE_FIELDS})

    def check(self) -> Plan:
        """Returns the plan when it can run; ValueError with the reason when it cannot."""
        reason = family_named(self.problem.family).illegal(self.problem, self.device, self.choice)
        if reason is not None:
            raise ValueError(f"plan for {self.problem} on {self.device.name}: {reason}")
        return self

    def replace(self, **changes: Any) -> Plan:
        """A copy with another choice: `instance`, `num_stages`, `cluster`, `order`, `splits`,
        `grid`, `swapped`, `dynamic`, `splits_in_cluster`, `longest_first`, `turns` or `pack_heads`.

        The depth follows a new instance or a new number of parts in shared memory, and the grid a
        new instance, cluster, split or exchange, unless they are given too. The prediction is made
        anew. ValueError when it cannot run.
        """
        unknown = sorted(set(changes) - set(_CHOICE_FIELDS))
        if unknown:
            raise ValueError(
                f"a plan has no {', '.join(unknown)} to replace; only {', '.join(_CHOICE_FIELDS)}"
            )
        family = family_named(self.problem.family)
        choice = replace_fields(self.choice, **changes)
        other_memory = "instance" in changes or choice.parts_received != self.choice.parts_received
        if other_memory and "num_stages" not in changes:
            choice = replace_fields(choice, num_stages=family.num_stages(self.device, choice))
        if "grid" not in changes and _DECIDES_GRID & set(changes):
            choice = replace_fields(
                choice, grid=family.default_grid(self.problem, self.device, choice)
            )
        made = plan_of_choice(self.problem, self.device, choice)
        before = Candidate(self.choice, self.prediction)
        return replace_fields(
            made, alternatives=(before, *self.alternatives), rejected=self.rejected
        )

    def explain(self, *, rejected: bool = False) -> Table:
        """A rich table: the choice, what its time is made of, the runners-up and why they lost.

        With `rejected`, also what could not be considered, a line each.
        """
        from tk.schedulers.explain import explain

        return explain(self, rejected=rejected)

    def __str__(self) -> str:
        seconds = self.prediction.seconds
        return (
            f"{self.problem} on {self.device.name}: {self.choice};"
            f" predicted {seconds * 1e6:.1f} us,"
            f" {self.prediction.flops_per_second / 1e12:.0f} TFLOP/s,"
            f" bound by {self.prediction.bound_by}"
            + ("" if self.measured is None else f"; tuned, measured {self.measured * 1e6:.1f} us")
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan as JSON, runners-up included; the file appears whole or not at all.
        OSError when it cannot be written."""
        replace_file(Path(path), json.dumps(self.to_dict(), indent=1) + "\n")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """The plan that `save` wrote. OSError when the file cannot be read, ValueError when it
        holds no plan of this library that can run; both name the file in one line."""
        try:
            record = json.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:  # not JSON, not text
            raise ValueError(f"{path} is no JSON, or was cut off: {error}") from None
        try:
            return Plan.from_dict(record)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, from which `from_dict` makes the same plan again."""
        return {
            **self._decision(),
            "alternatives": [
                {"choice": c.choice.to_dict(), "prediction": c.prediction.to_dict()}
                for c in self.alternatives
            ],
            "rejected": [{"what": r.what, "reason": r.reason} for r in self.rejected],
            "measured": self.measured,
        }

    def _decision(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "family": self.problem.family,
            "problem": self.problem.to_dict(),
            "device": self.device.to_dict(),
            "choice": self.choice.to_dict(),
            "prediction": self.prediction.to_dict(),
        }

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Plan:
        """The inverse of `to_dict`. ValueError names what is missing, foreign or illegal."""
        version = record.get("version") if isinstance(record, Mapping) else None
        if not is_whole(version):
            raise ValueError("this is no plan record")
        if version != _VERSION:
            raise ValueError(f"plan record has version {version!r}; this library reads {_VERSION}")
        try:
            family = family_named(record["family"])
            plan = _plan_of(
                family.problem_from_dict(record["problem"]),
                Device.from_dict(record["device"]),
                _candidate(record, family),
                tuple(_candidate(each, family) for each in _listed(record, "alternatives")),
                tuple(map(_rejected, _listed(record, "rejected"))),
                _measured(record.get("measured")),
            )
        except KeyError as error:
            raise ValueError(f"plan record lacks {error}") from None
        except (TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"plan record is malformed: {error}") from None
        return plan.check()


def _listed(record: Mapping[str, Any], name: str) -> list[Any]:
    found = record[name]
    if not isinstance(found, list):
        raise TypeError(f"{name} is no list")
    return found


def _rejected(entry: Mapping[str, Any]) -> Rejected:
    made = Rejected(**entry)
    if not isinstance(made.what, str) or not isinstance(made.reason, str):
        raise TypeError("what was rejected, and why, are no texts")
    return made


def _measured(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MOST:
        raise TypeError(f"measured is {type(value).__name__}; needs seconds > 0, or null")
    return float(value)


def _text_of(plan: Plan) -> str:
    """A plan's record as JSON. Its longest parts, which many plans share, are written once."""
    record = {
        "version": _VERSION,
        "family": plan.problem.family,
        "problem": plan.problem.to_dict(),
        "prediction": plan.prediction.to_dict(),
        "alternatives": [],
        "rejected": [],
    }
    device = _device_texts.get(plan.device, ())
    instance = _instance_text(plan.instance)
    in_choice = json.dumps(choice_record(plan)).replace(
        '"instance": null', f'"instance": {instance}'
    )
    return f'{json.dumps(record)[:-1]}, "choice": {in_choice}, "device": {device}}}'


_device_texts = TableMemo(lambda device, _: json.dumps(device.to_dict()))


@lru_cache(maxsize=256)
def _instance_text(instance: TableLine) -> str:
    return json.dumps(instance.to_dict())


_CHOICE_FIELDS = tuple(f.name for f in fields(Choice))
_DECIDES_GRID = {"instance", "cluster", "splits", "swapped", "splits_in_cluster", "pack_heads"}


def make_plan(problem: Any, device: Device, instances: Sequence[Any], *, keep: int = 8) -> Plan:
    """The fastest legal candidate of the problem's family. ValueError when there is none.

    A plan that was made before is given again. The runners-up are ranked when they are asked for.
    """
    known = _made.get(device, instances)
    key = problem, keep
    plan = known.get(key)
    if plan is None:
        plan = _make_plan(problem, device, instances, keep)
        if len(known) >= _MOST_PLANS:
            known.clear()
        known[key] = plan
    return plan


_MOST_PLANS = 4096  # of a device and an instance table that are remembered
_made: TableMemo[dict[tuple[Any, int], Plan]] = TableMemo(lambda device, instances: {})


def _make_plan(problem: Any, device: Device, instances: Sequence[Any], keep: int) -> Plan:
    family = family_named(problem.family)
    found = best(family.prospects(problem, device, instances), keep)
    if found is None:
        rejected = family.groups(problem, device, instances)[1]
        reasons = Counter(r.reason for r in rejected)
        detail = "; ".join(f"{reason} ({count}x)" for reason, count in reasons.most_common(5))
        raise ValueError(
            f"no instance for {problem} on {device.name}: {detail or 'the instance table is empty'}"
        )
    table = tuple(instances)

    def others() -> tuple[list[Candidate], list[Rejected]]:
        groups, rejected = family.groups(problem, device, table)
        return rank(groups, keep)[1:], rejected

    ranked = _Ranked(others)
    return _plan_of(problem, device, found, _Later(ranked, 0), _Later(ranked, 1))


class _Ranked:
    """Runners-up and what was dropped, worked out once, when one of them is first asked for."""

    def __init__(self, work: Callable[[], tuple[list[Candidate], list[Rejected]]]) -> None:
        self._work = work

    @cached_property
    def both(self) -> tuple[tuple[Candidate, ...], tuple[Rejected, ...]]:
        candidates, rejected = self._work()
        return tuple(candidates), tuple(rejected)


class _Later(Sequence[Any]):
    """One of the two, as a tuple that is made when it is looked at."""

    __slots__ = ("_ranked", "_which")

    def __init__(self, ranked: _Ranked, which: int) -> None:
        self._ranked, self._which = ranked, which

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._ranked.both[self._which][index]

    def __len__(self) -> int:
        return len(self._ranked.both[self._which])

    def __reduce__(self) -> tuple[type[tuple[Any, ...]], tuple[Any]]:
        return tuple, (tuple(self),)  # a pickle or a copy has them at once

    def __repr__(self) -> str:
        return repr(tuple(self))


def plan_of_choice(
    problem: Any, device: Device, choice: Choice, *, measured: float | None = None
) -> Plan:
    """The plan of a choice that was made elsewhere, e.g. by measuring; its prediction is the
    model's. ValueError when it cannot run."""
    family = family_named(problem.family)
    reason = family.illegal(problem, device, choice)
    if reason is not None:
        raise ValueError(f"plan for {problem} on {device.name}: {reason}")
    prediction = family.group_of(problem, device, choice).predict(choice.order)
    return _plan_of(problem, device, Candidate(choice, prediction), (), (), measured)


def _plan_of(
    problem: Any,
    device: Device,
    best: Candidate,
    alternatives: Sequence[Candidate],
    rejected: Sequence[Rejected],
    measured: float | None = None,
) -> Plan:
    choice = best.choice
    return Plan(
        problem=problem,
        device=device,
        prediction=best.prediction,
        **{name: getattr(choice, name) for name in _CHOICE_FIELDS},
        alternatives=alternatives,
        rejected=rejected,
        measured=measured,
    )


def _candidate(record: Mapping[str, Any], family: Family) -> Candidate:
    choice = Choice.from_dict(record["choice"], family.instance_from_dict)
    return Candidate(choice, Prediction.from_dict(record["prediction"]))
