"""A plan as a rich table: what was chosen, what its time is made of, and why the others lost."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from tk.schedulers.choose import Candidate
from tk.schedulers.cost import Prediction
from tk.schedulers.l2 import replay_l2, replays_quickly

if TYPE_CHECKING:
    from tk.schedulers.plan import Plan

_SAME = 0.002  # relative difference that is not worth a reason


def explain(plan: Plan, *, rejected: bool = False) -> Table:
    """The table; its title is the problem, its caption the make-up of the predicted time."""
    table = Table(
        title=escape(f"{plan.problem} on {plan.device.name}"),
        caption=escape(_caption(plan)),
        caption_justify="left",
    )
    table.add_column("", no_wrap=True)
    table.add_column("tile (consumers)", no_wrap=True)
    for heading in ("stages", "cluster"):
        table.add_column(heading, justify="right")
    table.add_column("order", no_wrap=True)
    for heading in ("splits", "waves", "time/us", "HBM/MB", "L2/MB"):
        table.add_column(heading, justify="right")
    table.add_column("bound by")
    table.add_column("why not")
    chosen = Candidate(plan.choice, plan.prediction)
    _add(table, "plan", chosen, "")
    if plan.alternatives:
        table.add_section()
    for place, candidate in enumerate(plan.alternatives, start=2):
        _add(table, str(place), candidate, why_lost(chosen, candidate))
    if rejected and plan.rejected:
        table.add_section()
        for entry in plan.rejected:
            table.add_row("-", escape(entry.what), *[""] * 9, escape(entry.reason))
    return table


def why_lost(winner: Candidate, loser: Candidate) -> str:
    """In a few words, what made the loser's predicted time longer than the winner's."""
    ours, theirs = winner.prediction, loser.prediction
    relative = theirs.seconds / ours.seconds - 1
    if relative < -_SAME and loser.choice.grid < winner.choice.grid:
        return f"{relative:+.1%}: on fewer blocks"
    if relative < -_SAME:
        return f"{relative:+.1%}: faster by the model"
    if relative < _SAME:
        return "as fast by the model"
    return f"{relative:+.1%}: {_reason(ours, theirs)}"


def _reason(ours: Prediction, theirs: Prediction) -> str:
    grown = {name: theirs.parts[name] - ours.parts.get(name, 0.0) for name in theirs.parts}
    part = max(grown, key=grown.__getitem__)
    if part not in ("main loop", "power limit"):
        return f"{part} +{grown[part] * 1e6:.1f} us"
    full, winner_full = _fullness(theirs), _fullness(ours)
    more_hbm = theirs.dram_bytes / max(ours.dram_bytes, 1.0)
    more_l2 = theirs.bytes.get("l2", 0.0) / max(ours.bytes.get("l2", 0.0), 1.0)
    options = {
        f"waves {full:.0%} full, the plan's {winner_full:.0%}": winner_full / full - 1,
        f"{more_hbm:.2f}x the bytes from HBM": (more_hbm - 1) * _weight(ours, "HBM"),
        f"{more_l2:.2f}x the bytes from L2": (more_l2 - 1) * _weight(ours, "L2"),
    }
    for name in theirs.busy:
        if name in ("HBM", "L2") or name not in ours.busy or ours.busy[name] <= 0:
            continue
        more = theirs.busy[name] / ours.busy[name]
        options[f"{more:.2f}x the time of {name}"] = (more - 1) * _weight(theirs, name)
    return max(options, key=options.__getitem__)


def _fullness(prediction: Prediction) -> float:
    return prediction.waves / ceil(prediction.waves)


def _weight(prediction: Prediction, resource: str) -> float:
    return min(prediction.busy.get(resource, 0.0) / prediction.seconds, 1.0)


def _add(table: Table, place: str, candidate: Candidate, reason: str) -> None:
    choice, prediction = candidate.choice, candidate.prediction
    table.add_row(
        place,
        f"{choice.instance.tile} ({choice.instance.consumer_warpgroups})"
        f"{' swapped' if choice.swapped else ''}{' packed heads' if choice.pack_heads else ''}",
        str(choice.num_stages),
        f"{choice.cluster[0]}x{choice.cluster[1]}",
        f"{choice.order}{' dynamic' if choice.dynamic else ''}"
        f"{' longest first' if choice.longest_first else ''}",
        f"{choice.splits}{' in a cluster' if choice.splits_in_cluster else ''}",
        f"{prediction.waves:.2f}",
        f"{prediction.seconds * 1e6:.1f}",
        f"{prediction.dram_bytes / 1e6:.0f}",
        f"{prediction.bytes.get('l2', 0.0) / 1e6:.0f}",
        prediction.bound_by,
        reason,
    )


def _caption(plan: Plan) -> str:
    prediction = plan.prediction
    parts = ", ".join(
        f"{name} {seconds * 1e6:.1f}" for name, seconds in prediction.parts.items() if seconds > 0
    )
    lines = [
        f"predicted {prediction.seconds * 1e6:.1f} us"
        f" ({prediction.flops_per_second / 1e12:.0f} TFLOP/s): {parts} us",
    ]
    if plan.measured is not None:
        lines.append(
            f"tuned: the fastest of those that were measured, {plan.measured * 1e6:.1f} us"
        )
    if prediction.pipeline:
        lines.append(f"pipeline: {prediction.pipeline}")
    if replays_quickly(plan):
        traffic = replay_l2(plan)
        lines.append(
            f"L2, replayed: {traffic.requested / 1e6:.0f} MB asked for,"
            f" {traffic.hit_rate:.0%} hits; from memory a {traffic.a_read / 1e6:.0f},"
            f" b {traffic.b_read / 1e6:.0f} MB"
        )
    if plan.rejected:
        reasons = Counter(entry.reason for entry in plan.rejected)
        lines.append(
            f"{len(plan.rejected)} dropped: "
            + "; ".join(f"{reason} ({count}x)" for reason, count in reasons.most_common(3))
        )
    return "\n".join(lines)
