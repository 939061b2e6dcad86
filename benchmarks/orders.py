"""Plans of one product that differ in their tile order, measured against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from tk.benchmarks.operands import operands_of
from tk.benchmarks.record import Result
from tk.benchmarks.selection import Timer, compare, plan_candidate

if TYPE_CHECKING:
    from tk.schedulers import Plan


def measure(plans: Sequence[Plan], device: torch.device, timer: Timer) -> list[Result]:
    """A result for each plan, in their order; each is checked before it is timed. They are for one
    problem, whose operands are made as it says."""
    a, b, out = operands_of(plans[0].problem, device)
    candidates = [plan_candidate(plan, str(plan.order)) for plan in plans]
    return compare(a, b, candidates, timer, out)
