"""The rotation's suite: tk.rotary against what torch and others have, checked first, then timed,
beside a copy of as many bytes.

On a GPU all run on it. Without one the host architecture computes a few small cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

import tk
from tk.benchmarks.check import Errors, errors_of, fault
from tk.benchmarks.confirm import confirm
from tk.benchmarks.environment import card_state, environment_of
from tk.benchmarks.gemm import clock_up
from tk.benchmarks.record import FAILED, OK, WRONG, Record, Result, Row
from tk.benchmarks.rotary_cases import Case
from tk.benchmarks.rotary_rivals import Operands, Pair, rival_call
from tk.benchmarks.running import (
    Progress,
    Save,
    Work,
    ignore_progress,
    ignore_record,
    run_rows,
)
from tk.benchmarks.timing import Flush, time_interleaved
from tk.schedulers.device import Device

SUITE = "rotary"
OURS = "tk"
COPY = "copy"
"""Of as many bytes as the case must move, half of them read: the ceiling, timed in the same run."""
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
OWN_ROUNDINGS, RIVALS_ROUNDINGS = 1, 4
"""Of an element: ours computes in fp32; rivals round cos, sin, products and sums in the dtype."""
OPERATIONS_PER_PAIR = 6


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
    rivals: tuple[str, ...] = ()  # names of rotary_rivals.py


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
        Work(case.rows, _heads(case), case.dimension, case.memory, measuring, case.group)
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


def reference(operands: Operands) -> Pair:
    """The rotated q and k, computed in float64 a batch and a few heads at a time, kept as
    float32."""
    return _reference(operands, operands.q), _reference(operands, operands.k)


def _reference(operands: Operands, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    for batch in range(1 if operands.case.packed else x.shape[0]):
        options = dict(operands.options)
        if operands.case.positions:
            options["positions"] = options["positions"][batch]
        for head in range(0, x.shape[1], 4):
            part: tuple[Any, ...] = (slice(batch, batch + 1), slice(head, head + 4))
            if operands.case.packed:
                part = (slice(None), part[1])
            out[part] = tk.reference.rotary(x[part], operands.cos, operands.sin, **options)
    return out


@dataclass(frozen=True)
class _Candidate:
    """A way to compute a case: returns its outputs. `roundings` of an element are its due."""

    name: str
    call: Callable[[], Pair]
    roundings: int


@dataclass(frozen=True)
class _Measuring:
    """Measures one row when called."""

    case: Case
    settings: Settings
    device: torch.device

    def __call__(self) -> Row:
        settings, device = self.settings, self.device
        operands = Operands(self.case, DTYPES[settings.dtype], device, settings.seed)
        results = _compare(self._candidates(operands), operands, settings, device)
        numbers = tk.runtime.device(device)
        return make_row(self.case, settings.dtype, numbers, results, **card_state(device))

    def _candidates(self, operands: Operands) -> list[_Candidate]:
        found = []
        for name in self.settings.rivals:
            call = rival_call(name, operands)
            if call is not None:
                found.append(_Candidate(name, call, RIVALS_ROUNDINGS))
        options = operands.options | {"inplace": self.case.inplace}

        def ours() -> Pair:
            q, k = tk.rotary(operands.q, operands.k, operands.cos, operands.sin, **options)
            assert k is not None
            return q, k

        return [*found, _Candidate(OURS, ours, OWN_ROUNDINGS)]


def _compare(
    candidates: Sequence[_Candidate],
    operands: Operands,
    settings: Settings,
    device: torch.device,
) -> list[Result]:
    """Results in the candidates' order; those that are right are timed and checked once more. The
    last is the copy's."""
    exact = reference(operands)
    results = [_checked(candidate, operands, exact) for candidate in candidates]
    right = [i for i, result in enumerate(results) if result.status == OK]
    half = operands.case.moved_elements() // 2
    start = torch.zeros(half, dtype=operands.q.dtype, device=device)
    end = torch.empty_like(start)
    calls: list[Callable[[], object]] = [candidates[i].call for i in right]
    *timings, copied = time_interleaved(
        [*calls, lambda: end.copy_(start)],
        device=device,
        seconds=settings.seconds,
        flush=settings.flush,
        graph=settings.graph,
    )
    confirm(results, right, timings, lambda i: _checked(candidates[i], operands, exact))
    return [*results, Result(COPY, OK, timing=copied)]


def _checked(candidate: _Candidate, operands: Operands, exact: Pair) -> Result:
    made = Result(candidate.name, OK)
    unit = torch.finfo(operands.q.dtype).eps / 2
    due = Errors(candidate.roundings * unit, math.inf)
    operands.reset()
    _poison_free_memory(operands)
    try:
        outputs = candidate.call()
        errors = [
            errors_of(_flat(out), _flat(right)) for out, right in zip(outputs, exact, strict=True)
        ]
    except Exception as error:  # a rival may raise anything; an interruption is no Exception
        return replace(made, status=FAILED, reason=f"{type(error).__name__}: {error}")
    finally:
        operands.reset()
    reasons = [fault(each, due, out) for each, out in zip(errors, outputs, strict=True)]
    reason = next(filter(None, reasons), "")
    return replace(
        made,
        status=WRONG if reason else OK,
        error=max(each.frobenius for each in errors),
        largest_error=max(each.largest for each in errors),
        reason=reason,
    )


def _poison_free_memory(operands: Operands) -> None:
    """NaN where a caching allocator will put the outputs, which would else still be there, right,
    from the candidate before."""
    held = [torch.full_like(x, math.nan) for x in (operands.q, operands.k)]
    held.clear()


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1, tensor.shape[-1])


def _heads(case: Case) -> int:
    return case.heads + case.k_heads


def make_row(
    case: Case,
    dtype: str,
    device: Device,
    results: list[Result],
    *,
    sm_clock_mhz: float | None = None,
    power_watts: float | None = None,
) -> Row:
    """A record's row: m are the tokens of a sequence, n the heads of q and k together, k the head
    dimension. Bytes: each rotated (or copied) element read and written once, cos and sin once."""
    element = torch.finfo(DTYPES[dtype]).bits // 8
    tables = case.rows * case.columns * 4
    moved = case.moved_elements() * element + tables
    pairs = case.batch * _heads(case) * case.rows * case.columns // 2
    return Row(
        m=case.rows,
        n=_heads(case),
        k=case.dimension,
        layout=case.memory,
        dtype=dtype,
        floating_point_operations=float(OPERATIONS_PER_PAIR * pairs),
        necessary_bytes=float(moved),
        roof_seconds=moved / device.dram_bandwidth if device.dram_bandwidth else None,
        results=results,
        batch=case.batch,
        in_mean=case.in_mean,
        group=case.group,
        sm_clock_mhz=sm_clock_mhz,
        power_watts=power_watts,
    )
