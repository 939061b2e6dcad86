"""Which plans of a product are worth measuring, and how a plan is written in a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tk.schedulers import Choice, Instance, Plan
from tk.schedulers.choose import Candidate, Group, family_named

HOPELESS = 1.6  # times the best prediction: not measured
SPREAD_FIRST = 2 / 3  # of the candidates go to different instances, clusters and splits


def plan_candidates(chosen: Plan, instances: Sequence[Instance], limit: int) -> list[Plan]:
    """At most ``limit`` plans for the problem of ``chosen``, which is the first of them.

    Two thirds are the best order of each instance and cluster, so that a model which ranks an
    instance wrongly is found out; the rest are the other orders and splits it thinks best.
    Candidates predicted at more than 1.6 times the best are left out.
    """
    family = family_named(chosen.problem.family)
    groups, _ = family.groups(chosen.problem, chosen.device, instances)
    pool = sorted(
        (candidate for group in groups for candidate in _orders_of(group)),
        key=lambda candidate: candidate.prediction.seconds,
    )
    if not pool:
        return [chosen]
    bound = HOPELESS * pool[0].prediction.seconds
    pool = [candidate for candidate in pool if candidate.prediction.seconds <= bound]
    picked: dict[Choice, None] = {chosen.choice: None}
    seen = set()
    for candidate in pool:
        choice = candidate.choice
        kind = (
            choice.instance.index,
            choice.swapped,
            choice.cluster,
            choice.dynamic,
            choice.splits_in_cluster,
            choice.pack_heads,
        )
        if kind not in seen and len(picked) < 1 + SPREAD_FIRST * (limit - 1):
            seen.add(kind)
            picked[candidate.choice] = None
    for candidate in pool:
        if len(picked) < limit:
            picked[candidate.choice] = None
    return [chosen] + [plan_of(chosen, choice) for choice in list(picked)[1:limit]]


def plan_of(plan: Plan, choice: Choice) -> Plan:
    """The plan with another choice; ValueError when it cannot run."""
    return plan.replace(**{field.name: getattr(choice, field.name) for field in fields(choice)})


def plan_text(plan: Plan) -> str:
    """A plan in one short line: tile, stages, cluster, order, and splits of K when there are any.

    "T" after the tile: the product is computed transposed, the tile's rows are columns of out.
    "dynamic": blocks take the next tile when they are free. Attention's: "longest" first, "turns"
    of the consumers, "packed" heads.
    """
    first, second = plan.cluster
    tile = plan.instance.tile + ("T" if plan.swapped else "")
    together = " in a cluster" if plan.splits_in_cluster else ""
    splits = "" if plan.splits == 1 else f" split {plan.splits}{together}"
    dynamic = " dynamic" if plan.dynamic else ""
    ways = {"longest_first": " longest", "turns": " turns", "pack_heads": " packed"}
    more = "".join(text for name, text in ways.items() if getattr(plan, name))
    return f"{tile} {plan.num_stages}st {first}x{second} {plan.order}{splits}{dynamic}{more}"


def stored_plan(plan: Plan) -> dict[str, Any]:
    """What a record keeps of a plan; ``Plan.from_dict`` reads it. The runners-up are left out."""
    stored = plan.to_dict()
    stored["alternatives"] = []
    stored["rejected"] = []
    stored["device"] = {**stored["device"], "sources": {}}
    return stored


def _orders_of(group: Group) -> list[Candidate]:
    orders = [*group.orders(), *group.table_orders()]
    return [Candidate(group.choice(order), group.predict(order)) for order in orders]
