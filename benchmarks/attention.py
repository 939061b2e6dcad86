"""The attention suite: tk.attention against what torch and others have, checked first, then timed.

On a GPU all run on it. Without one the host architecture computes a few small cases, which are
checked, and the suite's cases are planned and predicted for a named device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import torch

import tk
from tk.benchmarks.attention_cases import Case
from tk.benchmarks.attention_rivals import CUDNN, Operands, rival_call
from tk.benchmarks.candidates import plan_candidates, plan_text, stored_plan
from tk.benchmarks.check import Errors, errors_of, fault
from tk.benchmarks.confirm import confirm
from tk.benchmarks.environment import card_state, environment_of
from tk.benchmarks.gemm import clock_up
from tk.benchmarks.operands import DTYPES
from tk.benchmarks.record import FAILED, OK, PREDICTED, WRONG, Record, Result, Row, Timing
from tk.benchmarks.running import (
    Progress,
    Save,
    Work,
    ignore_progress,
    ignore_record,
    run_rows,
)
from tk.benchmarks.timing import Flush, time_interleaved
from tk.schedulers import AttentionInstance, AttentionProblem, Device, Plan, plan_attention

SUITE = "attention"
OURS = "tk"
MODEL = "model"
PLAN = "plan "  # begins the names of other plans than the chosen one
BLOCK = 1 << 26  # scores of the reference at once: 0.5 GB of float64


@dataclass(frozen=True)
class Settings:
    """What to run, and how long to measure each candidate (seconds)."""

    cases: list[Case]
    dtype: str = "bf16"
    seconds: float = 0.1
    graph: bool = False
    flush: Flush = "read"
    seed: int = 0
    budget_seconds: float | None = None  # no new case is begun after so long
    rivals: tuple[str, ...] = ()  # names of attention_rivals.py
    plans: int = 0  # other plans that are measured beside the chosen one, and its like


def run(
    settings: Settings,
    device: torch.device,
    *,
    progress: Progress = ignore_progress,
    save: Save = ignore_record,
    kept: Record | None = None,
) -> Record:
    """Runs every case on a device and returns the record.

    ``save`` and ``kept`` are those of `tk.benchmarks.gemm.run`.
    """
    if device.type == "cuda":
        clock_up(device)
    work = [
        Work(case.queries, case.keys, case.dimension, _mask(case), measuring, case.group)
        for case in settings.cases
        for measuring in (_Measuring(case, settings, device),)
    ]
    stored = asdict(settings) | {
        "cases": [str(case) for case in settings.cases],
        "rivals": list(settings.rivals),
    }
    return run_rows(
        Record(SUITE, environment_of(device), stored, []),
        work,
        kept=kept,
        progress=progress,
        save=save,
        budget_seconds=settings.budget_seconds,
    )


def predict(
    settings: Settings,
    device: Device,
    instances: Sequence[AttentionInstance],
    *,
    progress: Progress = ignore_progress,
) -> list[Row]:
    """Plans of every case for a device that need not be here."""
    rows = []
    for index, case in enumerate(settings.cases):
        progress(index, len(settings.cases), str(case))
        problem = problem_of(case, settings.dtype)
        plan = plan_attention(problem, device, instances)
        seconds = plan.prediction.seconds
        timing = Timing(seconds, seconds, seconds, 0)
        result = _with_plan(Result(MODEL, PREDICTED, timing=timing), plan)
        rows.append(make_row(case, problem, device, [result]))
    progress(len(settings.cases), len(settings.cases), "")
    return rows


def problem_of(case: Case, dtype: str) -> AttentionProblem:
    """The problem of a case, as planning sees it on a GPU, where packed lengths are not known."""
    return AttentionProblem(
        batch=len(case.lengths) or case.batch,
        heads=case.heads,
        kv_heads=case.kv_heads,
        queries=case.queries,
        keys=case.keys,
        head_dim=case.dimension,
        value_dim=case.dimension,
        dtype=dtype,
        window_right=0 if case.causal and (case.queries > 1 or case.lengths) else -1,
        packed=bool(case.lengths),
        total_queries=case.queries,
        total_keys=case.keys,
    )


def reference(operands: Operands) -> torch.Tensor:
    """The output in float64 by rows and heads at a time, kept as float32."""
    case = operands.case
    out = torch.empty(operands.q.shape, dtype=torch.float32, device=operands.q.device)
    if case.lengths:
        first = 0
        for length in case.lengths:
            rows = slice(first, first + length)
            parts = [t[rows].transpose(0, 1)[None] for t in (out, *operands.qkv)]
            _fill(parts, case.causal)
            first += length
        return out
    for batch in range(case.batch):
        _fill([t[batch : batch + 1] for t in (out, *operands.qkv)], case.causal)
    return out


def _fill(tensors: Sequence[torch.Tensor], causal: bool) -> None:
    """Writes the first of out, q, k and v of one batch; a block of queries sees the keys up to its
    own last one's."""
    out, q, k, v = tensors
    queries, keys = q.shape[2], k.shape[2]
    step = max(BLOCK // max(keys, 1), 1)
    for head in range(q.shape[1]):
        kv = head * k.shape[1] // q.shape[1]
        for row in range(0, queries, step):
            end = min(row + step, queries)
            seen = slice(0, max(keys - queries + end, 0) if causal else keys)
            part = tk.reference.attention(
                q[:, head : head + 1, row:end],
                k[:, kv : kv + 1, seen],
                v[:, kv : kv + 1, seen],
                causal=causal,
            )
            assert isinstance(part, torch.Tensor)
            out[:, head : head + 1, row:end] = part


def other_plans(chosen: Plan, count: int, device: torch.device) -> list[Plan]:
    """So many plans that look best beside the chosen one, with and without turns, which the model
    cannot tell apart. None of them twice."""
    if count == 0:
        return []
    table = tk.runtime.backend(device).table(chosen.problem.family)
    found: dict[str, Plan] = {}
    for plan in plan_candidates(chosen, table, count + 1):
        twins = [plan]
        if plan.instance.consumer_warpgroups >= 2:
            twins.append(plan.replace(turns=not plan.turns))
        found |= {str(each.choice): each for each in twins if each.choice != chosen.choice}
    return list(found.values())[:count]


@dataclass(frozen=True)
class _Candidate:
    """A way to compute a case: returns its output; `out` is the memory that it always writes."""

    name: str
    call: Callable[[], torch.Tensor]
    plan: Plan | None = None
    out: torch.Tensor | None = None


@dataclass(frozen=True)
class _Measuring:
    """Measures one row when called."""

    case: Case
    settings: Settings
    device: torch.device

    def __call__(self) -> Row:
        settings, device = self.settings, self.device
        operands = Operands(self.case, DTYPES[settings.dtype], device, settings.seed)
        candidates = self._candidates(operands)
        plan = candidates[-1].plan
        assert plan is not None
        results = _compare(candidates, reference(operands), settings, device)
        return make_row(self.case, plan.problem, plan.device, results, **card_state(device))

    def _candidates(self, operands: Operands) -> list[_Candidate]:
        found = []
        for name in self.settings.rivals:
            call = rival_call(name, operands)
            if call is not None:
                found.append(_Candidate(name, call))
        out = torch.empty_like(operands.q)

        def ours(name: str, plan: Plan, given: Plan | None) -> _Candidate:
            def call() -> torch.Tensor:
                result = tk.attention(*operands.qkv, **operands.options, out=out, plan=given)
                assert isinstance(result, torch.Tensor)
                return result

            return _Candidate(name, call, plan, out)

        chosen = tk.plan_attention(*operands.qkv, **operands.options)
        others = other_plans(chosen, self.settings.plans, self.device)
        found += [ours(f"{PLAN}{n}", plan, plan) for n, plan in enumerate(others, start=1)]
        return [*found, ours(OURS, chosen, None)]


def _compare(
    candidates: Sequence[_Candidate],
    exact: torch.Tensor,
    settings: Settings,
    device: torch.device,
) -> list[Result]:
    """Results in the candidates' order; those that are right are timed and checked once more."""
    yardstick = _yardstick(candidates, exact)
    results = [_checked(candidate, exact, yardstick) for candidate in candidates]
    right = [i for i, result in enumerate(results) if result.status == OK]
    timings = time_interleaved(
        [candidates[i].call for i in right],
        device=device,
        seconds=settings.seconds,
        flush=settings.flush,
        graph=settings.graph,
    )
    confirm(results, right, timings, lambda i: _checked(candidates[i], exact, yardstick))
    return results


def _yardstick(candidates: Sequence[_Candidate], exact: torch.Tensor) -> Errors:
    """The errors of cuDNN; where it is not there, those of weights that are rounded once."""
    for candidate in candidates:
        if candidate.name == CUDNN:
            try:
                return errors_of(_flat(candidate.call()), _flat(exact))
            except RuntimeError:  # no kernel for such a case; said where it is measured
                break
    dtype = next(c.out.dtype for c in candidates if c.out is not None)
    return Errors(2.0 * torch.finfo(dtype).eps / 2, math.inf)


def _checked(candidate: _Candidate, exact: torch.Tensor, yardstick: Errors) -> Result:
    made = Result(candidate.name, OK)
    if candidate.plan is not None:
        made = _with_plan(made, candidate.plan)
    if candidate.out is not None:
        candidate.out.fill_(math.nan)
    try:
        out = _flat(candidate.call())
        errors = errors_of(out, _flat(exact))
    except Exception as error:  # a rival may raise anything; an interruption is no Exception
        return replace(made, status=FAILED, reason=f"{type(error).__name__}: {error}")
    reason = fault(errors, yardstick, out)
    status = WRONG if reason else OK
    return replace(
        made, status=status, error=errors.frobenius, largest_error=errors.largest, reason=reason
    )


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1, tensor.shape[-1])


def _with_plan(result: Result, plan: Plan) -> Result:
    return replace(result, plan=stored_plan(plan), plan_text=plan_text(plan))


def _mask(case: Case) -> str:
    return "causal" if case.causal else "full"


def make_row(
    case: Case,
    problem: AttentionProblem,
    device: Device,
    results: list[Result],
    *,
    sm_clock_mhz: float | None = None,
    power_watts: float | None = None,
) -> Row:
    """A record's row: m are the queries, n the keys, k the head dimension, batch counts heads."""
    flops, necessary = _work_of(case, problem)
    return Row(
        m=case.queries,
        n=case.keys,
        k=case.dimension,
        layout=_mask(case),
        dtype=problem.dtype,
        floating_point_operations=flops,
        necessary_bytes=necessary,
        roof_seconds=max(flops / device.flops(problem.dtype), necessary / device.dram_bandwidth),
        results=results,
        batch=(len(case.lengths) or case.batch) * case.heads,
        in_mean=case.in_mean,
        group=case.group,
        sm_clock_mhz=sm_clock_mhz,
        power_watts=power_watts,
    )


def _work_of(case: Case, problem: AttentionProblem) -> tuple[float, float]:
    """FLOP over the keys that are seen, and bytes of each tensor once."""
    if not case.lengths:
        return float(problem.flops), float(problem.min_bytes)
    each = [
        replace(
            problem,
            batch=1,
            packed=False,
            queries=length,
            keys=length,
            total_queries=length,
            total_keys=length,
        )
        for length in case.lengths
    ]
    return float(sum(p.flops for p in each)), float(sum(p.min_bytes for p in each))
