"""The matrix-product suite: tk.matmul against torch.matmul, checked first, then timed.

On a GPU both run on it. Without one the host architecture computes a few small products, which
are checked, and the suite's shapes are planned and predicted for a named device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch

import tk
from tk.benchmarks.candidates import plan_text, stored_plan
from tk.benchmarks.environment import card_of, environment_of
from tk.benchmarks.operands import make_operands, problem_of
from tk.benchmarks.overhead import host_call_seconds
from tk.benchmarks.record import PREDICTED, Record, Result, Row, Timing
from tk.benchmarks.selection import TORCH, Candidate, Timer, compare
from tk.benchmarks.shapes import Shape
from tk.benchmarks.timing import Flush
from tk.schedulers import Device, GemmProblem, Instance, plan_gemm

SUITE = "gemm"
OURS = "tk"
MODEL = "model"
CLOCK_UP_SECONDS = 0.3  # of products before the first figure, so that the clocks are up

Progress = Callable[[int, int, str], None]
"""Called with the number of steps done, of all, and what comes next."""

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

    def timer(self) -> Timer:
        """The timer for one shape."""
        return Timer(seconds=self.seconds, flush=self.flush, graph=self.graph)


def default_candidates(a: torch.Tensor, b: torch.Tensor) -> list[Candidate]:
    """torch.matmul, then tk.matmul as a user calls it, with the plan it chooses."""
    ours = Candidate(OURS, lambda a, b, out: tk.matmul(a, b, out=out), tk.plan_matmul(a, b))
    return [TORCH, ours]


def ignore_progress(done: int, total: int, text: str) -> None:
    """Shows nothing."""


def run(
    settings: Settings,
    device: torch.device,
    *,
    candidates: Candidates = default_candidates,
    progress: Progress = ignore_progress,
) -> Record:
    """Runs every shape in every layout on a device and returns the record."""
    began = time.monotonic()
    if device.type == "cuda":
        clock_up(device)
    environment = environment_of(device)
    work = [(shape, layout) for shape in settings.shapes for layout in settings.layouts]
    rows = []
    for index, (shape, layout) in enumerate(work):
        progress(index, len(work), f"{shape} {layout}")
        if settings.budget_seconds and time.monotonic() - began > settings.budget_seconds:
            break
        rows.append(_measure(shape, layout, settings, device, candidates))
    progress(len(work), len(work), "")
    calls = host_call_seconds(device) if device.type == "cuda" else {}
    return Record(SUITE, environment, _stored(settings), rows, host_call_seconds=calls)


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


def _measure(
    shape: Shape,
    layout: str,
    settings: Settings,
    device: torch.device,
    candidates: Candidates,
) -> Row:
    a, b = make_operands(shape, layout, settings.dtype, device, settings.seed)
    plan = tk.plan_matmul(a, b)
    results = compare(a, b, candidates(a, b), settings.timer())
    card = card_of(device)
    return make_row(
        shape,
        layout,
        plan.problem,
        plan.device,
        results,
        sm_clock_mhz=card.sm_clock_mhz() if card else None,
        power_watts=card.power_watts() if card else None,
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


def _stored(settings: Settings) -> dict[str, object]:
    stored = asdict(settings)
    stored["shapes"] = [str(shape) for shape in settings.shapes]
    return stored


def clock_up(device: torch.device) -> None:
    a = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
    end = time.monotonic() + CLOCK_UP_SECONDS
    while time.monotonic() < end:
        for _ in range(10):
            torch.matmul(a, a)
        torch.cuda.synchronize(device)
