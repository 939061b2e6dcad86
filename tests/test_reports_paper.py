"""The paper's experiments: the variants that are measured, and the table beside the paper's."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from sample_records import make_record, make_row

from tk import cli, runtime
from tk.benchmarks import paper, shared_layouts
from tk.benchmarks.operands import problem_of
from tk.benchmarks.record import OK, WRONG, Figure, Record, Result, Timing
from tk.benchmarks.shapes import Shape
from tk.reports.paper import cells_of, find, number_text, render, to_markdown
from tk.reports.paper_figures import EXPERIMENTS, Cell, Counted, Timed, Traffic
from tk.schedulers import Device, Plan, plan_gemm

CPU = torch.device("cpu")
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is visible")
CELLS = [cell for experiment in EXPERIMENTS for cell in experiment.cells]


def h200_plan(shape: Shape) -> Plan:
    problem = problem_of(shape, "nt", "bf16")
    return plan_gemm(problem, Device.named("h200"), runtime.instances("host"))


def cell(name: str) -> Cell:
    (found,) = (cell for cell in CELLS if cell.name == name)
    return found


# --- What is measured ---


@pytest.mark.parametrize("device", ["h200", "h100-sxm"])
def test_every_variant_of_every_experiment_can_run(device: str) -> None:
    for experiment in paper.EXPERIMENTS:
        for shape in experiment.shapes:
            problem = problem_of(shape, paper.LAYOUT, "bf16")
            chosen = plan_gemm(problem, Device.named(device), runtime.instances("host"))
            for plan in experiment.variants(chosen).values():
                plan.check()
                assert plan.problem == problem


def test_a_one_shot_grid_has_a_block_for_every_tile_and_a_persistent_one_has_fewer() -> None:
    for k in (64, 256, 1024):
        chosen = h200_plan(Shape(4096, 4096, k))
        plans = paper.grids(chosen)
        tile = chosen.instance.tile_m * chosen.instance.tile_n
        one_shot, persistent = plans[paper.ONE_SHOT], plans[paper.PERSISTENT]
        assert one_shot.grid == 4096 * 4096 // tile
        assert persistent.grid <= 132 < one_shot.grid
        assert one_shot.replace(grid=persistent.grid).choice == persistent.choice
        with pytest.raises(ValueError, match="grid is"):  # no block is without work
            one_shot.replace(grid=one_shot.grid + 2)


def test_depths_are_those_that_the_kernel_has() -> None:
    plans = paper.depths(h200_plan(Shape(4096, 4096, 4096)))
    assert list(plans) == ["2 stages", "3 stages", "4 stages"]
    assert [plan.num_stages for plan in plans.values()] == [2, 3, 4]


def test_the_report_asks_for_nothing_that_is_never_measured() -> None:
    measured = {
        Timed(experiment.name, (shape.m, shape.n, shape.k), candidate)
        for experiment in paper.EXPERIMENTS
        for shape in experiment.shapes
        for candidate in ("torch", *experiment.variants(h200_plan(shape)))
    }
    asked = {cell.ours for cell in CELLS if isinstance(cell.ours, Timed)}
    asked |= {cell.ours.of for cell in CELLS if isinstance(cell.ours, Traffic)}
    assert asked <= measured


@pytest.mark.parametrize(
    "experiment",
    [
        paper.Experiment(paper.DEPTH, (Shape(160, 128, 512),), paper.depths),
        paper.Experiment(paper.GRID, (Shape(300, 264, 64),), paper.grids),
        paper.Experiment(paper.ORDER, (Shape(300, 264, 64),), paper.orders),
    ],
    ids=lambda experiment: experiment.name,
)
def test_every_variant_is_right_on_the_host(experiment: paper.Experiment) -> None:
    record = paper.run(paper.Settings(seconds=1e-3), CPU, experiments=(experiment,))
    (row,) = record.rows
    assert record.suite == "paper" and row.group == experiment.name
    assert len(row.results) >= 3
    assert all(r.status == OK and r.timing is not None for r in row.results), row.results
    assert Record.from_dict(record.to_dict()) == record


def test_naive_rows_have_the_papers_conflicts_and_padding_and_swizzles_none() -> None:
    figures = {figure.name: figure for figure in shared_layouts.count_conflicts()}
    assert figures["naive row-major"].value == cell("naive row-major").paper == 8.0
    names = ("padded by 16 bytes", *(f"swizzle {n} bytes" for n in (32, 64, 128)))
    assert {figures[name].value for name in names} == {1.0}
    asked = {c.ours.name for c in CELLS if isinstance(c.ours, Counted)}
    assert asked == set(figures)


def test_without_a_compiler_conflicts_are_not_counted_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(RuntimeError, match="no-such-compiler was not found"):
        shared_layouts.count_conflicts()


# --- The report ---


def measured(group: str, size: tuple[int, int, int], **seconds: float) -> Record:
    m, n, k = size
    plan = {"prediction": {"bytes": {"a": 1e9, "b": 2e9, "out": 5e8, "l2": 9e12}}}
    results = [
        Result(name.replace("_", " "), OK, Timing(value, value, value, 9), plan=plan)
        for name, value in seconds.items()
    ]
    row = make_row(1.0, 1.0, m=m, n=n, k=k, group=group, results=results)
    row = replace(row, floating_point_operations=2.0 * m * n * k)
    return make_record([row], suite="paper")


def test_the_papers_figures_are_the_papers() -> None:
    known = {cell.name: cell.paper for cell in CELLS}
    assert known["1 stage"] == 260 and known["4 stages"] == 760
    assert known["2 stages"] is None and known["3 stages"] is None
    assert known["K=256, one-shot grid"] == 271 and known["K=256, persistent grid"] == 309
    assert known["K=256, cuBLAS"] == 242 and known["K=1024, one-shot grid"] == 600
    assert known["K=1024, persistent grid"] is None and known["K=1024, cuBLAS"] == 633
    assert known["{8, N, M/8}, from HBM"] == 982 and known["{N, M}, row"] == 392
    assert known["long convolution, 1024"] == 7.9


def test_with_no_record_every_cell_of_ours_is_empty_and_none_of_the_papers_is_lost() -> None:
    for experiment in EXPERIMENTS:
        for row, each in zip(cells_of(experiment, []), experiment.cells, strict=True):
            assert row[2] == row[4] == ""
            assert row[1] == number_text(each.paper)


def test_a_variant_is_shown_as_a_rate_and_its_traffic_as_the_models() -> None:
    record = measured("block order", (16384,) * 3, row=0.01)
    rate, traffic = find(cell("{N, M}, row"), [record]), find(cell("{N, M}, from HBM"), [record])
    assert rate is not None and rate.value == pytest.approx(2 * 16384**3 / 0.01 / 1e12)
    assert traffic is not None and traffic.value == pytest.approx(3.5e9 / 0.01 / 1e9)
    assert "model" in cell("{N, M}, from HBM").note
    assert find(cell("{8, N, M/8}, grouped_m(8)"), [record]) is None


def test_the_latest_record_that_has_a_figure_gives_it() -> None:
    size = (4096, 4096, 4096)
    old = measured("pipeline depth", size, **{"4_stages": 2e-4})
    new = measured("pipeline depth", size, **{"4_stages": 1e-4})
    new = replace(new, environment=replace(new.environment, timestamp="2026-02-01T00:00:00+00:00"))
    other = measured("pipeline depth", size, **{"2_stages": 3e-4})
    for records in ([old, new, other], [other, new, old]):
        found = find(cell("4 stages"), records)
        assert found is not None and records[found.record - 1] is new
        assert find(cell("2 stages"), records) is not None


def test_times_of_the_host_and_wrong_results_are_never_figures() -> None:
    record = measured("pipeline depth", (4096, 4096, 4096), **{"4_stages": 2e-4})
    host = replace(record, environment=replace(record.environment, architecture="host"))
    assert find(cell("4 stages"), [host]) is None
    wrong = Result("4 stages", WRONG, reason="half of it")
    record = replace(record, rows=[replace(record.rows[0], results=[wrong])])
    assert find(cell("4 stages"), [record]) is None
    rows = cells_of(EXPERIMENTS[0], [record])
    assert rows[3][2] == "" and rows[3][5] == "[1] wrong: half of it"
    other_suite = replace(
        measured("pipeline depth", (4096,) * 3, **{"4_stages": 2e-4}), suite="gemm"
    )
    assert find(cell("4 stages"), [other_suite]) is None


def test_the_product_is_the_geometric_mean_of_its_suite() -> None:
    rows = [make_row(1e-5, 2e-5), make_row(2e-5, 1e-5), make_row(1e-5, 4e-5, k=128)]
    found = find(cell("product"), [make_record(rows)])
    assert found is not None and found.value == pytest.approx(math.pow(4.0, 1 / 3))
    assert "over 3 rows" in found.note
    assert find(cell("product"), [make_record(rows, suite="paper")]) is None


def test_a_counted_figure_is_found_on_any_machine() -> None:
    record = make_record(
        [], suite="paper", figures=[Figure("shared layouts", "naive row-major", 8.0, "x")]
    )
    host = replace(record, environment=replace(record.environment, architecture="host"))
    found = find(cell("naive row-major"), [host])
    assert found is not None and found.value == 8.0


@pytest.mark.parametrize("width", [60, 100, 160])
def test_the_report_fits_the_console(width: int) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None)
    console.print(render([measured("pipeline depth", (4096,) * 3, **{"4_stages": 2e-4})], console))
    lines = stream.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    assert "687" in stream.getvalue()


def test_markdown_names_the_records() -> None:
    record = measured("pipeline depth", (4096,) * 3, **{"4_stages": 2e-4})
    text = to_markdown([record], ["mine.json"])
    assert "[1] mine.json: NVIDIA H200" in text
    assert "| 4 stages | 760 | 687 | TFLOP/s | [1] |  |" in text
    assert "| 3 stages |  |  | TFLOP/s |  |  |" in text


# --- The command line ---


@no_gpu
def test_without_a_gpu_conflicts_are_counted_and_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "paper.json"
    assert cli.main(["bench", "paper", "--json", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0].startswith("no GPU is visible: nothing is timed")
    record = Record.load(path)
    assert record.rows == [] and len(record.figures) == 5
    assert cli.main(["report", "show", str(path)]) == 0
    assert capsys.readouterr().out.strip() in text
    assert cli.main(["report", "paper", str(path)]) == 0
    assert "naive row-major     8         8" in capsys.readouterr().out
    assert cli.main(["report", "paper", str(path), "--to", "md"]) == 0
    assert "| naive row-major | 8 | 8 |" in capsys.readouterr().out
    for kind in ("csv", "md", "html"):
        assert cli.main(["report", "export", str(path), "--to", kind]) == 0
        assert "naive row-major" in capsys.readouterr().out
    assert cli.main(["bench", "paper", "--device", "cuda"]) == 2
    assert cli.main(["bench", "paper", "--device", "h200"]) == 2


def test_a_report_of_what_is_no_record_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", "paper", str(tmp_path / "none.json")]) == 1
    assert "No such file" in capsys.readouterr().err
    assert cli.main(["report", "paper"]) == 2


@pytest.mark.gpu
def test_the_papers_experiments_are_right_on_a_gpu() -> None:
    settings = paper.Settings(seconds=2e-3)
    record = paper.run(settings, torch.device("cuda"), experiments=paper.EXPERIMENTS[:2])
    assert len(record.rows) == 6
    for row in record.rows:
        assert all(r.status == OK and r.timing is not None for r in row.results), row.results
    assert find(cell("4 stages"), [record]) is not None
    assert find(cell("K=64, one-shot grid"), [record]) is not None
