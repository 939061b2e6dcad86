"""A plan: what was chosen for a problem on a device, what it should cost, and what it beat."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from dataclasses import replace as replace_fields
from typing import TYPE_CHECKING, Any

from tk.schedulers.choose import Candidate, Choice, Rejected, family_named, rank
from tk.schedulers.cost import Prediction
from tk.schedulers.device import Device
from tk.schedulers.instance import Instance
from tk.schedulers.order import Order
from tk.schedulers.pipeline import num_stages_for

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
    are the blocks of a cluster, which sum them in its shared memory. `alternatives` are runners-up,
    fastest first, and `rejected` what could not be considered, with a reason each.
    """

    problem: Any
    device: Device
    instance: Instance
    num_stages: int
    cluster: tuple[int, int]
    order: Order
    splits: int
    grid: int
    prediction: Prediction
    swapped: bool = False
    dynamic: bool = False
    splits_in_cluster: bool = False
    alternatives: tuple[Candidate, ...] = field(default=(), compare=False)
    rejected: tuple[Rejected, ...] = field(default=(), compare=False)
    # What decides the launch, as JSON without the runners-up. Made at once and kept: an operator's
    # schema takes a string, and a compiler that traces the call can only read one that is there.
    text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        record = {**self._decision(), "alternatives": [], "rejected": []}
        object.__setattr__(self, "text", json.dumps(record, sort_keys=True))

    @property
    def choice(self) -> Choice:
        """The decision alone."""
        return Choice(
            self.instance,
            self.num_stages,
            self.cluster,
            self.order,
            self.splits,
            self.grid,
            self.swapped,
            self.dynamic,
            self.splits_in_cluster,
        )

    def check(self) -> Plan:
        """Returns the plan when it can run; ValueError with the reason when it cannot."""
        reason = family_named(self.problem.family).illegal(self.problem, self.device, self.choice)
        if reason is not None:
            raise ValueError(f"plan for {self.problem} on {self.device.name}: {reason}")
        return self

    def replace(self, **changes: Any) -> Plan:
        """A copy with another choice: `instance`, `num_stages`, `cluster`, `order`, `splits`,
        `grid`, `swapped`, `dynamic` or `splits_in_cluster`.

        The depth follows a new instance or a new number of parts in shared memory, and the grid a
        new instance, cluster, split or exchange, unless they are given too. The prediction is made
        anew. ValueError when it cannot run.
        """
        unknown = sorted(set(changes) - set(_CHOICE_FIELDS))
        if unknown:
            raise ValueError(
                f"a plan has no {', '.join(unknown)} to replace; only {', '.join(_CHOICE_FIELDS)}"
            )
        choice = replace_fields(self.choice, **changes)
        other_memory = "instance" in changes or choice.parts_received != self.choice.parts_received
        if other_memory and "num_stages" not in changes:
            depth = num_stages_for(choice.instance, self.device, choice.parts_received)
            choice = replace_fields(choice, num_stages=depth)
        family = family_named(self.problem.family)
        if "grid" not in changes and _DECIDES_GRID & set(changes):
            choice = replace_fields(
                choice, grid=family.default_grid(self.problem, self.device, choice)
            )
        reason = family.illegal(self.problem, self.device, choice)
        if reason is not None:
            raise ValueError(f"plan for {self.problem} on {self.device.name}: {reason}")
        prediction = family.group_of(self.problem, self.device, choice).predict(choice.order)
        before = Candidate(self.choice, self.prediction)
        return _plan_of(
            self.problem,
            self.device,
            Candidate(choice, prediction),
            (before, *self.alternatives),
            self.rejected,
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
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, from which `from_dict` makes the same plan again."""
        return {
            **self._decision(),
            "alternatives": [
                {"choice": c.choice.to_dict(), "prediction": c.prediction.to_dict()}
                for c in self.alternatives
            ],
            "rejected": [{"what": r.what, "reason": r.reason} for r in self.rejected],
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
        version = record.get("version")
        if version != _VERSION:
            raise ValueError(f"plan record has version {version!r}; this library reads {_VERSION}")
        try:
            family = family_named(record["family"])
            plan = _plan_of(
                family.problem_from_dict(record["problem"]),
                Device.from_dict(record["device"]),
                _candidate(record),
                tuple(_candidate(entry) for entry in record["alternatives"]),
                tuple(Rejected(**entry) for entry in record["rejected"]),
            )
        except KeyError as error:
            raise ValueError(f"plan record lacks {error}") from None
        except (TypeError, AttributeError) as error:
            raise ValueError(f"plan record is malformed: {error}") from None
        return plan.check()


_CHOICE_FIELDS = tuple(f.name for f in fields(Choice))
_DECIDES_GRID = {"instance", "cluster", "splits", "swapped", "splits_in_cluster"}


def make_plan(
    problem: Any, device: Device, instances: Sequence[Instance], *, keep: int = 8
) -> Plan:
    """The fastest legal candidate of the problem's family. ValueError when there is none."""
    groups, rejected = family_named(problem.family).groups(problem, device, instances)
    ranked = rank(groups, keep)
    if not ranked:
        reasons = Counter(r.reason for r in rejected)
        detail = "; ".join(f"{reason} ({count}x)" for reason, count in reasons.most_common(5))
        raise ValueError(
            f"no instance for {problem} on {device.name}: {detail or 'the instance table is empty'}"
        )
    return _plan_of(problem, device, ranked[0], tuple(ranked[1:]), tuple(rejected))


def _plan_of(
    problem: Any,
    device: Device,
    best: Candidate,
    alternatives: tuple[Candidate, ...],
    rejected: tuple[Rejected, ...],
) -> Plan:
    choice = best.choice
    return Plan(
        problem=problem,
        device=device,
        instance=choice.instance,
        num_stages=choice.num_stages,
        cluster=choice.cluster,
        order=choice.order,
        splits=choice.splits,
        grid=choice.grid,
        prediction=best.prediction,
        swapped=choice.swapped,
        dynamic=choice.dynamic,
        splits_in_cluster=choice.splits_in_cluster,
        alternatives=alternatives,
        rejected=rejected,
    )


def _candidate(record: Mapping[str, Any]) -> Candidate:
    return Candidate(Choice.from_dict(record["choice"]), Prediction.from_dict(record["prediction"]))
