"""Rivals: found without being imported, in the record and the reports, and right where they run."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sample_records import make_record, make_row

from tk import cli
from tk.benchmarks import gemm, gemm_rivals, rivals
from tk.benchmarks.gemm_rivals import choose_rivals
from tk.benchmarks.record import OK, Result, Timing
from tk.benchmarks.rivals import RIVALS, Found, find_rivals, for_family
from tk.benchmarks.shapes import Shape

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def installed(folder: Path, module: str, distribution: str, version: str) -> None:
    """A package that raises when it is imported."""
    (folder / module).mkdir()
    (folder / module / "__init__.py").write_text("raise RuntimeError('was imported')\n")
    metadata = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {distribution}\nVersion: {version}\n")


@pytest.mark.parametrize(
    "rival",
    [rival for rival in RIVALS if rival.modules and rival.name != "triton"],
    ids=lambda rival: rival.name,
)
def test_a_rival_is_found_without_being_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rival: rivals.Rival
) -> None:
    installed(tmp_path, rival.modules[0], rival.distributions[0], "9.8.7")
    monkeypatch.syspath_prepend(tmp_path)
    found = {each.rival.name: each.version for each in find_rivals()}
    assert found[rival.name] == "9.8.7"
    assert rival.modules[0] not in sys.modules


def test_a_rival_without_metadata_is_present_in_an_unknown_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flash_attn_interface.py").write_text("raise RuntimeError('was imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = {each.rival.name: each for each in find_rivals()}["flash-attention-3"]
    assert found.present and found.version == rivals.UNKNOWN_VERSION


def test_looking_for_rivals_imports_none_of_them() -> None:
    code = """
    import sys, tk.benchmarks.gemm, tk.benchmarks.rivals as rivals
    rivals.find_rivals()
    modules = [name for rival in rivals.RIVALS for name in rival.modules]
    print([name for name in modules if name in sys.modules])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_every_rival_of_the_issue_is_known() -> None:
    titles = {rival.title for rival in RIVALS}
    assert titles == {
        "cuBLAS",
        "cuDNN",
        "torch's flash attention",
        "FlashAttention-2",
        "FlashAttention-3",
        "Triton",
        "flash-linear-attention",
        "mamba-ssm",
        "Liger",
        "torch.compile",
        "torch eager",
    }
    assert all(rival.install for rival in RIVALS)
    assert set(for_family("gemm")) == {"torch", "triton", "compile"}


def test_a_record_says_which_rivals_were_there() -> None:
    record = gemm.run(gemm.Settings([Shape(16, 16, 16)], ["nn"], seconds=1e-3), CPU)
    assert record.environment.rivals == rivals.rival_versions()
    assert record.settings["rivals"] == ["torch"]


def with_installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    found = {rival.name: Found(rival, "1" if rival.name in names else None) for rival in RIVALS}
    gemm_ones = {name: each for name, each in found.items() if "gemm" in each.rival.families}
    monkeypatch.setattr(gemm_rivals, "for_family", lambda family: gemm_ones)


def test_rivals_are_chosen_by_name_and_by_what_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_installed(monkeypatch, "torch", "triton", "compile")
    assert choose_rivals(None, CUDA) == ["torch", "triton"]
    assert choose_rivals("all", CUDA) == ["torch", "triton", "compile"]
    assert choose_rivals("compile", CUDA) == ["torch", "compile"]
    assert choose_rivals("torch", CUDA) == ["torch"]
    assert choose_rivals(None, CPU) == ["torch"]
    with_installed(monkeypatch, "torch")
    assert choose_rivals(None, CUDA) == choose_rivals("all", CUDA) == ["torch"]
    with pytest.raises(ValueError, match=r"Triton is not installed: pip install triton"):
        choose_rivals("triton", CUDA)
    with pytest.raises(ValueError, match=r"'numba' is no rival .* torch, triton, compile"):
        choose_rivals("numba", CUDA)
    with pytest.raises(ValueError, match="only torch is measured"):
        choose_rivals("triton", CPU)


def test_a_rival_that_raises_anything_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(Exception):
        pass

    def run(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        raise Odd("compiles nothing here")

    monkeypatch.setitem(gemm_rivals._RUNS, "triton", lambda: run)
    settings = gemm.Settings([Shape(16, 16, 16)], ["nn"], seconds=1e-3, rivals=("torch", "triton"))
    record = gemm.run(settings, CPU)
    statuses = {r.candidate: (r.status, r.reason) for r in record.rows[0].results}
    assert statuses["triton"] == ("failed", "Odd: compiles nothing here")
    assert statuses["tk"][0] == statuses["torch"][0] == OK


def test_a_second_rival_has_its_column_and_mean(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    row = make_row(10e-6, 12e-6)
    triton = Result("triton", OK, Timing(20e-6, 20e-6, 20e-6, 9), error=1.6e-3)
    record = make_record([replace(row, results=[row.results[0], triton, row.results[1]])])
    environment = replace(record.environment, rivals={"Triton": "3.6.0", "Liger": None})
    replace(record, environment=environment).save(tmp_path / "record.json")
    assert cli.main(["report", "show", str(tmp_path / "record.json")]) == 0
    text = capsys.readouterr().out
    assert "x Triton" in text and "2.000" in text and "1.200" in text
    assert "geometric mean of the ratios to Triton: 2.000" in text
    assert "rivals: Triton 3.6.0, not installed: Liger" in text
    assert cli.main(["report", "export", str(tmp_path / "record.json"), "--to", "md"]) == 0
    assert "| x cuBLAS | x Triton |" in capsys.readouterr().out


def test_the_commands_list_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "rivals"]) == 0
    text = capsys.readouterr().out
    assert all(rival.title in text for rival in RIVALS)
    assert "pip install mamba-ssm" in text or "mamba-ssm " in text
    cli.main(["doctor"])
    assert "rivals to measure" in capsys.readouterr().out


def test_the_product_in_triton_is_right() -> None:
    """In Triton's interpreter, which is chosen when Triton is imported: in a process of its own."""
    pytest.importorskip("triton")
    code = """
    import itertools, torch
    from tk.benchmarks.operands import LAYOUTS, make_operands
    from tk.benchmarks.shapes import Shape
    from tk.benchmarks.triton_gemm import BAND, arguments, product_kernel
    sizes = [(64, 64, 64), (33, 17, 40), (1, 70, 129), (300, 40, 16)]
    for layout, (m, n, k) in itertools.product(LAYOUTS, sizes):
        a, b = make_operands(Shape(m, n, k), layout, "fp16", torch.device("cpu"))
        out = torch.full((m, n), float("nan"), dtype=a.dtype)
        grid = (-(-m // 16) * -(-n // 32),)
        product_kernel[grid](*arguments(a, b, out, (m, n, k)), 16, 32, 16, BAND)
        torch.testing.assert_close(out.double(), a.double() @ b.double(), rtol=2e-3, atol=2e-2)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.gpu
def test_every_rival_of_the_product_is_right_and_timed_on_a_gpu() -> None:
    names = choose_rivals(None, CUDA)
    settings = gemm.Settings(
        [Shape(512, 768, 1024), Shape(1000, 1000, 1000)],
        ["nt", "nn"],
        seconds=2e-3,
        rivals=tuple(names),
    )
    record = gemm.run(settings, CUDA)
    for row in record.rows:
        assert [r.candidate for r in row.results] == [*names, "tk"]
        assert all(r.status == OK and r.timing is not None for r in row.results), row.results
