"""The tuning sweep: its candidates, and measurements that the scheduler's fit reads."""

from __future__ import annotations

from pathlib import Path

import torch

import tk
from tk import runtime
from tk.benchmarks import sweep
from tk.benchmarks.candidates import plan_candidates, plan_of, plan_text, stored_plan
from tk.benchmarks.operands import make_operands, problem_of
from tk.benchmarks.record import OK
from tk.benchmarks.shapes import Shape
from tk.schedulers import Device, GemmProblem, Plan, plan_gemm
from tk.schedulers.fit import load_measurements
from tk.schedulers.plan import plan_of_choice
from tk.tuning import Winner


def h200_plan(m: int, n: int, k: int) -> Plan:
    instances = runtime.instances("host")
    return plan_gemm(problem_of(Shape(m, n, k), "nt", "bf16"), Device.named("h200"), instances)


def test_candidates_are_legal_distinct_and_begin_with_the_chosen_one() -> None:
    for size in ((8192, 8192, 8192), (16, 4096, 4096), (1000, 1000, 1000)):
        chosen = h200_plan(*size)
        plans = plan_candidates(chosen, runtime.instances("host"), 24)
        assert plans[0] == chosen
        assert 1 < len(plans) <= 24
        assert len({plan.choice for plan in plans}) == len(plans)
        for plan in plans:
            plan.check()


def test_candidates_are_of_several_instances_and_clusters() -> None:
    plans = plan_candidates(h200_plan(8192, 8192, 8192), runtime.instances("host"), 24)
    assert len({plan.instance.index for plan in plans}) >= 2
    assert len({plan.cluster for plan in plans}) >= 2


def test_splits_are_measured_in_memory_and_in_a_cluster() -> None:
    plans = plan_candidates(h200_plan(16, 4096, 4096), runtime.instances("host"), 24)
    split = [plan for plan in plans if plan.splits > 1]
    assert {plan.splits_in_cluster for plan in split} == {False, True}
    assert any("in a cluster" in plan_text(plan) for plan in split)


def test_a_stored_plan_is_read_back() -> None:
    plan = h200_plan(4096, 4096, 4096)
    assert Plan.from_dict(stored_plan(plan)).choice == plan.choice
    assert plan_of(plan, plan.choice).choice == plan.choice
    assert plan.instance.tile in plan_text(plan)


def test_a_sweep_is_measured_checked_and_readable_by_the_fit(tmp_path: Path) -> None:
    settings = sweep.Settings([Shape(128, 128, 64)], ["nt"], seconds=1e-3, candidates=3)
    record = sweep.run(settings, torch.device("cpu"))
    (row,) = record.rows
    assert row.results[0].candidate == "torch"
    assert row.results[1].candidate == "tk"
    assert all(result.status == OK for result in row.results)
    path = tmp_path / "measurements.json"
    sweep.save_measurements(record, path)
    measured = load_measurements(path)
    assert len(measured) == len(row.results) - 1
    a, b = make_operands(Shape(128, 128, 64), "nt", "bf16", torch.device("cpu"))
    assert measured[0].problem == tk.plan_matmul(a, b).problem
    assert measured[0].choice == tk.plan_matmul(a, b).choice


def test_each_shapes_winner_is_handed_on_as_soon_as_it_is_measured() -> None:
    settings = sweep.Settings(
        [Shape(128, 128, 64), Shape(64, 64, 64)], ["nt"], seconds=1e-3, candidates=3
    )
    winners: list[tuple[Shape, GemmProblem, Winner]] = []
    steps: list[int] = []
    record = sweep.run(
        settings,
        torch.device("cpu"),
        progress=lambda done, *_: steps.append(done),
        on_winner=lambda shape, _, problem, winner: winners.append((shape, problem, winner)),
    )
    assert [shape for shape, _, _ in winners] == settings.shapes
    for row, (_, problem, winner) in zip(record.rows, winners, strict=True):
        timings = {result.plan_text: result.timing for result in row.results[1:]}
        times = [timing.median for timing in timings.values() if timing is not None]
        assert winner.measured.model_seconds == times[0]
        assert winner.measured.seconds in times and winner.measured.gain >= 1
        plan_of_choice(problem, Device.named("host"), winner.choice)
