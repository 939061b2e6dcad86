"""Plans of one product that differ in their tile order, measured against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from tk.benchmarks.operands import make_operands
from tk.benchmarks.record import Result
from tk.benchmarks.selection import Timer, compare, plan_candidate
from tk.benchmarks.shapes import Shape

if TYPE_CHECKING:
    from tk.schedulers import Plan


def measure(plans: Sequence[Plan], layout: str, device: torch.device, timer: Timer) -> list[Result]:
    """A result for each plan, in their order; each is checked before it is timed. They are for one
    problem, whose operands lie as `layout` says. ValueError for a batch, or an output of another
    type than the operands': `torch.matmul`, the yardstick, has no such product."""
    problem = plans[0].problem
    if problem.batch != 1:
        raise ValueError(f"batch is {problem.batch}; only single products are measured")
    if problem.out_dtype != problem.dtype:
        raise ValueError(f"out_dtype is {problem.out_dtype}; needs that of a, {problem.dtype}")
    shape = Shape(problem.m, problem.n, problem.k)
    a, b = make_operands(shape, layout, problem.dtype, device)
    candidates = [plan_candidate(plan, str(plan.order)) for plan in plans]
    return compare(a, b, candidates, timer)
