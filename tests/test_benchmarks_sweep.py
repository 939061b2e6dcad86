"""The tuning sweep: its candidates, measurements that the scheduler's fit reads, and what goes on
after an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import tk
from tk import cli, cli_tune, runtime, tuning
from tk.benchmarks import sweep
from tk.benchmarks.candidates import plan_candidates, plan_of, plan_text, stored_plan
from tk.benchmarks.operands import make_operands, problem_of
from tk.benchmarks.record import OK, Record
from tk.benchmarks.shapes import Shape
from tk.schedulers import Device, GemmProblem, Plan, plan_gemm
from tk.schedulers.fit import load_measurements
from tk.schedulers.plan import plan_of_choice
from tk.tuning import Winner

HOST = torch.device("cpu")


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


# --- The command line. On the host, whose times say nothing, so that it needs no GPU. ---

SHAPES = "16x16x16,24x16x8,32x16x8"
TUNE = ["tune", "gemm", "--shapes", SHAPES, "--layouts", "nn", "--seconds", "0.001"]
TUNE += ["--candidates", "3"]


@pytest.fixture
def tuning_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a record; winners are stored under the same folder."""
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning, "_environments", {})
    monkeypatch.setattr(cli_tune, "measuring_device", lambda name, console: HOST)
    return tmp_path / "tuned.json"


def interrupt_before(monkeypatch: pytest.MonkeyPatch, row: int) -> list[int]:
    """Control-C when the plans of that row are about to be measured; what is returned counts."""
    calls: list[int] = []
    measure = sweep.measure_plans

    def interrupted(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == row + 1:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(sweep, "measure_plans", interrupted)
    return calls


def stored() -> list[tuple[int, int, int]]:
    kept = tuning.store()
    assert kept is not None
    return sorted((e.problem.m, e.problem.n, e.problem.k) for e in kept.entries())


def test_an_interrupted_tuning_goes_on_where_it_stopped(
    tuning_on_the_host: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tuning_on_the_host
    command = [*TUNE, "--json", str(path)]
    calls = interrupt_before(monkeypatch, 2)
    assert cli.main(command) == 130
    captured = capsys.readouterr()
    assert "holds 2 of 3 rows" in captured.out and "tk tune: interrupted" in captured.err
    kept = Record.load(path)
    assert len(kept.rows) == 2 and len(stored()) == 2
    flat = path.with_name("flat.json")
    assert cli.main([*command, "--resume", "--measurements", str(flat)]) == 0
    assert len(calls) == 4, "what was measured is not measured again"
    out = capsys.readouterr().out
    assert "3 stored in" in out and all(shape in out for shape in SHAPES.split(","))
    whole = Record.load(path)
    assert whole.rows[:2] == kept.rows and len(whole.rows) == 3 and len(whole.resumed) == 1
    assert len(stored()) == 3
    assert {entry.problem.m for entry in load_measurements(flat)} == {16, 24, 32}


def test_winners_that_were_only_printed_are_stored_by_the_run_that_goes_on(
    tuning_on_the_host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [*TUNE, "--json", str(tuning_on_the_host)]
    interrupt_before(monkeypatch, 1)
    assert cli.main([*command, "--no-store"]) == 130 and stored() == []
    assert cli.main([*command, "--resume"]) == 0 and len(stored()) == 3


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (["--candidates", "4"], 1, "candidates: 3 then, 4 now"),
        (["--dtype", "fp16"], 1, "dtype: bf16 then, fp16 now"),
        (["--json", "/dev/null"], 2, "--resume needs --json FILE"),
    ],
)
def test_another_tuning_is_not_gone_on_with(
    tuning_on_the_host: Path,
    capsys: pytest.CaptureFixture[str],
    change: list[str],
    code: int,
    words: str,
) -> None:
    command = [*TUNE, "--shapes", "16x16x16", "--json", str(tuning_on_the_host)]
    assert cli.main(command) == 0
    capsys.readouterr()
    assert cli.main([*command, "--resume", *change]) == code
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_record_with_a_plan_that_cannot_run_is_refused(
    tuning_on_the_host: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tuning_on_the_host
    command = [*TUNE, "--json", str(path)]
    assert cli.main(command) == 0
    record = json.loads(path.read_text())
    record["rows"][0]["results"][1]["plan"]["choice"]["splits"] = 10**6
    path.write_text(json.dumps(record))
    capsys.readouterr()
    assert cli.main([*command, "--resume"]) == 1
    error = capsys.readouterr().err
    assert "holds a plan that cannot be run" in error and error.count("\n") == 1
