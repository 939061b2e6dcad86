"""The command line: every command does its work, and mistakes get one line and an exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from sample_records import make_record, make_row

import tk
from tk import cli, runtime, tuning
from tk.benchmarks.record import OK, PREDICTED, WRONG, Record, Result
from tk.schedulers import Device, GemmProblem, Plan, plan_gemm
from tk.schedulers.store import Measured, TuningEnvironment

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is visible")


@pytest.fixture(autouse=True)
def wide_console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def run(*arguments: str) -> int:
    return cli.main(arguments)


def mistake(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """The one line that a command with a mistake leaves on standard error."""
    assert run(*arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and captured.err.endswith("\n")
    assert "Traceback" not in captured.err
    return captured.err


def in_subprocess(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tk.cli", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"tk-cute {tk.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [(), ("plan",), ("bench",), ("report",), ("nothing",), ("bench", "norm"), ("--nothing",)],
)
def test_an_incomplete_or_unknown_command_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: Sequence[str]
) -> None:
    assert "--help tells more" in mistake(capsys, 2, *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "gemm", "8192", "8192"], "k"),
        (["plan", "gemm", "8192", "8192", "0"], "'0' is no whole number above 0"),
        (["plan", "gemm", "8192", "8192", "8k"], "'8k'"),
        (["plan", "gemm", "1", "1", "1", "--device", "z80"], "h100-sxm"),
        (["plan", "gemm", "1", "1", "1", "--device", "cuda:99"], "cuda:99"),
        (["plan", "gemm", "1", "1", "1", "--layout", "xy"], "nt, nn, tn, tt"),
        (["plan", "gemm", "1", "1", "1", "--dtype", "int8"], "int8"),
        (["bench", "gemm", "--shapes", "12x"], "'12x' is no shape"),
        (["bench", "gemm", "--layouts", "nx"], "'nx' is no layout"),
        (["bench", "gemm", "--seconds", "-1"], "'-1'"),
        (["bench", "gemm", "--device", "z80"], "unknown device 'z80'"),
        (["bench", "gemm", "--json", "/no/such/folder/file.json"], "/no/such/folder"),
        (["bench", "gemm", "--json", "."], "it is a folder"),
    ],
)
def test_arguments_that_make_no_sense_are_named_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    if "z80" in words and torch.cuda.is_available():
        pytest.skip("the device is only planned for without a GPU")
    assert words in mistake(capsys, 2, *arguments)


def test_a_plan_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "gemm", "8192", "8192", "8192", "--device", "h200") == 0
    text = capsys.readouterr().out
    assert "8192 x 8192 x 8192" in text and "h200" in text
    assert re.search(r"predicted \d+", text)


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_every_layout_and_dtype_has_a_plan(
    capsys: pytest.CaptureFixture[str], layout: str, dtype: str
) -> None:
    options = ["--layout", layout, "--dtype", dtype, "--device", "h100-sxm", "--out-dtype", "fp32"]
    assert run("plan", "gemm", "1000", "999", "1001", "--batch", "3", *options) == 0
    assert f"{dtype}->fp32" in capsys.readouterr().out


def test_the_doctor_says_what_is_here_and_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("doctor") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"torch {torch.__version__}" in text
    assert f"tk {tk.__version__}" in text
    assert "architecture host" in text
    if not torch.cuda.is_available():
        assert "GPU none visible" in text
    if not runtime.has_library("cuda"):
        assert "not in this build" in text and "pip install ." in text


def test_the_doctor_fails_when_no_library_can_be_loaded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "has_library", lambda kind: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run("doctor") == 1
    assert "install it again" in " ".join(capsys.readouterr().out.split())


@no_gpu
def test_bench_without_a_gpu_checks_the_host_and_predicts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "record.json"
    options = ["--shapes", "64x48x32", "--layouts", "nn", "--seconds", "0.001"]
    assert run("bench", "gemm", *options, "--json", str(path)) == 0
    text = capsys.readouterr().out
    assert "host architecture" in text and " ok" in text
    assert "Predicted for h200" in text
    record = Record.load(path)
    measured, predicted = record.rows
    assert [result.status for result in measured.results] == [OK, OK]
    assert [result.status for result in predicted.results] == [PREDICTED]
    assert run("report", "show", str(path)) == 0
    shown = capsys.readouterr().out
    assert shown.strip() in text


@no_gpu
def test_bench_predicts_for_the_device_named(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--shapes", "16x16x16", "--layouts", "nt", "--seconds", "0.001"]
    assert run("bench", "gemm", *options, "--device", "gh200") == 0
    assert "Predicted for gh200" in capsys.readouterr().out


@no_gpu
def test_what_needs_a_gpu_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no GPU" in mistake(capsys, 1, "tune", "gemm")
    assert "--device h200: plans are measured on" in mistake(
        capsys, 2, "tune", "gemm", "--device", "h200"
    )
    assert "no GPU" in mistake(capsys, 2, "bench", "gemm", "--device", "cuda")
    assert "needs a GPU" in mistake(capsys, 2, "bench", "gemm", "--graph", "--shapes", "8x8x8")


def test_a_wrong_result_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = make_row(1e-5, 1e-5)
    wrong = make_row(1e-5, 1e-5, results=[row.results[0], Result("tk", WRONG, reason="half of it")])
    monkeypatch.setattr("tk.benchmarks.gemm.run", lambda *_, **__: make_record([row, wrong]))
    monkeypatch.setattr("tk.benchmarks.gemm.predict", lambda *_, **__: [])
    assert run("bench", "gemm", "--quick") == 1
    text = capsys.readouterr().out
    assert "WRONG" in text and "half of it" in text


def test_a_saved_record_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    make_record([make_row(14e-6, 15.4e-6)]).save(path)
    assert run("report", "show", str(path)) == 0
    text = capsys.readouterr().out
    assert "4096x4096x64" in text and "1.100" in text


def test_a_file_that_is_no_record_is_a_failure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "record.json"
    assert "No such file" in mistake(capsys, 1, "report", "show", str(path))
    path.write_text("{")
    assert "no JSON" in mistake(capsys, 1, "report", "show", str(path))
    path.write_text(json.dumps({"schema": 99}))
    assert "schema version 99" in mistake(capsys, 1, "report", "show", str(path))


def test_the_installed_command_runs_and_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    make_record([make_row(14e-6, 15.4e-6)] * 600).save(path)
    shown = in_subprocess("report", "show", str(path), PYTHONIOENCODING="ascii")
    assert shown.returncode == 0 and shown.stderr == ""
    assert max(map(len, shown.stdout.splitlines())) <= 160
    process = subprocess.Popen(
        [sys.executable, "-m", "tk.cli", "report", "show", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(timeout=60)


def test_a_mistake_in_a_subprocess_has_its_exit_code() -> None:
    result = in_subprocess("plan", "gemm", "1", "1", "1", "--device", "z80")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1 and "unknown device 'z80'" in result.stderr


@pytest.mark.gpu
def test_bench_on_a_gpu_measures_against_cublas(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "record.json"
    options = ["--shapes", "1024,1000x1000x1000", "--seconds", "0.002", "--json", str(path)]
    assert run("bench", "gemm", *options) == 0
    text = capsys.readouterr().out
    assert "geometric mean of the ratios to cuBLAS" in text
    record = Record.load(path)
    assert len(record.rows) == 4
    assert all(result.status == OK for row in record.rows for result in row.results)
    assert record.environment.driver and record.environment.clocks
    assert set(record.host_call_seconds) == {"tk.matmul", "torch.matmul"}


def test_a_plan_is_saved_and_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    options = ["--layout", "nn", "--device", "host", "--json", str(path)]
    assert run("plan", "gemm", "40", "24", "64", *options) == 0
    assert "host" in capsys.readouterr().out
    plan = Plan.load(path)
    a, b = torch.randn(40, 64).bfloat16(), torch.randn(64, 24).bfloat16()
    assert plan == tk.plan_matmul(a, b)
    assert torch.equal(tk.matmul(a, b, plan=plan), tk.matmul(a, b))
    assert "cannot write" in mistake(
        capsys, 2, "plan", "gemm", "8", "8", "8", "--json", "/no/such/folder/plan.json"
    )


def keep_a_winner() -> Path:
    """Stores a tuned plan, of a device that is not here."""
    table, h200 = runtime.instances("host"), Device.named("h200")
    plan = plan_gemm(GemmProblem(512, 4096, 4096), h200, table)
    environment = TuningEnvironment.of(
        h200, table, library="0.1", driver="580.65", cuda="13.0", torch="2.9"
    )
    store = tuning.store()
    assert store is not None
    path = store.put(environment, plan.problem, plan.choice, Measured.now(1e-4, 1.25e-4, 24))
    assert path is not None
    return path


def test_stored_winners_are_listed_and_removed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path / "cache"))
    assert run("tune", "list") == 0
    assert "no tuned plans in" in capsys.readouterr().out
    assert run("doctor") == 0
    assert "none (tk tune makes them)" in " ".join(capsys.readouterr().out.split())
    path = keep_a_winner()
    assert run("tune", "list") == 0
    text = capsys.readouterr().out
    for words in ("h200", "driver 580.65", "4096 x 4096 bf16->bf16 a[k] b[k]", "1.250x as fast"):
        assert words in text
    assert "not used here" in text and "tk tune clear removes" in text
    assert run("doctor") == 0
    shown = "".join(capsys.readouterr().out.split())
    assert f"{tmp_path / 'cache' / 'plans'},0forthisenvironmentof1;remove:tktuneclear" in shown
    assert run("tune", "clear") == 0
    assert "1 removed" in capsys.readouterr().out
    assert not path.exists() and not path.parent.exists()


def test_a_stored_winner_that_cannot_be_used_is_one_warning(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TK_CACHE_DIR", str(tmp_path))
        path = keep_a_winner()
    path.write_text("{")
    shown = in_subprocess("tune", "list", TK_CACHE_DIR=str(tmp_path))
    assert shown.returncode == 0 and "no tuned plans" in shown.stdout
    assert shown.stderr.count(str(path)) == 1


@pytest.mark.parametrize("store", [True, False])
def test_tune_stores_what_wins(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store: bool,
) -> None:
    """On the host, in place of a GPU."""
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tk.cli_tune.measuring_device", lambda *_: torch.device("cpu"))
    options = ["--shapes", "128x128x64,64x64x64", "--layouts", "nt", "--seconds", "0.001"]
    options += ["--candidates", "3"] + ([] if store else ["--no-store"])
    assert run("tune", "gemm", *options) == 0
    text = capsys.readouterr().out
    assert "Winners" in text and "over the model's choice" in text
    stored = list((tmp_path / "plans").rglob("*.json")) if store else []
    assert len(stored) == (2 if store else 0)
    assert (f"2 stored in {tmp_path}" if store else "nothing was stored") in text


@pytest.mark.gpu
def test_tune_on_a_gpu_measures_plans(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "measurements.json"
    options = ["--shapes", "1024", "--layouts", "nt", "--candidates", "4", "--seconds", "0.002"]
    assert run("tune", "gemm", *options, "--measurements", str(path)) == 0
    assert "the chosen plan's time over the best" in capsys.readouterr().out
    assert len(json.loads(path.read_text())["measurements"]) == 4
    assert run("tune", "list") == 0
    text = capsys.readouterr().out
    assert "(used here)" in text and "1024 x 1024 x 1024" in text
    assert run("doctor") == 0
    assert "1 for this environment of 1" in " ".join(capsys.readouterr().out.split())
