"""TK_TUNE: which plan a call gets, when one is measured, and what stays out of the way of tracing.

No GPU is needed: a CUDA backend is made up from the host's instances, and measuring is replaced.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from matmul_inputs import random

import tk
from tk import resources, runtime, tuning
from tk.benchmarks.operands import operands_of
from tk.benchmarks.record import OK, WRONG, Result, Timing
from tk.benchmarks.tuning import tune_problem, winner_of
from tk.ops import matmul_plan
from tk.ops.matmul_layout import Layout
from tk.schedulers import Choice, Device, GemmProblem, Plan, plan_gemm
from tk.schedulers.store import Measured, StoreWarning

LAYOUT = Layout(512, 4096, 4096, 1, (4096, 1, 0), (1, 4096, 0), (0, 0, 0), (4096, 1, 0), 0, True)
PROBLEM = GemmProblem(512, 4096, 4096)
BF16 = torch.bfloat16


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TK_TUNE", raising=False)
    monkeypatch.setattr(tuning, "_warned", set())
    monkeypatch.setattr(tuning, "_environments", {})
    monkeypatch.setattr("tk.schedulers.store._warned", set())
    matmul_plan.forget_plans()
    yield
    matmul_plan.forget_plans()


def made_up(index: int = 0, device: str = "h200") -> runtime.Backend:
    """A CUDA backend that plans and launches nothing."""
    return runtime.Backend(
        "cuda", index, runtime.library("host"), runtime.instances("host"), Device.named(device)
    )


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> runtime.Backend:
    """One that `runtime.backend` gives for CUDA device 0; nothing is captured."""
    backends = {0: made_up(), 1: made_up(1, "h100-sxm")}
    monkeypatch.setattr(runtime, "backend", lambda where: backends[where.index or 0])
    monkeypatch.setattr(resources, "capturing", lambda index: False)
    return backends[0]


def planned(backend: runtime.Backend) -> Plan:
    return matmul_plan.plan_for(LAYOUT, BF16, BF16, backend)[0]


def model_plan(backend: runtime.Backend) -> Plan:
    return plan_gemm(PROBLEM, backend.device, backend.instances)


def another_choice(backend: runtime.Backend, splits: int = 2) -> Choice:
    choice = model_plan(backend).replace(splits=splits).choice
    assert choice != model_plan(backend).choice
    return choice


def keep(backend: runtime.Backend, choice: Choice) -> Path:
    store = tuning.store()
    assert store is not None
    path = store.put(tuning.environment(backend), PROBLEM, choice, Measured.now(1e-4, 2e-4, 3))
    assert path is not None
    return path


def measuring(
    monkeypatch: pytest.MonkeyPatch, choice: Choice | None, error: Exception | None = None
) -> list[GemmProblem]:
    """Replaces measuring; what is returned lists the problems that were measured."""
    measured: list[GemmProblem] = []

    def measure(problem: GemmProblem, backend: runtime.Backend) -> tuning.Winner | None:
        measured.append(problem)
        if error is not None:
            raise error
        return None if choice is None else tuning.Winner(choice, Measured.now(1e-4, 2e-4, 3))

    monkeypatch.setattr(tuning, "measure", measure)
    return measured


@pytest.mark.parametrize("value", [None, "", "1"])
def test_a_stored_winner_is_used_without_being_asked_for(
    cuda: runtime.Backend, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is not None:
        monkeypatch.setenv("TK_TUNE", value)
    assert planned(cuda) == model_plan(cuda)
    keep(cuda, another_choice(cuda))
    assert planned(cuda) == model_plan(cuda), "a process keeps to a plan once it has one"
    matmul_plan.forget_plans()
    assert planned(cuda).choice == another_choice(cuda)
    assert planned(cuda).measured == 1e-4


def test_with_0_no_stored_winner_is_used(
    cuda: runtime.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TK_TUNE", "0")
    keep(cuda, another_choice(cuda))
    assert planned(cuda) == model_plan(cuda)


@pytest.mark.parametrize("value", ["2", "yes", "Force", " 1"])
def test_any_other_value_is_named_at_the_first_use(
    cuda: runtime.Backend, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("TK_TUNE", value)
    with pytest.raises(ValueError, match=rf'TK_TUNE is "{value}"; must be 0, 1 or force'):
        planned(cuda)


def test_a_wrong_value_is_named_for_cpu_tensors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TK_TUNE", "sometimes")
    with pytest.raises(ValueError, match="TK_TUNE is"):
        tk.matmul(random((11, 8)), random((8, 13)))


def test_the_store_is_looked_up_once_for_each_problem(
    cuda: runtime.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(cuda, another_choice(cuda))
    asked = []
    real = tuning.tuned_plan
    monkeypatch.setattr(tuning, "tuned_plan", lambda *given: asked.append(given) or real(*given))
    for rows in (4096, 8192, 4096):  # another layout of the same problem
        layout = replace(LAYOUT, a=(rows, 1, 0))
        plan, _ = matmul_plan.plan_for(layout, BF16, BF16, cuda)
        assert plan.choice == another_choice(cuda)
    assert len(asked) == 1


def test_a_winner_of_one_device_is_not_used_on_another(cuda: runtime.Backend) -> None:
    other = runtime.backend(torch.device("cuda", 1))
    assert other.device.name != cuda.device.name
    keep(cuda, another_choice(cuda))
    assert planned(cuda).choice == another_choice(cuda)
    assert planned(other) == model_plan(other)


def test_a_driver_or_version_that_changed_is_a_miss(
    cuda: runtime.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(cuda, another_choice(cuda))
    for name, value in (("driver_version", "1.2.3"), ("library_version", "9.9")):
        with monkeypatch.context() as patch:
            patch.setattr(tuning, name, lambda value=value: value)
            patch.setattr(tuning, "_environments", {})
            assert tuning.tuned_plan(PROBLEM, cuda) is None
    assert tuning.tuned_plan(PROBLEM, cuda) is not None


def test_force_measures_the_first_use_of_a_problem_and_stores_it(
    cuda: runtime.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(cuda, another_choice(cuda, 3))
    choice = another_choice(cuda)
    measured = measuring(monkeypatch, choice)
    monkeypatch.setenv("TK_TUNE", "force")
    assert planned(cuda).choice == planned(cuda).choice == choice
    assert measured == [PROBLEM]
    monkeypatch.setenv("TK_TUNE", "1")
    matmul_plan.forget_plans()
    assert planned(cuda).choice == choice
    assert len(measured) == 1


def captured(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(resources, "capturing", lambda index: True)


def compiled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch.compiler, "is_compiling", lambda: True)


def traced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch._C, "_get_tracing_state", lambda: object())


@pytest.mark.parametrize("state", [captured, compiled, traced])
@pytest.mark.parametrize("stored", [True, False])
def test_force_measures_nothing_during_capture_and_tracing(
    cuda: runtime.Backend,
    monkeypatch: pytest.MonkeyPatch,
    state: Callable[[pytest.MonkeyPatch], None],
    stored: bool,
) -> None:
    if stored:
        keep(cuda, another_choice(cuda))
    measured = measuring(monkeypatch, another_choice(cuda, 3))
    monkeypatch.setenv("TK_TUNE", "force")
    state(monkeypatch)
    expected = another_choice(cuda) if stored else model_plan(cuda).choice
    found = tuning.tuned_plan(PROBLEM, cuda)
    assert (found or model_plan(cuda)).choice == expected
    assert measured == []


@pytest.mark.parametrize("error", [RuntimeError("CUDA out of memory"), ValueError("no plan")])
def test_measuring_that_fails_is_said_once_and_the_model_decides(
    cuda: runtime.Backend, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    measuring(monkeypatch, None, error)
    monkeypatch.setenv("TK_TUNE", "force")
    with pytest.warns(StoreWarning, match=f"could not be measured: {error}") as caught:
        assert tuning.tuned_plan(PROBLEM, cuda) is None
        assert tuning.tuned_plan(PROBLEM, cuda) is None
    assert len(caught) == 1


def test_force_where_nothing_can_be_written_measures_and_says_so_once(
    cuda: runtime.Backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setenv("TK_TUNE", "force")
    measuring(monkeypatch, another_choice(cuda))
    with pytest.warns(StoreWarning, match="cannot be kept") as caught:
        for _ in range(3):
            plan = tuning.tuned_plan(PROBLEM, cuda)
            assert plan is not None and plan.choice == another_choice(cuda)
    assert len(caught) == 1


def test_force_has_no_effect_on_cpu_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = measuring(monkeypatch, None)
    monkeypatch.setenv("TK_TUNE", "force")
    a, b = random((19, 8)), random((8, 17))
    plan = tk.plan_matmul(a, b)
    assert plan == plan_gemm(plan.problem, plan.device, runtime.instances("host"))
    assert plan.measured is None and measured == []


def test_without_a_home_there_is_no_store_and_no_error(
    cuda: runtime.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(tuning, "user_cache_dir", nowhere)
    with pytest.warns(StoreWarning, match="home directory"):
        assert planned(cuda) == model_plan(cuda)


def test_a_cache_that_was_never_tuned_costs_no_look_at_the_driver(
    cuda: runtime.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "environment", None)  # a call would fail
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert planned(cuda) == model_plan(cuda)


def test_a_cache_folder_that_may_not_be_entered_is_no_error(
    cuda: runtime.Backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A name that is too long: looking at it fails for root, too.
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path / ("x" * 300)))
    assert planned(cuda) == model_plan(cuda)


def result(median: float, q3: float | None = None, status: str = OK) -> Result:
    timing = Timing(median, median, q3 or median, 9) if status == OK else None
    return Result("plan", status, timing=timing)


def test_the_models_choice_stands_within_the_noise() -> None:
    model = model_plan(made_up())
    plans = [model, model.replace(splits=2), model.replace(splits=3)]
    noisy = winner_of(plans, [result(1.0), result(0.99, 1.01), result(1.2)])
    assert noisy is not None and noisy.choice == model.choice and noisy.measured.gain == 1
    clear = winner_of(plans, [result(1.0), result(0.9, 0.95), result(0.5, status=WRONG)])
    assert clear is not None and clear.choice == plans[1].choice
    assert clear.measured.gain == pytest.approx(1 / 0.9)
    assert clear.measured.candidates == 2
    wrong = winner_of(plans, [result(1.0, status=WRONG), result(0.9), result(0.8)])
    assert wrong is not None and wrong.choice == plans[2].choice
    assert winner_of(plans, [result(1.0, status=WRONG)] * 3) is None


PROBLEMS = (
    GemmProblem(64, 48, 40),
    GemmProblem(33, 65, 41, b_major="n", out_dtype="fp32"),
    GemmProblem(40, 24, 32, batch=3, dtype="fp16", a_major="m"),
    GemmProblem(30, 20, 10, loader="gather"),
    GemmProblem(1, 72, 64),
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_a_problems_operands_are_planned_as_that_problem(problem: GemmProblem) -> None:
    a, b, out = operands_of(problem, torch.device("cpu"))
    assert tk.plan_matmul(a, b, out=out).problem == problem


@pytest.mark.parametrize("problem", PROBLEMS[:4], ids=str)
def test_a_problem_is_measured_rightly_on_the_host(problem: GemmProblem) -> None:
    backend = runtime.backend(torch.device("cpu"))
    state = torch.random.get_rng_state()
    winner = tune_problem(problem, backend, seconds=1e-4)
    assert winner is not None and winner.measured.seconds > 0
    assert torch.equal(torch.random.get_rng_state(), state), "the caller's random numbers stay"


def test_a_problem_that_no_operands_have_is_not_measured() -> None:
    backend = runtime.backend(torch.device("cpu"))
    assert tune_problem(replace(PROBLEMS[0], store="elements"), backend) is None


def test_the_drivers_version_is_a_version_or_nothing() -> None:
    version = tuning.driver_version()
    assert version == "" or version.startswith("cuda ") or version[0].isdigit()


GPU_SCRIPT = """
import sys, torch, tk
a = torch.randn(512, 1024, device="cuda", dtype=torch.bfloat16)
w = torch.randn(768, 1024, device="cuda", dtype=torch.bfloat16)
if sys.argv[1] == "captured":
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = tk.matmul(a, w.t())
    graph.replay()
else:
    out = tk.matmul(a, w.t())
torch.testing.assert_close(out, a @ w.t(), rtol=2e-2, atol=1e-1)
plan = tk.plan_matmul(a, w.t())
print(plan.measured is not None, plan.choice)
"""


@pytest.mark.gpu
def test_force_on_a_gpu_is_measured_once_and_found_by_later_processes(tmp_path: Path) -> None:
    def run(how: str, tune: str) -> str:
        environment: dict[str, Any] = {"TK_TUNE": tune, "TK_CACHE_DIR": str(tmp_path)}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            return subprocess.run(
                [sys.executable, "-c", GPU_SCRIPT, how],
                capture_output=True,
                text=True,
                timeout=300,
                check=True,
            ).stdout

    assert run("captured", "force").startswith("False"), "nothing is measured during capture"
    forced = run("eager", "force")
    assert forced.startswith("True")
    assert run("eager", "1") == run("captured", "1") == forced
    assert run("eager", "0").startswith("False")
