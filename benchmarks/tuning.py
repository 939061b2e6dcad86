"""Which of a product's plans is fastest, by measuring: what ``tk tune`` and TK_TUNE=force keep."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tk.benchmarks.candidates import plan_candidates
from tk.benchmarks.operands import operands_of
from tk.benchmarks.record import OK, Result
from tk.benchmarks.selection import Timer, compare, plan_candidate
from tk.ops.matmul_arguments import check
from tk.ops.matmul_layout import folded, layout_of
from tk.runtime import Backend
from tk.schedulers import GemmProblem, Plan, plan_gemm
from tk.schedulers.store import Measured
from tk.tuning import Winner

GIVE_UP = 2.0  # a plan this many times slower than the fastest keeps its first estimate
CANDIDATES = 16  # of one problem, when a call waits for them
SECONDS = 0.01  # of GPU time for each of those


def winner_of(plans: Sequence[Plan], results: Sequence[Result]) -> Winner | None:
    """The fastest of the plans, the first of which is the model's choice; None when none is right.

    That one is only given up for a plan whose upper quartile lies below its median: what is within
    the noise would change from one tuning to the next.
    """
    timed = [
        (result.timing, plan)
        for plan, result in zip(plans, results, strict=True)
        if result.status == OK and result.timing is not None
    ]
    if not timed:
        return None
    fastest, plan = min(timed, key=lambda entry: entry[0].median)
    model, first = timed[0]
    if first is plans[0] and fastest.q3 >= model.median:
        fastest, plan = model, first
    reference = model if first is plans[0] else fastest
    measured = Measured.now(fastest.median, reference.median, len(timed))
    return Winner(plan.choice, measured)


def tune_problem(problem: GemmProblem, backend: Backend, seconds: float = SECONDS) -> Winner | None:
    """Measures a product's most promising plans on a backend's device, and which one wins.

    Runs on the current stream and waits for it. None when operands like the problem's cannot be
    made, RuntimeError when they do not fit in memory.
    """
    where = torch.device("cpu") if backend.kind == "host" else torch.device("cuda", backend.index)
    with torch.no_grad():
        a, b, out = operands_of(problem, where)
        if planned_problem(a, b, out) != problem:
            return None
        chosen = plan_gemm(problem, backend.device, backend.instances)
        plans = plan_candidates(chosen, backend.instances, CANDIDATES)
        timer = Timer(seconds=seconds, give_up=GIVE_UP, stop_early=True)
        candidates = [plan_candidate(plan, str(index)) for index, plan in enumerate(plans)]
        return winner_of(plans, compare(a, b, candidates, timer, out))


def planned_problem(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> GemmProblem:
    """What tk.matmul plans for these operands; nothing is looked up or measured for it."""
    checked = check(a, b, None, None, 1.0, None, 0.0, out, None)
    aligned = not (a.data_ptr() | b.data_ptr()) & 15
    layout = folded(layout_of(checked, a, b, None, None, out.stride(), aligned))
    return layout.problem(a.dtype, out.dtype)
