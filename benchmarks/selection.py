"""Checks and times candidates for one product against each other: the core of bench and tune.

Every candidate writes into the same output, filled with NaN before it, and is checked before
anything is timed, and once more afterwards, since a kernel that leaves state behind (a counter
not back at zero) is right only once. One that is wrong or raises gets no time and is never
selected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

import tk
from tk.benchmarks.candidates import plan_text, stored_plan
from tk.benchmarks.check import Errors, errors_of, fault, reference_product, run_on_poisoned
from tk.benchmarks.confirm import confirm
from tk.benchmarks.record import FAILED, OK, WRONG, Result
from tk.benchmarks.timing import Flush, time_interleaved

if TYPE_CHECKING:
    from tk.schedulers import Plan

YARDSTICK = "torch"

Run = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]


@dataclass(frozen=True)
class Candidate:
    """A way to compute out = a @ b; ``run(a, b, out)`` writes ``out`` on the current stream."""

    name: str
    run: Run
    plan: Plan | None = None


def torch_matmul(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """The rival that is always there: cuBLAS on a GPU."""
    torch.matmul(a, b, out=out)


TORCH = Candidate(YARDSTICK, torch_matmul)


@dataclass(frozen=True)
class Timer:
    """How long and in which way to time; see :func:`tk.benchmarks.timing.time_interleaved`."""

    seconds: float = 0.05
    flush: Flush = "read"
    graph: bool = False
    min_repetitions: int = 5
    give_up: float = 4.0
    stop_early: bool = False


def compare(
    a: torch.Tensor,
    b: torch.Tensor,
    candidates: Sequence[Candidate],
    timer: Timer,
    out: torch.Tensor | None = None,
) -> list[Result]:
    """Results of the candidates on a (M, K) and b (K, N), or batches of them, in their order.

    They write to ``out``, by default a dense tensor of a's dtype. The yardstick of the errors is
    ``torch.matmul``, which need not be among the candidates; where it cannot write an output of
    that dtype, one rounding is.
    """
    if out is None:
        out = torch.empty(*a.shape[:-1], b.shape[-1], dtype=a.dtype, device=a.device)
    reference = reference_product(a, b)
    yardstick = Errors(math.inf, math.inf)
    if out.dtype == a.dtype:
        run_on_poisoned(lambda target: torch_matmul(a, b, target), out)
        yardstick = errors_of(out, reference)
    checked = [_checked(candidate, a, b, out, reference, yardstick) for candidate in candidates]
    right = [i for i, result in enumerate(checked) if result.status == OK]
    timings = time_interleaved(
        [_call(candidates[i], a, b, out) for i in right],
        device=a.device,
        seconds=timer.seconds,
        flush=timer.flush,
        graph=timer.graph,
        min_repetitions=timer.min_repetitions,
        give_up=timer.give_up,
        stop_early=timer.stop_early,
    )
    confirm(
        checked, right, timings, lambda i: _checked(candidates[i], a, b, out, reference, yardstick)
    )
    return checked


def fastest(results: Sequence[Result]) -> Result | None:
    """The right candidate of the smallest median, None when none is right."""
    right = [r for r in results if r.status == OK and r.timing is not None]
    return min(right, key=lambda r: r.timing.median if r.timing else 0.0, default=None)


def select_plan(
    a: torch.Tensor, b: torch.Tensor, plans: Sequence[Plan], timer: Timer | None = None
) -> Plan:
    """The fastest of the plans that compute a @ b rightly, measured on the operands' device.

    Raises RuntimeError that lists every rejection when none of them is right.
    """
    candidates = [plan_candidate(plan, str(index)) for index, plan in enumerate(plans)]
    results = compare(a, b, candidates, timer or Timer(seconds=0.02))
    best = fastest(results)
    if best is None:
        reasons = "; ".join(f"{result.plan_text}: {result.reason}" for result in results)
        raise RuntimeError(f"no plan computed this product rightly: {reasons}")
    return plans[int(best.candidate)]


def plan_candidate(plan: Plan, name: str = "tk") -> Candidate:
    """``tk.matmul`` with one plan."""
    return Candidate(name, lambda a, b, out: tk.matmul(a, b, out=out, plan=plan), plan)


def _checked(
    candidate: Candidate,
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor,
    reference: torch.Tensor,
    yardstick: Errors,
) -> Result:
    plan = candidate.plan
    text = "" if plan is None else plan_text(plan)
    stored = None if plan is None else stored_plan(plan)
    try:
        run_on_poisoned(lambda target: candidate.run(a, b, target), out)
        errors = errors_of(out, reference)
    except Exception as error:  # a rival may raise anything; an interruption is no Exception
        reason = f"{type(error).__name__}: {error}"
        return Result(candidate.name, FAILED, plan=stored, plan_text=text, reason=reason)
    reason = fault(errors, yardstick, out)
    return Result(
        candidate.name,
        WRONG if reason else OK,
        error=errors.frobenius,
        largest_error=errors.largest,
        plan=stored,
        plan_text=text,
        reason=reason,
    )


def _call(
    candidate: Candidate, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor
) -> Callable[[], object]:
    return lambda: candidate.run(a, b, out)
