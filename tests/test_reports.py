"""Reports: what a table says, at any width, of records right and wrong; nothing is measured."""

from __future__ import annotations

import ast
import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from sample_records import make_record, make_row

import tk.benchmarks.record
import tk.reports
from tk.benchmarks.record import (
    PREDICTED,
    WRONG,
    Record,
    RecordError,
    Result,
    Timing,
)
from tk.reports import format
from tk.reports.show import render


def drawn(record: Record, width: int = 160) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None)
    console.print(render(record, console))
    return stream.getvalue()


def test_a_measured_row_shows_everything_the_report_promises() -> None:
    text = drawn(make_record([make_row(14e-6, 15.4e-6)]))
    line = next(line for line in text.splitlines() if "4096x4096x64" in line)
    for cell in (
        "nt",
        "128x256x64 4st 2x1 row",
        "14.00 us",
        "13.86-14.14",
        "153",  # TFLOP/s
        "2.47",  # TB/s
        "58%",  # of the roof
        "1.100",
        "1.66e-03",
        "1.000",
    ):
        assert cell in line
    assert "geometric mean of the ratios to cuBLAS: 1.100 over 1 rows" in text
    for words in ("NVIDIA H200", "driver 580.1", "sm clock 1980 MHz", "revision 0123456789ab"):
        assert words in text


def test_the_mean_leaves_out_rows_that_do_not_count_and_the_lowest_does_not() -> None:
    rows = [make_row(10e-6, 12e-6), make_row(10e-6, 9e-6, in_mean=False, k=128)]
    text = drawn(make_record(rows))
    assert "1.200 over 1 rows; lowest 0.900 at 4096x4096x128 nt" in text


def test_a_wrong_row_has_no_time_and_says_why() -> None:
    row = make_row(14e-6, 15e-6)
    wrong = Result("tk", WRONG, error=0.4, plan_text="a plan", reason="9 of 81 elements are NaN")
    text = drawn(make_record([replace(row, results=[row.results[0], wrong])]))
    assert "WRONG" in text
    assert "14.00 us" not in text
    assert "wrong, 9 of 81 elements are NaN" in text
    assert "geometric mean of" not in text


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160, 200])
def test_the_figures_that_matter_are_shown_at_every_width(width: int) -> None:
    record = make_record([make_row(14e-6, 15.4e-6)])
    lines = drawn(record, width).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    if width >= 80:
        line = next(line for line in lines if "4096x4096x64" in line)
        assert all(cell in line for cell in ("14.00 us", "1.100", "1.66e-03"))
    if width == 80:
        assert any("left out at this width" in line for line in lines)


def test_predictions_stand_in_a_table_of_their_own() -> None:
    model = Result("model", PREDICTED, Timing(14e-6, 14e-6, 14e-6, 0), plan_text="a plan")
    row = make_row(1.0, 1.0, results=[model])
    text = drawn(make_record([row], predicted_for="h200"))
    assert "Predicted for h200" in text and "predicted, not measured" in text
    assert "14.00 us" in text
    assert "cuBLAS" not in text


def test_a_record_of_the_host_shows_no_ratio_of_times() -> None:
    record = make_record([make_row(0.03, 0.001)])
    record = replace(record, environment=replace(record.environment, architecture="host"))
    text = drawn(record)
    assert "host architecture" in text and " ok" in text
    assert "cuBLAS" not in text and "TFLOP/s" not in text


def test_a_tuned_record_shows_the_best_plans_and_what_the_choice_lost() -> None:
    row = make_row(20e-6, 15e-6)
    better = Result("plan 1", "ok", Timing(10e-6, 10e-6, 10e-6, 9), plan_text="a better plan")
    row = replace(row, results=[*row.results, better])
    text = drawn(make_record([row], suite="gemm-tune"))
    assert "a better plan" in text and "chosen" in text
    assert "geometric mean 2.000, worst 2.000" in text


def test_text_of_a_record_is_shown_as_it_stands() -> None:
    row = make_row(14e-6, 15e-6, layout="[/x]")
    ours = replace(row.results[1], plan_text="[red]plan[/y]")
    text = drawn(make_record([replace(row, results=[row.results[0], ours])]))
    assert "[/x]" in text and "[red]plan[/y]" in text


def test_an_empty_record_and_an_unknown_suite() -> None:
    assert "no rows" in drawn(make_record([]))
    with pytest.raises(RecordError, match="no report for the suite 'norm'"):
        drawn(make_record([], suite="norm"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5731e-3, "1.573 ms"),
        (8.312e-6, "8.312 us"),
        (0.9999e-3, "1.000 ms"),
        (123.4e-6, "123.4 us"),
        (2.0, "2.000 s"),
        (5e-9, "0.005 us"),
        (None, "-"),
        (float("nan"), "-"),
    ],
)
def test_times_are_written_with_their_unit(value: float | None, text: str) -> None:
    assert format.seconds(value) == text


def test_missing_figures_are_dashes() -> None:
    assert (
        format.rate(1e12, None) == format.percent(None, 1.0) == format.relative_error(None) == "-"
    )
    assert format.ratio(None).plain == "-"
    assert format.byte_count(60 * 2**20) == "60 MiB"


def test_records_and_reports_import_nothing_that_measures() -> None:
    assert tk.reports.__file__ is not None and tk.benchmarks.record.__file__ is not None
    files = [*Path(tk.reports.__file__).parent.glob("*.py"), Path(tk.benchmarks.record.__file__)]
    assert len(files) >= 4
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert name.split(".")[0] != "torch"
                assert not name.startswith("tk.") or name.startswith(
                    ("tk.reports", "tk.benchmarks.record", "tk.benchmarks.rivals", "tk.schedulers")
                )
