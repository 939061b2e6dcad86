"""Measures many plans of each shape: what the constants of the scheduler's model are fitted to.

Every plan is checked like any candidate of the suite, and timed interleaved with torch.matmul in
chunks, so that each measurement has a rival's time from the same minute. Of each shape the fastest
plan can be kept in the store of tuned plans, from which tk.matmul takes it afterwards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tk import runtime
from tk.benchmarks.candidates import plan_candidates
from tk.benchmarks.environment import card_of, environment_of
from tk.benchmarks.gemm import OURS, clock_up, make_row
from tk.benchmarks.operands import make_operands
from tk.benchmarks.record import Record, Result, Row
from tk.benchmarks.running import (
    Progress,
    ResumeError,
    Save,
    Work,
    ignore_progress,
    ignore_record,
    run_rows,
)
from tk.benchmarks.selection import TORCH, YARDSTICK, Candidate, Timer, compare, plan_candidate
from tk.benchmarks.shapes import Shape
from tk.benchmarks.tuning import GIVE_UP, planned_problem, winner_of
from tk.schedulers import GemmProblem, Plan, plan_gemm
from tk.tuning import Winner

SUITE = "gemm-tune"

OnWinner = Callable[[Shape, str, GemmProblem, Winner], None]
"""Called with a shape, its layout, its problem and the fastest plan's choice."""


@dataclass(frozen=True)
class Settings:
    """What to measure: ``candidates`` plans a shape and layout, ``seconds`` of GPU time each."""

    shapes: list[Shape]
    layouts: list[str]
    dtype: str = "bf16"
    seconds: float = 0.015
    candidates: int = 24
    graph: bool = False
    seed: int = 0


def default_shapes() -> list[Shape]:
    """A dozen shapes in which every part of the model shows: depth, waves, L2, power, splits."""
    sizes = (
        (8192, 8192, 8192),
        (16384, 16384, 16384),
        (4096, 4096, 4096),
        (4096, 4096, 64),
        (4096, 4096, 512),
        (2048, 14336, 4096),
        (8192, 4096, 14336),
        (512, 4096, 4096),
        (128, 4096, 14336),
        (16, 6144, 4096),
        (1, 128256, 4096),
        (1000, 1000, 1000),
    )
    return [Shape(m, n, k, "tune") for m, n, k in sizes]


def run(
    settings: Settings,
    device: torch.device,
    *,
    progress: Progress = ignore_progress,
    save: Save = ignore_record,
    kept: Record | None = None,
    on_winner: OnWinner | None = None,
) -> Record:
    """Measures every shape in every layout. The model's first choice is among the plans.

    ``save`` gets the record so far after every row; ``kept`` is one that a run of the same settings
    left, whose rows are not measured again. ``on_winner`` is called with the fastest plan of each
    shape, first of those in ``kept``, then of each as soon as it is measured. Raises ResumeError
    when ``kept`` is of another run.
    """
    if device.type == "cuda":
        clock_up(device)
    of_rows = [(shape, layout) for shape in settings.shapes for layout in settings.layouts]
    work = [
        Work(shape.m, shape.n, shape.k, layout, _Measuring(shape, layout, settings, device))
        for shape, layout in of_rows
    ]
    handed_on = 0

    def saved(record: Record) -> None:
        nonlocal handed_on
        for row, of_row in list(zip(record.rows, of_rows, strict=False))[handed_on:]:
            if on_winner is not None:
                _hand_on(row, of_row, on_winner)
        handed_on = len(record.rows)
        save(record)

    stored = asdict(settings) | {"shapes": [str(shape) for shape in settings.shapes]}
    empty = Record(SUITE, environment_of(device), stored, [])
    return run_rows(empty, work, kept=kept, progress=progress, save=saved)


@dataclass(frozen=True)
class _Measuring:
    """What makes the row of one shape and layout."""

    shape: Shape
    layout: str
    settings: Settings
    device: torch.device

    def __call__(self) -> Row:
        shape, settings, device = self.shape, self.settings, self.device
        a, b = make_operands(shape, self.layout, settings.dtype, device, settings.seed)
        backend = runtime.backend(device)
        out = torch.empty(shape.m, shape.n, dtype=a.dtype, device=device)
        problem = planned_problem(a, b, out)
        chosen = plan_gemm(problem, backend.device, backend.instances)
        plans = plan_candidates(chosen, backend.instances, settings.candidates)
        results = measure_plans(a, b, plans, settings)
        card = card_of(device)
        clock = card.sm_clock_mhz() if card else None
        return make_row(shape, self.layout, problem, chosen.device, results, sm_clock_mhz=clock)


def _hand_on(row: Row, of_row: tuple[Shape, str], on_winner: OnWinner) -> None:
    """Calls ``on_winner`` with the fastest plan of a row, where one of them is right."""
    results = [result for result in row.results if result.plan is not None]
    try:
        plans = [Plan.from_dict(result.plan) for result in results if result.plan is not None]
    except ValueError as error:  # in a file; what was measured now can be read
        raise ResumeError(f"holds a plan that cannot be run ({error})") from error
    winner = winner_of(plans, results)
    if winner is not None:
        on_winner(*of_row, plans[0].problem, winner)


def measure_plans(
    a: torch.Tensor, b: torch.Tensor, plans: Sequence[Plan], settings: Settings
) -> list[Result]:
    """Results of torch.matmul and of each plan; the first plan is the chosen one, named "tk"."""
    names = [OURS] + [f"plan {index}" for index in range(1, len(plans))]
    candidates: list[Candidate] = [TORCH]
    candidates += [plan_candidate(plan, name) for plan, name in zip(plans, names, strict=True)]
    timer = Timer(seconds=settings.seconds, graph=settings.graph, give_up=GIVE_UP, stop_early=True)
    return compare(a, b, candidates, timer)


def measurements(record: Record) -> dict[str, Any]:
    """What :func:`tk.schedulers.fit.load_measurements` reads: one entry for each right plan.

    Beside its keys an entry has ``q1``, ``q3`` and ``torch_seconds`` (seconds, of torch.matmul in
    the same run), ``repetitions``, ``layout`` and ``sm_clock_mhz``.
    """
    instances: dict[str, dict[str, Any]] = {}
    entries = []
    for row in record.rows:
        rival = row.result(YARDSTICK)
        for result in row.results:
            if result.plan is None or result.timing is None:
                continue
            choice = result.plan["choice"]
            instance = choice["instance"]
            instances[instance["name"]] = instance
            entries.append(
                {
                    **result.plan["problem"],
                    "layout": row.layout,
                    "instance": instance["name"],
                    "num_stages": choice["num_stages"],
                    "cluster": choice["cluster"],
                    "order": choice["order"]["kind"],
                    "order_param": choice["order"]["param"],
                    "splits": choice["splits"],
                    "grid": choice["grid"],
                    "swapped": choice["swapped"],
                    "dynamic": choice.get("dynamic", False),
                    "splits_in_cluster": choice.get("splits_in_cluster", False),
                    "seconds": result.timing.median,
                    "q1": result.timing.q1,
                    "q3": result.timing.q3,
                    "repetitions": result.timing.repetitions,
                    "torch_seconds": rival.timing.median if rival and rival.timing else None,
                    "sm_clock_mhz": row.sm_clock_mhz,
                }
            )
    return {
        "device": record.environment.device,
        "instances": list(instances.values()),
        "measurements": entries,
    }


def save_measurements(record: Record, path: str | os.PathLike[str]) -> None:
    """Writes :func:`measurements` as JSON."""
    Path(path).write_text(json.dumps(measurements(record), indent=1) + "\n", encoding="utf-8")
