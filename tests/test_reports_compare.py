"""Comparisons of two records: what counts as a change, what is said beside it, and exit codes."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from sample_records import make_record, make_row

from tk import cli
from tk.benchmarks.record import OK, PREDICTED, WRONG, Record, RecordError, Result, Timing
from tk.reports.compare import FASTER, SLOWER, UNKNOWN, WITHIN, compare, differences, render

REPOSITORY_RECORDS = Path(__file__).resolve().parents[1] / "reports" / "records"


def one(seconds: float, low: float, high: float, rival: float = 20e-6) -> Record:
    """A record of one row with these quartiles, and a rival without any spread."""
    row = make_row(seconds, rival)
    ours = replace(row.results[1], timing=Timing(seconds, low, high, 50))
    return make_record([replace(row, results=[row.results[0], ours])])


def drawn(first: Record, second: Record, width: int = 160) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None)
    console.print(render(compare(first, second), console))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("second", "verdict", "percent"),
    [
        ((12e-6, 11e-6, 13e-6), SLOWER, 20.0),
        ((8e-6, 7e-6, 9e-6), FASTER, -20.0),
        ((10.4e-6, 9.8e-6, 10.6e-6), WITHIN, 4.0),  # the medians differ, the quartiles overlap
        ((20e-6, 9e-6, 30e-6), WITHIN, 100.0),
        ((10e-6, 9.5e-6, 10.5e-6), WITHIN, 0.0),
    ],
)
def test_a_change_counts_only_beyond_the_quartile_ranges(
    second: tuple[float, float, float], verdict: str, percent: float
) -> None:
    (change,) = compare(one(10e-6, 9.5e-6, 10.5e-6), one(*second)).changes
    assert change.verdict == verdict
    assert change.percent == pytest.approx(percent)


def test_the_ratios_are_each_of_their_own_record() -> None:
    first, second = one(10e-6, 9e-6, 11e-6, rival=20e-6), one(10e-6, 9e-6, 11e-6, rival=15e-6)
    (change,) = compare(first, second).changes
    assert (change.ratio_before, change.ratio_after) == (pytest.approx(2.0), pytest.approx(1.5))
    assert change.verdict == WITHIN and change.ratio_verdict == SLOWER
    assert change.ratio_percent == pytest.approx(100 / 3)
    text = drawn(first, second)
    assert "2.000" in text and "1.500" in text and "+33.3%" in text


@given(
    st.floats(1e-6, 1.0),
    st.floats(0, 0.5),
    st.floats(1e-6, 1.0),
    st.floats(0, 0.5),
    st.floats(0, 9),
)
def test_a_comparison_turned_round_has_the_opposite_verdict(
    a: float, a_spread: float, b: float, b_spread: float, above: float
) -> None:
    first = one(a, a * (1 - a_spread), a * (1 + a_spread))
    second = one(b, b * (1 - b_spread), b * (1 + b_spread))
    (there,), (back,) = compare(first, second).changes, compare(second, first).changes
    opposite = {FASTER: SLOWER, SLOWER: FASTER, WITHIN: WITHIN}
    assert back.verdict == opposite[there.verdict]
    assert not (there.regressed(above, "time") and back.regressed(above, "time"))
    assert (there.verdict == SLOWER) == (second_low(second) > first_high(first))


def first_high(record: Record) -> float:
    timing = record.rows[0].results[1].timing
    assert timing is not None
    return timing.q3


def second_low(record: Record) -> float:
    timing = record.rows[0].results[1].timing
    assert timing is not None
    return timing.q1


def test_a_record_compared_with_itself_has_no_change_at_all() -> None:
    for path in sorted(REPOSITORY_RECORDS.glob("*-read.json")):
        record = Record.load(path)
        found = compare(record, record)
        assert len(found.changes) == len(record.rows)
        assert {change.verdict for change in found.changes} == {WITHIN}
        assert found.only_first == found.only_second == found.differences == []


def test_rows_and_candidates_of_one_record_alone_are_named() -> None:
    both, old, new = (make_row(1e-5, 1e-5, k=k) for k in (64, 128, 256))
    extra = replace(
        both, results=[*both.results, Result("triton", OK, Timing(1e-5, 1e-5, 1e-5, 5))]
    )
    found = compare(make_record([both, old]), make_record([extra, new]))
    assert len(found.changes) == 1
    assert found.only_first == ["4096x4096x128 nt bf16"]
    assert found.only_second == ["4096x4096x256 nt bf16", "4096x4096x64 nt bf16: triton"]
    text = drawn(make_record([both, old]), make_record([extra, new]))
    assert "only in A" in text and "only in B" in text
    nothing = drawn(make_record([old]), make_record([new]))
    assert "no row in common" in nothing


def test_a_row_that_stands_twice_is_compared_with_its_counterpart() -> None:
    rows = [make_row(1e-5, 1e-5), make_row(2e-5, 1e-5)]
    found = compare(make_record(rows), make_record(rows))
    assert [change.percent for change in found.changes] == [0.0, 0.0]


def test_predictions_and_measurements_of_a_shape_are_never_mixed() -> None:
    measured = make_row(1e-5, 1e-5)
    model = Result("tk", PREDICTED, Timing(9e-6, 9e-6, 9e-6, 0))
    found = compare(make_record([measured]), make_record([replace(measured, results=[model])]))
    assert found.changes == []
    assert found.only_second == ["4096x4096x64 nt bf16 (predicted)"]


def test_plans_of_a_sweep_are_known_by_their_plan_and_not_their_number() -> None:
    def plan(number: int, text: str, seconds: float) -> Result:
        return Result(f"plan {number}", OK, Timing(seconds, seconds, seconds, 9), plan_text=text)

    row = make_row(1e-5, 1e-5)
    first = replace(row, results=[plan(1, "wide", 1e-5), plan(2, "narrow", 2e-5)])
    second = replace(row, results=[plan(1, "narrow", 2e-5), plan(2, "wide", 1e-5)])
    found = compare(
        make_record([first], suite="gemm-tune"), make_record([second], suite="gemm-tune")
    )
    assert [change.percent for change in found.changes] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda e: replace(e, device="NVIDIA H100"), "device: NVIDIA H200 and NVIDIA H100"),
        (lambda e: replace(e, driver="550.1"), "driver: 580.1 and 550.1"),
        (lambda e: replace(e, git_revision=""), "revision: 0123456789ab and -"),
        (lambda e: replace(e, versions={**e.versions, "torch": "2.12.0"}), "torch: 2.11.0 and 2.1"),
        (lambda e: replace(e, versions={"tk": "0.1.0"}), "torch: 2.11.0 and -"),
        (
            lambda e: replace(e, clocks={**e.clocks, "sm_clock_mhz": 1200.0}),
            "sm clock at the start, MHz: 1980 and 1200",
        ),
        (lambda e: replace(e, rivals={"cuBLAS": None}), "cuBLAS: 13.1 and -"),
        (
            lambda e: replace(e, clocks={}),
            "power limit at the start, W: known in one of them alone",
        ),
    ],
)
def test_what_differs_between_the_machines_is_said(
    change: Callable[..., object], words: str
) -> None:
    record = make_record([make_row(1e-5, 1e-5)])
    first = replace(record, environment=replace(record.environment, rivals={"cuBLAS": "13.1"}))
    second = replace(first, environment=change(first.environment))
    assert any(words in line for line in differences(first, second))
    text = drawn(first, second)
    assert "These differ" in text and words in text
    assert "These differ" not in drawn(first, first)


def test_settings_that_make_other_figures_are_said_and_small_drifts_of_clocks_are_not() -> None:
    first = make_record([make_row(1e-5, 1e-5)], settings={"flush": "read", "seconds": 0.1})
    second = make_record([make_row(1e-5, 1e-5)], settings={"flush": "write", "seconds": 0.2})
    assert differences(first, second) == ["flush: read and write"]
    clocks = {**first.environment.clocks, "sm_clock_mhz": 1970.0}
    drifted = replace(first, environment=replace(first.environment, clocks=clocks))
    assert differences(first, drifted) == []


def test_a_result_that_broke_is_a_regression_without_a_time() -> None:
    row = make_row(1e-5, 1e-5)
    wrong = replace(row, results=[row.results[0], Result("tk", WRONG, reason="half of it")])
    found = compare(make_record([row]), make_record([wrong]))
    (change,) = found.changes
    assert change.broke and change.verdict == UNKNOWN and change.percent is None
    assert found.regressions(50.0) == [change]
    text = drawn(make_record([row]), make_record([wrong]))
    assert "broke" in text and "1 right before and wrong or failed now" in text


def test_records_of_different_suites_are_refused() -> None:
    with pytest.raises(RecordError, match="different suites"):
        compare(make_record([]), make_record([], suite="gemm-tune"))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160])
def test_a_comparison_fits_the_console(width: int) -> None:
    record = make_record([make_row(14e-6, 15e-6)])
    lines = drawn(record, record, width).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    if width >= 80:
        assert any("14.00 us" in line and "+0.0%" in line for line in lines)


def save(record: Record, path: Path) -> str:
    record.save(path)
    return str(path)


def test_the_command_compares_and_fails_only_when_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    first = save(one(10e-6, 9.9e-6, 10.1e-6), tmp_path / "a.json")
    slower = save(one(11e-6, 10.9e-6, 11.1e-6), tmp_path / "b.json")
    noisy = save(one(11e-6, 10.0e-6, 12.0e-6), tmp_path / "c.json")

    def run(*arguments: str) -> tuple[int, str]:
        code = cli.main(["report", "compare", *arguments])
        return code, capsys.readouterr().out

    code, text = run(first, slower)
    assert code == 0 and "+10.0%" in text and "slower" in text
    assert run(first, slower, "--fail-above", "5")[0] == 1
    assert "4096x4096x64 nt" in run(first, slower, "--fail-above", "5")[1]
    assert run(first, slower, "--fail-above", "15")[0] == 0
    assert run(slower, first, "--fail-above", "0")[0] == 0
    code, text = run(first, noisy, "--fail-above", "0")
    assert code == 0 and "within the spread" in text and "nothing became" in text
    # The rival became slower as well: by the ratio nothing happened.
    drifted = save(one(11e-6, 10.9e-6, 11.1e-6, rival=22e-6), tmp_path / "d.json")
    assert run(first, drifted, "--fail-above", "5")[0] == 1
    assert run(first, drifted, "--fail-above", "5", "--by", "ratio")[0] == 0


def test_the_installed_command_gives_its_exit_code(tmp_path: Path) -> None:
    first = save(one(10e-6, 9.9e-6, 10.1e-6), tmp_path / "a.json")
    slower = save(one(11e-6, 10.9e-6, 11.1e-6), tmp_path / "b.json")
    command = [sys.executable, "-m", "tk.cli", "report", "compare", first, slower]
    for more, code in (([], 0), (["--fail-above", "5"], 1), (["--fail-above", "50"], 0)):
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (code, "")
        assert "+10.0%" in done.stdout


@pytest.mark.parametrize("percent", ["-1", "five", "nan", "inf"])
def test_a_percentage_that_makes_no_sense_is_named(
    percent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", "compare", "a", "b", f"--fail-above={percent}"]) == 2
    assert "is no percentage" in capsys.readouterr().err
