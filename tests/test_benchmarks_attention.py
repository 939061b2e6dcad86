"""The attention suite: its reference, its record, its predictions and its tables."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

import tk
from tk import runtime
from tk.benchmarks import attention, attention_cases
from tk.benchmarks.attention_cases import Case
from tk.benchmarks.attention_rivals import Operands, choose_rivals
from tk.benchmarks.record import OK, PREDICTED, WRONG, Record
from tk.cli import main
from tk.reports.show import render
from tk.schedulers import Device

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def record() -> Record:
    """The host's cases, quickly."""
    settings = attention.Settings(attention_cases.host(), seconds=0.001)
    return attention.run(settings, CPU)


def test_every_case_of_the_host_is_right(record: Record) -> None:
    assert [row.results[-1].status for row in record.rows] == [OK] * len(record.rows)
    assert all(row.results[-1].timing is not None for row in record.rows)


def test_a_record_is_read_as_it_was_saved_and_resumed(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    replace(record, rows=record.rows[:3]).save(path)
    settings = attention.Settings(attention_cases.host(), seconds=0.001)
    whole = attention.run(settings, CPU, kept=Record.load(path))
    assert whole.rows[:3] == record.rows[:3]
    assert len(whole.rows) == len(record.rows)


def test_its_tables_name_every_case(record: Record) -> None:
    settings = attention.Settings(attention_cases.forward())
    device = Device.named("h200")
    rows = attention.predict(settings, device, runtime.instances("host", "attention"))
    assert {row.results[0].status for row in rows} == {PREDICTED}
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(render(replace(record, rows=record.rows + rows, predicted_for="h200"), console))
    text = console.export_text()
    for words in ("packed causal", "32x16384x16384x64", "Predicted for h200", "decode"):
        assert words in text


@pytest.mark.parametrize("case", attention_cases.host(), ids=str)
def test_the_reference_by_blocks_is_the_whole_one(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "BLOCK", 3000)
    operands = Operands(case, torch.bfloat16, CPU)
    whole = tk.reference.attention(*operands.qkv, **operands.options)
    assert isinstance(whole, torch.Tensor)
    torch.testing.assert_close(attention.reference(operands).double(), whole, rtol=1e-6, atol=1e-7)


def test_a_wrong_output_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*tensors: torch.Tensor, out: torch.Tensor, **_: object) -> torch.Tensor:
        out[..., :-1, :] = 0.0
        return out

    monkeypatch.setattr(tk, "attention", faulty)
    settings = attention.Settings(attention_cases.host()[:1], seconds=0.001)
    result = attention.run(settings, CPU).rows[0].results[-1]
    assert result.status == WRONG
    assert "NaN: left unwritten" in result.reason
    assert result.timing is None


def test_other_plans_are_measured_beside_the_chosen_one() -> None:
    settings = attention.Settings(attention_cases.host()[1:2], seconds=0.001, plans=4)
    record = attention.run(settings, CPU)
    results = record.rows[0].results
    assert [r.candidate for r in results] == ["plan 1", "plan 2", "plan 3", "plan 4", "tk"]
    assert {r.status for r in results} == {OK}
    assert len({str(r.plan) for r in results}) == 5
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(render(record, console))
    assert "the scheduler's plan over the fastest measured one" in console.export_text()


def test_packed_cases_have_the_same_work() -> None:
    drawn, equal = attention_cases.packed()
    device = Device.named("h200")
    rows = [
        attention.make_row(case, attention.problem_of(case, "bf16"), device, [])
        for case in (drawn, equal)
    ]
    ratio = rows[0].floating_point_operations / rows[1].floating_point_operations
    assert ratio == pytest.approx(1.0, rel=2e-3)
    assert min(drawn.lengths) >= 64
    assert max(drawn.lengths) <= 8192


def test_rivals_need_a_gpu() -> None:
    assert choose_rivals(None, CPU) == []
    with pytest.raises(ValueError, match="none is measured without a GPU"):
        choose_rivals("cudnn", CPU)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, record = tmp_path / "plan.json", tmp_path / "record.json"
    sizes = ["4096", "4096", "128", "--batch", "8", "--heads", "16", "--causal"]
    assert main(["plan", "attention", *sizes, "--device", "h200", "--json", str(plan)]) == 0
    assert "longest first" in capsys.readouterr().out
    assert tk.schedulers.Plan.load(plan).problem.window_right == 0
    suite = ["--suite", "decode", "--device", "h200", "--seconds", "0.001"]
    assert main(["bench", "attention", *suite, "--json", str(record)]) == 0
    assert Record.load(record).predicted_for == "h200"
    capsys.readouterr()
    assert main(["bench", "attention", "--suite", "none"]) == 2
    assert "is no suite; there are full, forward" in capsys.readouterr().err
    assert main(["plan", "attention", "100", "100", "264", "--device", "h200"]) == 2
    assert "head_dim is" in capsys.readouterr().err


@pytest.mark.gpu
def test_a_gpu_is_measured_against_cudnn() -> None:
    device = torch.device("cuda", 0)
    rivals = choose_rivals(None, device)
    assert "cudnn" in rivals
    cases = [*attention_cases.host(), Case("causal", 2, 4, 4, 1024, 1024, 128, True)]
    settings = attention.Settings(cases, seconds=0.002, rivals=tuple(rivals))
    record = attention.run(settings, device)
    assert [row.results[-1].status for row in record.rows] == [OK] * len(cases)
    assert record.rows[-1].ratio("tk", "cudnn") is not None
