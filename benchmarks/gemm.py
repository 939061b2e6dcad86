"""The matrix-product suite: tk.matmul against torch.matmul, checked first, then timed.

On a GPU both run on it. Without one the host architecture computes a few small products, which
are checked, and the suite's shapes are planned and predicted for a named device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import torch

import tk
from tk.benchmarks.candidates import plan_text, stored_plan
from tk.benchmarks.environment import card_state, environment_of
from tk.benchmarks.gemm_rivals import rival_candidates
from tk.benchmarks.operands import make_operands, problem_of
from tk.benchmarks.overhead import host_call_seconds
from tk.benchmarks.record import PREDICTED, Record, Result, Row, Timing
from tk.benchmarks.running import (
    Progress,
    Save,
    Work,
    ignore_progress,
    ignore_record,
    run_rows,
)
from tk.benchmarks.selection import Candidate, Timer, compare
from tk.benchmarks.shapes import Shape
from tk.benchmarks.timing import Flush
from tk.schedulers import Device, GemmProblem, Instance, plan_gemm

SUITE = "gemm"
OURS = "tk"
MODEL = "model"
CLOCK_UP_SECONDS = 0.3  # of products before the first figure, so that the clocks are up

Candidates = Callable[[torch.Tensor, torch.Tensor], Sequence[Candidate]]
"""The candidates for operands a (M, K) and b (K, N)."""


@dataclass(frozen=True)
class Settings:
    """What to run, and how long to measure each candidate (seconds)."""

    shapes: list[Shape]
    layouts: list[str]
    dtype: str = "bf16"
    seconds: float = 0.1
    graph: bool = False
    flush: Flush = "read"
    seed: int = 0
    budget_seconds: float | None = None  # no new shape is begun after so long
    rivals: tuple[str, ...] = ("torch",)  # names of gemm_rivals.py; torch is always measured

    def timer(self) -> Timer:
        """The timer for one shape."""
        return Timer(seconds=self.seconds, flush=self.flush, graph=self.graph)


def candidates_with(rivals: Sequence[str]) -> Candidates:
    """The rivals, then tk.matmul as a user calls it, with the plan it chooses."""

    def candidates(a: torch.Tensor, b: torch.Tensor) -> list[Candidate]:
        ours = Candidate(OURS, lambda a, b, out: tk.matmul(a, b, out=out), tk.plan_matmul(a, b))
        return [*rival_candidates(rivals), ours]

    return candidates


def run(
    settings: Settings,
    device: torch.device,
    *,
    candidates: Candidates | None = None,
    progress: Progress = ignore_progress,
    save: Save = ignore_record,
    kept: Record | None = None,
) -> Record:
    """Runs every shape in every layout on a device and returns the record.

    ``save`` gets the record so far after every row; ``kept`` is one that a run of the same settings
    left, whose rows are not measured again. Raises ResumeError when it is of another run.
    """
    if device.type == "cuda":
        clock_up(device)
    chosen = candidates or candidates_with(settings.rivals)
    work = [
        Work(
            *(shape.m, shape.n, shape.k, layout),
            _Measuring(shape, layout, settings, device, chosen),
        )
        for shape in settings.shapes
        for layout in settings.layouts
    ]
    record = run_rows(
        Record(SUITE, environment_of(device), stored_settings(settings), []),
        work,
        kept=kept,
        progress=progress,
        save=save,
        budget_seconds=settings.budget_seconds,
    )
    calls = host_call_seconds(device) if device.type == "cuda" else {}
    return replace(record, host_call_seconds=calls)


def predict(
    settings: Settings,
    device: Device,
    instances: Sequence[Instance],
    *,
    progress: Progress = ignore_progress,
) -> list[Row]:
    """Plans of every shape in every layout for a device that need not be here."""
    work = [(shape, layout) for shape in settings.shapes for layout in settings.layouts]
    rows = []
    for index, (shape, layout) in enumerate(work):
        progress(index, len(work), f"{shape} {layout}")
        problem = problem_of(shape, layout, settings.dtype)
        plan = plan_gemm(problem, device, instances)
        seconds = plan.prediction.seconds
        result = Result(
            MODEL,
            PREDICTED,
            timing=Timing(seconds, seconds, seconds, 0),
            plan=stored_plan(plan),
            plan_text=plan_text(plan),
        )
        rows.append(make_row(shape, layout, problem, device, [result]))
    progress(len(work), len(work), "")
    return rows


def roof_seconds(problem: GemmProblem, device: Device) -> float:
    """No faster than this: the operations at the peak rate, or each byte moved once."""
    return max(
        problem.flops / device.flops(problem.dtype), problem.min_bytes / device.dram_bandwidth
    )


@dataclass(frozen=True)
class _Measuring:
    """Measures one row when called."""

    shape: Shape
    layout: str
    settings: Settings
    device: torch.device
    candidates: Candidates

    def __call__(self) -> Row:
        settings, device = self.settings, self.device
        a, b = make_operands(self.shape, self.layout, settings.dtype, device, settings.seed)
        plan = tk.plan_matmul(a, b)
        results = compare(a, b, self.candidates(a, b), settings.timer())
        return make_row(
            self.shape,
            self.layout,
            plan.problem,
            plan.device,
            results,
            **card_state(device),
        )


def make_row(
    shape: Shape,
    layout: str,
    problem: GemmProblem,
    device: Device,
    results: list[Result],
    *,
    sm_clock_mhz: float | None = None,
    power_watts: float | None = None,
) -> Row:
    return Row(
        m=shape.m,
        n=shape.n,
        k=shape.k,
        layout=layout,
        dtype=problem.dtype,
        floating_point_operations=float(problem.flops),
        necessary_bytes=float(problem.min_bytes),
        roof_seconds=roof_seconds(problem, device),
        results=results,
        in_mean=shape.in_mean,
        group=shape.group,
        sm_clock_mhz=sm_clock_mhz,
        power_watts=power_watts,
    )


def stored_settings(settings: Settings) -> dict[str, object]:
    """The settings as a record keeps them."""
    shapes = [str(shape) for shape in settings.shapes]
    return asdict(settings) | {"shapes": shapes, "rivals": list(settings.rivals)}


def clock_up(device: torch.device) -> None:
    a = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
    end = time.monotonic() + CLOCK_UP_SECONDS
    while time.monotonic() < end:
        for _ in range(10):
            torch.matmul(a, a)
        torch.cuda.synchronize(device)
