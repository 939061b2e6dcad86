"""Runs that are saved after every row, interrupted and resumed; suites; their command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sample_records import make_record, make_row

from tk import cli
from tk.benchmarks import gemm, running, shapes
from tk.benchmarks.record import PREDICTED, Record, Row
from tk.benchmarks.running import ResumeError, Work, run_rows
from tk.benchmarks.suites import SUITES, suite_named

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is visible")
EMPTY = make_record([], settings={"seconds": 0.1, "shapes": ["a"], "rivals": ["torch"]})


class Bench:
    """Work that counts how often each row is measured, and stops where it is told to."""

    def __init__(self, count: int, stop_at: int | None = None) -> None:
        self.measured: list[int] = []
        self.stop_at = stop_at
        self.work = [
            Work(4096, 4096, 64 * (i + 1), "nt", lambda i=i: self.measure(i)) for i in range(count)
        ]

    def measure(self, index: int) -> Row:
        if index == self.stop_at:
            raise KeyboardInterrupt
        self.measured.append(index)
        return make_row(1e-5, 1e-5, k=64 * (index + 1))


@given(st.integers(1, 8), st.data())
def test_an_interrupted_run_that_is_resumed_measures_every_row_once(
    count: int, data: st.DataObject
) -> None:
    saved: list[Record] = []
    first = Bench(count, stop_at=data.draw(st.integers(0, count - 1)))
    with pytest.raises(KeyboardInterrupt):
        run_rows(EMPTY, first.work, save=saved.append)
    kept = Record.from_dict(saved[-1].to_dict())
    assert len(kept.rows) == first.stop_at
    assert kept.missing_rows == count - len(kept.rows)
    second = Bench(count)
    steps: list[int] = []
    whole = run_rows(
        EMPTY, second.work, kept=kept, progress=lambda done, total, text: steps.append(done)
    )
    assert first.measured + second.measured == list(range(count))
    assert whole.missing_rows == 0
    assert whole.rows == run_rows(EMPTY, Bench(count).work).rows
    assert whole.resumed == [EMPTY.environment.timestamp]
    assert steps == [*range(len(kept.rows), count), count]


def test_a_finished_run_is_kept_as_it_is() -> None:
    whole = run_rows(EMPTY, Bench(3).work)
    again = Bench(3)
    assert run_rows(EMPTY, again.work, kept=whole) == whole
    assert again.measured == []


def test_predictions_are_not_taken_for_measured_rows() -> None:
    part = run_rows(EMPTY, Bench(1).work)
    predicted = replace(
        part.rows[0], results=[replace(r, status=PREDICTED) for r in part.rows[0].results]
    )
    again = Bench(2)
    whole = run_rows(EMPTY, again.work, kept=replace(part, rows=[*part.rows, predicted]))
    assert again.measured == [1] and len(whole.rows) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"device": "NVIDIA H100"}, "device: NVIDIA H100 then, NVIDIA H200 now"),
        ({"driver": "550.1"}, "driver: 550.1 then, 580.1 now"),
        ({"git_revision": ""}, "git revision: none then, 0123456789ab now"),
        ({"versions": {"tk": "0.1.0"}}, "torch: none then, 2.11.0 now"),
        ({"rivals": {"Triton": "3.6.0"}}, "Triton: 3.6.0 then, none now"),
        ({"machine": "Linux"}, "machine: Linux then, none now"),
    ],
)
def test_a_record_of_another_environment_is_refused(change: dict[str, Any], words: str) -> None:
    kept = replace(EMPTY, environment=replace(EMPTY.environment, **change))
    with pytest.raises(ResumeError, match="is of another run") as caught:
        run_rows(EMPTY, Bench(2).work, kept=kept)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: replace(r, suite="gemm-tune"), "suite: gemm-tune then, gemm now"),
        (
            lambda r: replace(r, settings={**r.settings, "seconds": 0.2}),
            "seconds: 0.2 then, 0.1 no",
        ),
        (lambda r: replace(r, settings={}), "rivals: none then, ['torch'] now"),
        (lambda r: replace(r, rows=[make_row(1e-5, 1e-5, k=7)]), "its rows are not the first"),
        (lambda r: replace(r, rows=[make_row(1, 1, k=64 * i) for i in (1, 2, 3)]), "its rows are"),
    ],
)
def test_a_record_of_other_settings_or_rows_is_refused(
    change: Callable[[Record], Record], words: str
) -> None:
    with pytest.raises(ResumeError) as caught:
        run_rows(EMPTY, Bench(2).work, kept=change(EMPTY))
    assert words in str(caught.value)


def test_clocks_and_the_time_of_day_may_differ() -> None:
    environment = replace(EMPTY.environment, clocks={"sm_clock_mhz": 1.0}, timestamp="later")
    kept = replace(EMPTY, environment=environment)
    assert running.differences(kept, EMPTY) == []


def test_the_suite_of_products_is_resumed_with_equal_rows() -> None:
    settings = gemm.Settings(shapes.parse("16x16x16,24x16x8"), ["nt", "nn"], seconds=1e-3)
    saved: list[Record] = []
    whole = gemm.run(settings, torch.device("cpu"), save=saved.append)
    assert [len(record.rows) for record in saved] == [0, 1, 2, 3, 4]
    kept = Record.from_dict(saved[2].to_dict())
    resumed = gemm.run(settings, torch.device("cpu"), kept=kept)
    assert resumed.rows[:2] == whole.rows[:2]
    assert [(r.m, r.layout) for r in resumed.rows] == [(r.m, r.layout) for r in whole.rows]
    with pytest.raises(ResumeError, match="dtype: bf16 then, fp16 now"):
        gemm.run(replace(settings, dtype="fp16"), torch.device("cpu"), kept=kept)


def test_suites_are_of_shapes_and_found_by_name() -> None:
    for name, suite in SUITES.items():
        assert suite_named(name) is suite and suite.name == name
        assert suite.shapes and len(set(suite.shapes)) == len(suite.shapes)
        assert suite.about
    assert list(suite_named("full").shapes) == shapes.suite()
    everything = set(shapes.suite())
    assert all(set(suite.shapes) <= everything for suite in SUITES.values() if suite.name != "host")
    with pytest.raises(ValueError, match="'most' is no suite; there are full, quick"):
        suite_named("most")


# --- The command line ---


def test_the_suites_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "gemm", "--list-suites"]) == 0
    text = capsys.readouterr().out
    for suite in SUITES.values():
        assert suite.name in text and str(len(suite.shapes)) in text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--suite", "most"], 2, "--suite 'most' is no suite; there are full"),
        (["--suite", "cubes", "--shapes", "8"], 2, "--shapes and --suite: give one of them"),
        (["--suite", "cubes", "--quick"], 2, "--suite and --quick: give one of them"),
        (["--resume"], 2, "--resume needs --json FILE"),
        (["--resume", "--json", "/dev/null"], 2, "--resume needs --json FILE"),
        pytest.param(["--rivals", "triton"], 2, "only torch is measured", marks=no_gpu),
    ],
)
def test_options_that_make_no_sense_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    assert cli.main(["bench", "gemm", *arguments]) == code
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


SMALL = ["bench", "gemm", "--shapes", "16,24x16x8", "--layouts", "nn", "--seconds", "0.001"]


@no_gpu
def test_resume_starts_a_record_that_is_not_there_and_goes_on_with_one_that_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    command = [*SMALL, "--json", str(path), "--resume"]
    assert cli.main(command) == 0
    whole = Record.load(path)
    assert whole.planned_rows == 2 and len(whole.rows) == 4  # two of them predicted
    replace(whole, rows=whole.rows[:1]).save(path)
    assert cli.main(["report", "show", str(path)]) == 0
    assert "unfinished: 1 of 2 rows" in capsys.readouterr().out
    assert cli.main(command) == 0
    again = Record.load(path)
    assert again.rows[0] == whole.rows[0] and len(again.rows) == 4
    assert len(again.resumed) == 1
    monkeypatch.setenv("TK_GIT_REVISION", "another")
    capsys.readouterr()
    assert cli.main(command) == 1
    error = capsys.readouterr().err
    assert "git revision" in error and "another now" in error and error.count("\n") == 1
    path.write_text("{")
    assert cli.main(command) == 1
    assert "cut off" in capsys.readouterr().err


@no_gpu
def test_an_interruption_shows_and_keeps_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    compare = gemm.compare

    def interrupted(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return compare(*arguments, **options)

    monkeypatch.setattr(gemm, "compare", interrupted)
    path = tmp_path / "record.json"
    assert cli.main([*SMALL, "--json", str(path)]) == 130
    captured = capsys.readouterr()
    assert "holds 1 of 2 rows" in captured.out and "16x16x16" in captured.out
    assert captured.err == "tk bench: interrupted\n"
    assert len(Record.load(path).rows) == 1
    assert list(tmp_path.iterdir()) == [path]


@no_gpu
def test_an_interruption_of_saving_loses_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    save, calls = Record.save, []

    def interrupted(record: Record, target: Path) -> None:
        calls.append(len(record.rows))
        if calls == [1, 2]:
            raise KeyboardInterrupt
        save(record, target)

    monkeypatch.setattr(Record, "save", interrupted)
    assert cli.main([*SMALL, "--json", str(path)]) == 130
    assert "holds 2 of 2 rows" in capsys.readouterr().out
    assert len(Record.load(path).rows) == 2


@no_gpu
def test_control_c_leaves_a_record_that_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    command = [sys.executable, "-m", "tk.cli", "bench", "gemm", "--shapes", "64,72,80,88,96,104"]
    command += ["--layouts", "nn", "--seconds", "0.6", "--json", str(path)]
    environment = {**os.environ, "COLUMNS": "160"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # What a shell starts in the background ignores it, and so do its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    limit = time.monotonic() + 60
    while not path.exists() and time.monotonic() < limit:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in error
    kept = Record.load(path)
    assert 1 <= len(kept.rows) < 6 and f"{len(kept.rows)} of 6 rows" in out
    done = subprocess.run(
        [*command, "--resume"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    whole = Record.load(path)
    assert whole.missing_rows == 0 and whole.rows[: len(kept.rows)] == kept.rows


@no_gpu
def test_a_pipe_gets_the_record_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tk.cli", *SMALL, "--json", "/dev/stderr"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr.count('"schema": 2') == 1
