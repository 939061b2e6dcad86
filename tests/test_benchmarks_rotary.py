"""The rotation's suite: its reference, its record and its table."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import tk
from tk.benchmarks import rotary, rotary_cases
from tk.benchmarks.record import OK, WRONG, Record
from tk.benchmarks.rotary_cases import Case
from tk.benchmarks.rotary_rivals import Operands, choose_rivals, rival_call
from tk.cli import main
from tk.reports.show import render

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def record() -> Record:
    """The host's cases, quickly."""
    return rotary.run(rotary.Settings(rotary_cases.host(), seconds=0.001), CPU)


def test_every_case_of_the_host_is_right(record: Record) -> None:
    assert [[r.candidate for r in row.results] for row in record.rows] == [["tk", "copy"]] * 5
    assert {r.status for row in record.rows for r in row.results} == {OK}
    assert all(r.timing is not None for row in record.rows for r in row.results)


def test_a_record_is_read_as_it_was_saved_and_resumed(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    replace(record, rows=record.rows[:2]).save(path)
    settings = rotary.Settings(rotary_cases.host(), seconds=0.001)
    whole = rotary.run(settings, CPU, kept=Record.load(path))
    assert whole.rows[:2] == record.rows[:2]
    assert len(whole.rows) == len(record.rows)


def test_its_table_names_every_case(record: Record) -> None:
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(render(record, console))
    text = console.export_text()
    for words in ("2x65x6x64", "rows first, in place", "interleaved, positions", "of a copy"):
        assert words in text


def test_rows_of_a_suite_differ() -> None:
    for suite in rotary_cases.SUITES.values():
        assert len(set(map(str, suite.cases))) == len(suite.cases)


def test_bytes_are_those_that_must_be_moved() -> None:
    device = tk.schedulers.Device.named("h200")
    whole = Case(2, 32, 8, 4096, 128)
    tables = 4096 * 128 * 4
    moved = 2 * 2 * 40 * 4096 * 128 * 2
    assert rotary.make_row(whole, "bf16", device, []).necessary_bytes == moved + tables
    part = replace(whole, rotary_dim=32)
    in_place = replace(part, inplace=True)
    assert rotary.make_row(part, "bf16", device, []).necessary_bytes == moved + tables / 4
    assert rotary.make_row(in_place, "bf16", device, []).necessary_bytes == (moved + tables) / 4


def test_a_wrong_output_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    right = tk.rotary

    def faulty(q: torch.Tensor, k: torch.Tensor, *others: Any, **options: Any) -> Any:
        out, k_out = right(q, k, *others, **options)
        assert k_out is not None
        k_out[..., -1, 3] = 0.5
        return out, k_out

    monkeypatch.setattr(tk, "rotary", faulty)
    settings = rotary.Settings(rotary_cases.host()[:1], seconds=0.001)
    result = rotary.run(settings, CPU).rows[0].results[0]
    assert result.status == WRONG
    assert result.timing is None


@pytest.mark.parametrize("name", ["eager", "compile"])
def test_rivals_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    operands = Operands(rotary_cases.host()[0], torch.bfloat16, CPU)
    call = rival_call(name, operands)
    assert call is not None
    for out, exact in zip(call(), rotary.reference(operands), strict=True):
        torch.testing.assert_close(out.float(), exact, rtol=2e-2, atol=2e-2)


def test_rivals_need_a_gpu() -> None:
    assert choose_rivals(None, CPU) == []
    with pytest.raises(ValueError, match="none is measured without a GPU"):
        choose_rivals("eager", CPU)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.json"
    assert main(["bench", "rotary", "--seconds", "0.001", "--json", str(path)]) == 0
    assert Record.load(path).suite == "rotary"
    capsys.readouterr()
    assert main(["bench", "rotary", "--suite", "none"]) == 2
    assert "is no suite; there are full, main" in capsys.readouterr().err


@pytest.mark.gpu
def test_a_gpu_is_measured_against_torch() -> None:
    device = torch.device("cuda", 0)
    rivals = choose_rivals("eager", device)
    cases = [*rotary_cases.host(), Case(2, 8, 2, 1024, 128)]
    settings = rotary.Settings(cases, seconds=0.002, rivals=tuple(rivals))
    record = rotary.run(settings, device)
    assert {r.status for row in record.rows for r in row.results} == {OK}
    assert record.rows[-1].ratio("tk", "eager") is not None
