"""The matrix-product suite: its shapes, its check of outputs, and candidates that are wrong."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import tk
from tk import runtime
from tk.benchmarks import gemm, shapes
from tk.benchmarks.check import Errors, errors_of, fault, reference_product
from tk.benchmarks.operands import LAYOUTS, make_operands, parse_layouts, problem_of
from tk.benchmarks.record import FAILED, OK, PREDICTED, WRONG, Record
from tk.benchmarks.selection import (
    TORCH,
    Candidate,
    Timer,
    compare,
    fastest,
    plan_candidate,
    select_plan,
)
from tk.benchmarks.shapes import Shape
from tk.schedulers import Device, Order, Plan

CPU = torch.device("cpu")
DEVICES = [pytest.param("cpu"), pytest.param("cuda", marks=pytest.mark.gpu)]
QUICK = Timer(seconds=1e-3, min_repetitions=2)
TILES = Shape(256, 512, 64)  # several tiles of every instance


def test_the_suite_holds_the_shapes_of_the_issue_and_forty_make_the_mean() -> None:
    sizes = {(shape.m, shape.n, shape.k) for shape in shapes.suite()}
    assert len(sizes) == len(shapes.suite()) == 42
    assert sum(shape.in_mean for shape in shapes.suite()) == 40
    for n, k in ((4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (128256, 4096)):
        assert {(m, n, k) for m in (1, 16, 128, 512, 2048, 8192)} <= sizes
    assert {(size, size, size) for size in (4096, 8192, 16384)} <= sizes
    assert {(4096, 4096, k) for k in (64, 128, 256, 512, 1024)} <= sizes
    assert {(1000,) * 3, (4104, 4088, 4072), (3000, 5000, 7000), (8192, 28672, 8192)} <= sizes
    assert 8 <= len(shapes.quick()) <= 14
    assert set(shapes.quick()) <= set(shapes.suite())


def test_shapes_are_read_from_text() -> None:
    assert [str(s) for s in shapes.parse("1x2x3, 4096")] == ["1x2x3", "4096x4096x4096"]
    assert shapes.parse("4096x4096x128")[0].in_mean is False
    for text in ("", "1x2", "axbxc", "0x1x1", "1x-2x3", "1x2x3x4"):
        with pytest.raises(ValueError):
            shapes.parse(text)
    with pytest.raises(ValueError, match="nt, nn, tn, tt"):
        parse_layouts("nt,xx")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(16, 24, 32), (5, 7, 9)])
def test_operands_are_what_their_problem_says(layout: str, size: tuple[int, int, int]) -> None:
    shape = Shape(*size)
    a, b = make_operands(shape, layout, "bf16", CPU)
    assert a.shape == (shape.m, shape.k) and b.shape == (shape.k, shape.n)
    problem = problem_of(shape, layout, "bf16")
    assert problem.a_major == ("k" if a.stride(1) == 1 else "m")
    assert problem.b_major == ("n" if b.stride(1) == 1 else "k")
    planned = tk.plan_matmul(a, b).problem
    assert planned.loader == problem.loader
    if problem.loader == "tma":
        assert planned == problem


def test_errors_see_one_wrong_element_and_an_unwritten_one() -> None:
    a, b = make_operands(Shape(64, 48, 32), "nn", "bf16", CPU)
    reference = reference_product(a, b)
    right = (a.double() @ b.double()).bfloat16()
    yardstick = errors_of(right, reference)
    assert 0 < yardstick.frobenius < 2.0**-8
    assert fault(yardstick, yardstick, right) == ""
    wrong = right.clone()
    wrong[3, 5] += 1.0
    assert "largest error" in fault(errors_of(wrong, reference), yardstick, wrong) or (
        "relative error" in fault(errors_of(wrong, reference), yardstick, wrong)
    )
    missing = right.clone()
    missing[-1, -1] = math.nan
    assert "1 of 3072 elements are NaN" in fault(errors_of(missing, reference), yardstick, missing)
    assert errors_of(right.t(), reference) == Errors(math.inf, math.inf)


def test_the_reference_is_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = make_operands(Shape(37, 41, 29), "nt", "fp16", CPU)
    whole = reference_product(a, b)
    monkeypatch.setattr("tk.benchmarks.check.BLOCK", 16)
    torch.testing.assert_close(reference_product(a, b), whole, rtol=1e-6, atol=1e-6)


def leave_the_last_tile(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """A kernel that leaves the last 64 x 64 of its output unwritten."""
    product = torch.matmul(a, b)
    out[:-64].copy_(product[:-64])
    out[-64:, :-64].copy_(product[-64:, :-64])


def with_the_faulty_one(a: torch.Tensor, b: torch.Tensor) -> list[Candidate]:
    """The right candidates first: they leave the right values in the memory that follows."""
    return [*gemm.candidates_with(["torch"])(a, b), Candidate("faulty", leave_the_last_tile)]


@pytest.mark.parametrize("device", DEVICES)
def test_the_bench_rejects_a_candidate_that_skips_a_tile_and_only_that(device: str) -> None:
    settings = gemm.Settings([TILES], ["nt", "nn"], seconds=1e-3)
    record = gemm.run(settings, torch.device(device), candidates=with_the_faulty_one)
    for row in record.rows:
        assert [result.status for result in row.results] == [OK, OK, WRONG]
        faulty = row.results[-1]
        assert faulty.timing is None
        assert "4096 of 131072 elements are NaN" in faulty.reason
        assert row.ratio("faulty", "torch") is None
    assert record.wrong_rows("faulty") == record.rows
    assert record.wrong_rows("tk") == []
    clean = gemm.run(settings, torch.device(device))
    assert {result.status for row in clean.rows for result in row.results} == {OK}


class SkipsTheLastTile(Order):
    """A table that names its first tile twice and its last never: a kernel that skips a tile.

    Its parameter keeps it apart from Hilbert's own table wherever tables are remembered.
    """

    def __post_init__(self) -> None:
        assert (self.kind, self.param) == ("hilbert", -1)

    def table(self, rows: int, cols: int) -> list[int] | None:
        entries = super().table(rows, cols)
        return None if entries is None else [*entries[:-1], entries[0]]


@pytest.mark.parametrize("device", DEVICES)
def test_measured_selection_rejects_a_plan_that_skips_a_tile_and_only_that(device: str) -> None:
    a, b = make_operands(TILES, "nt", "bf16", torch.device(device))
    right = tk.plan_matmul(a, b).replace(order=Order("row"))
    faulty = right.replace(order=SkipsTheLastTile("hilbert", -1))
    candidates = [plan_candidate(right, "right"), plan_candidate(faulty, "faulty")]
    good, bad = compare(a, b, candidates, QUICK)
    assert good.status == OK and good.timing is not None
    assert bad.status == WRONG and bad.timing is None and "NaN" in bad.reason
    assert select_plan(a, b, [right, faulty], QUICK) is right
    with pytest.raises(RuntimeError, match="no plan computed this product rightly"):
        select_plan(a, b, [faulty], QUICK)
    other = right.replace(order=Order("column"))
    assert all(r.status == OK for r in compare(a, b, [*map(plan_candidate, (right, other))], QUICK))


def test_a_kernel_that_is_right_only_once_is_rejected() -> None:
    a, b = make_operands(Shape(64, 64, 64), "nn", "bf16", CPU)
    calls = []

    def right_once(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        calls.append(1)
        torch.matmul(a, b, out=out)
        if len(calls) > 1:
            out[0] *= 2

    (result,) = compare(a, b, [Candidate("stateful", right_once)], QUICK)
    assert result.status == WRONG and "right at first, wrong later" in result.reason


def test_a_candidate_that_raises_is_shown_as_failed() -> None:
    def refuse(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        raise ValueError("not today")

    a, b = make_operands(Shape(16, 16, 16), "nn", "bf16", CPU)
    torch_result, refused = compare(a, b, [TORCH, Candidate("refuses", refuse)], QUICK)
    assert torch_result.status == OK
    assert refused.status == FAILED and refused.reason == "ValueError: not today"
    assert fastest([refused]) is None
    assert fastest([refused, torch_result]) is torch_result


def test_the_suite_on_the_host_gives_a_whole_record() -> None:
    settings = gemm.Settings([Shape(100, 200, 72)], ["nt", "nn"], seconds=1e-3)
    steps: list[tuple[int, int, str]] = []
    record = gemm.run(settings, CPU, progress=lambda *step: steps.append(step))
    assert record.environment.architecture == "host"
    assert [row.layout for row in record.rows] == ["nt", "nn"]
    for row in record.rows:
        ours = row.result("tk")
        assert ours is not None and ours.status == OK and ours.timing is not None
        assert ours.plan is not None and Plan.from_dict(ours.plan).problem.m == 100
        assert row.floating_point_operations == 2 * 100 * 200 * 72
    assert steps[-1] == (2, 2, "")
    assert Record.from_dict(record.to_dict()) == record


def test_no_shape_is_begun_when_the_budget_is_spent() -> None:
    settings = gemm.Settings([Shape(16, 16, 16)] * 3, ["nt"], seconds=1e-3)
    assert gemm.run(replace(settings, budget_seconds=1e-9), CPU).rows == []


def test_every_shape_of_the_suite_is_planned_without_a_gpu() -> None:
    device = Device.named("h200")
    settings = gemm.Settings(shapes.suite(), ["nt"])
    rows = gemm.predict(settings, device, runtime.instances("host"))
    assert len(rows) == 42
    for row in rows:
        (result,) = row.results
        assert result.status == PREDICTED and result.timing is not None
        assert row.roof_seconds is not None and row.roof_seconds <= result.timing.median
