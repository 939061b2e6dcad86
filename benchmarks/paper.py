"""ThunderKittens' experiments on the product, run again with plans of our own: pipeline depth,
persistent against one-shot grids, block orders; and the bank conflicts of shared layouts.

Each row of the record is one shape, its ``group`` the experiment and its candidates the variants,
timed against each other and torch.matmul. ``tk.reports.paper`` sets the paper's figures beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch

import tk
from tk.benchmarks.environment import card_state, environment_of
from tk.benchmarks.gemm import clock_up, make_row
from tk.benchmarks.operands import make_operands
from tk.benchmarks.record import Figure, Record, Row
from tk.benchmarks.running import (
    Progress,
    Save,
    Work,
    ignore_progress,
    ignore_record,
    run_rows,
)
from tk.benchmarks.selection import TORCH, Candidate, Timer, compare, plan_candidate
from tk.benchmarks.shapes import Shape
from tk.benchmarks.timing import Flush
from tk.schedulers import Order, Plan
from tk.schedulers.pipeline import FEWEST_STAGES, num_stages_for
from tk.schedulers.waves import cost_of

SUITE = "paper"
DEPTH, GRID, ORDER = "pipeline depth", "persistent grid", "block order"
PERSISTENT, ONE_SHOT, OURS = "persistent", "one-shot", "tk"
LAYOUT = "nt"

Variants = Callable[[Plan], dict[str, Plan]]
"""The plans of an experiment by name, from the one that would be chosen."""


def depths(plan: Plan) -> dict[str, Plan]:
    """Up to four stages, where the kernel and shared memory allow them."""
    parts = plan.choice.parts_received
    deepest = min(4, num_stages_for(plan.instance, plan.device, parts))
    stages = range(FEWEST_STAGES, deepest + 1)
    return {f"{count} stages": plan.replace(num_stages=count) for count in stages}


def grids(plan: Plan) -> dict[str, Plan]:
    """As many blocks as run at once, and one for every tile."""
    fixed = plan.replace(dynamic=False) if plan.dynamic else plan
    return {PERSISTENT: fixed, ONE_SHOT: fixed.replace(grid=one_shot_grid(fixed))}


def orders(plan: Plan) -> dict[str, Plan]:
    """The paper's two orders, {8, N, M/8} and {N, M}, and the one that would be chosen.

    The paper names the axis that advances fastest first.
    """
    grouped, row = Order("grouped_m", 8), Order("row")
    return {
        str(grouped): plan.replace(order=grouped),
        str(row): plan.replace(order=row),
        OURS: plan,
    }


def one_shot_grid(plan: Plan) -> int:
    """The blocks of a launch in which each computes one tile."""
    blocks: int = cost_of(plan).shape.items * plan.cluster[0] * plan.cluster[1]
    return blocks


@dataclass(frozen=True)
class Experiment:
    """Variants of one plan on some shapes."""

    name: str
    shapes: tuple[Shape, ...]
    variants: Variants


EXPERIMENTS = (
    Experiment(DEPTH, (Shape(4096, 4096, 4096),), depths),
    Experiment(GRID, tuple(Shape(4096, 4096, k) for k in (64, 128, 256, 512, 1024)), grids),
    Experiment(ORDER, (Shape(16384, 16384, 16384),), orders),
)


@dataclass(frozen=True)
class Settings:
    """How long to measure each variant (seconds), and how."""

    seconds: float = 0.1
    dtype: str = "bf16"
    flush: Flush = "read"
    seed: int = 0


def run(
    settings: Settings,
    device: torch.device,
    *,
    experiments: tuple[Experiment, ...] = EXPERIMENTS,
    figures: list[Figure] | None = None,
    progress: Progress = ignore_progress,
    save: Save = ignore_record,
    kept: Record | None = None,
) -> Record:
    """Measures every variant; ``figures`` are kept in the record beside them.

    ``save`` and ``kept`` are as in :func:`tk.benchmarks.gemm.run`.
    """
    if device.type == "cuda":
        clock_up(device)
    work = [
        Work(
            *(shape.m, shape.n, shape.k, LAYOUT),
            _Measuring(experiment, shape, settings, device),
            group=experiment.name,
        )
        for experiment in experiments
        for shape in experiment.shapes
    ]
    empty = Record(SUITE, environment_of(device), asdict(settings), [], figures=figures or [])
    record = run_rows(empty, work, kept=kept, progress=progress, save=save)
    return replace(record, figures=figures or record.figures)


@dataclass(frozen=True)
class _Measuring:
    """Measures one row when called."""

    experiment: Experiment
    shape: Shape
    settings: Settings
    device: torch.device

    def __call__(self) -> Row:
        settings, device = self.settings, self.device
        a, b = make_operands(self.shape, LAYOUT, settings.dtype, device, settings.seed)
        chosen = tk.plan_matmul(a, b)
        plans = self.experiment.variants(chosen)
        candidates: list[Candidate] = [TORCH]
        candidates += [plan_candidate(plan, name) for name, plan in plans.items()]
        timer = Timer(seconds=settings.seconds, flush=settings.flush)
        results = compare(a, b, candidates, timer)
        row = make_row(
            self.shape,
            LAYOUT,
            chosen.problem,
            chosen.device,
            results,
            **card_state(device),
        )
        return replace(row, group=self.experiment.name)
