"""Plans: legal and sensible on every device, explained, changed by hand, and as plain values."""

from __future__ import annotations

import ast
import json
import sys
from dataclasses import replace
from io import StringIO
from math import inf
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instance_table import matmul_instances
from rich.console import Console

from tk.schedulers import Device, GemmProblem, Order, Plan, plan_gemm
from tk.schedulers.choose import family_named
from tk.schedulers.gemm import GemmProspects
from tk.schedulers.pipeline import stages_that_fit

INSTANCES = matmul_instances()
H200 = Device.named("h200")
WEIGHTS = ((4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (128256, 4096))
SHAPES = [
    *((size,) * 3 for size in (1, 1000, 4096, 8192, 16384)),
    *((4096, 4096, k) for k in (1, 64, 128, 256, 512, 1024)),
    *((m, n, k) for n, k in WEIGHTS for m in (1, 16, 128, 512, 2048, 8192)),
    (4104, 4088, 4072),
    (3000, 5000, 7000),
    (8192, 28672, 8192),
    (128, 128, 16384),
    (7, 5, 0),
]


def plan(m: int, n: int, k: int, device: Device = H200, **changes: object) -> Plan:
    return plan_gemm(GemmProblem(m, n, k, **changes), device, INSTANCES)  # type: ignore[arg-type]


def rendered(one: Plan, **options: bool) -> str:
    console = Console(width=250, file=StringIO())
    console.print(one.explain(**options))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("device", Device.names())
def test_every_plan_is_legal_and_fits(device: str) -> None:
    target = Device.named(device)
    for shape in SHAPES:
        one = plan(*shape, device=target).check()
        size = one.cluster[0] * one.cluster[1]
        memory = one.num_stages * one.instance.bytes_per_stage + one.instance.fixed_bytes
        assert memory <= target.shared_memory_per_block
        assert one.num_stages <= stages_that_fit(one.instance, target)
        assert one.grid % size == 0
        assert one.grid <= target.num_sms
        assert 1 <= one.splits <= max(-(-shape[2] // one.instance.tile_k), 1)
        assert one.prediction.seconds > 0
        for candidate in one.alternatives:
            assert candidate.prediction.seconds >= one.prediction.seconds * 0.99
            family = family_named(one.problem.family)
            assert family.illegal(one.problem, target, candidate.choice) is None


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 20000),
    st.integers(1, 20000),
    st.integers(0, 20000),
    st.integers(1, 5),
    st.sampled_from(("bf16", "fp16")),
    st.sampled_from(("k", "m")),
    st.sampled_from(("k", "n")),
    st.sampled_from(("tma", "gather")),
    st.sampled_from(("bf16", "fp16", "fp32")),
    st.sampled_from(("vectors", "elements")),
    st.sampled_from(Device.names()),
)
def test_any_problem_has_a_legal_plan(
    m: int,
    n: int,
    k: int,
    batch: int,
    dtype: str,
    a_major: str,
    b_major: str,
    loader: str,
    out_dtype: str,
    store: str,
    device: str,
) -> None:
    problem = GemmProblem(m, n, k, batch, dtype, a_major, b_major, loader, out_dtype, store)
    one = plan_gemm(problem, Device.named(device), INSTANCES).check()
    assert one.instance.dtype == dtype
    assert one.instance.loader == loader
    if loader == "tma":
        seen = problem.exchanged() if one.swapped else problem
        assert (one.instance.a_major, one.instance.b_major) == (seen.a_major, seen.b_major)
    again = Plan.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again == one


def test_large_products_take_large_tiles_and_clusters() -> None:
    for shape in ((4096,) * 3, (8192,) * 3, (16384,) * 3, (8192, 28672, 8192)):
        one = plan(*shape)
        assert one.instance.tile_m * one.instance.tile_n >= 128 * 192
        assert one.cluster != (1, 1)
        assert one.splits == 1
        assert one.order.kind.startswith("grouped")


@pytest.mark.parametrize("b_major", ["k", "n"])
@pytest.mark.parametrize(("n", "k"), WEIGHTS)
def test_few_rows_are_the_columns_of_the_exchanged_problem(n: int, k: int, b_major: str) -> None:
    for m in (1, 16):
        one = plan(m, n, k, b_major=b_major)
        assert one.swapped
        assert one.instance.tile_m <= 128 and one.instance.tile_n == 16
        assert one.prediction.bound_by == "HBM"
        # What is read is the weights, which are b.
        assert one.prediction.bytes["b"] == pytest.approx(n * k * 2, rel=0.02)
        assert one.prediction.bytes["a"] < 0.1 * one.prediction.bytes["b"]


def test_few_rows_spread_the_weights_over_the_device() -> None:
    for m in (1, 16, 128):
        for n, k in WEIGHTS:
            # Measured: 64 blocks with deep rings pull as much as the memory gives.
            assert plan(m, n, k).grid >= 64


def test_splits_that_all_run_at_once_are_a_cluster() -> None:
    # Measured, against a sum in memory: 1 to 3 us of some 20.
    for m, n, k in ((16, 4096, 4096), (256, 4096, 4096), (128, 6144, 4096), (16, 4096, 14336)):
        one = plan(m, n, k)
        assert one.splits_in_cluster and one.splits in (2, 3)
        at_once = H200.clusters_at_once(one.splits) * one.splits
        assert one.grid <= at_once and one.prediction.waves == 1
    # 33 tiles: 33 clusters of four blocks do not run at once, on groups of 16 and 18.
    groups = GemmProspects(GemmProblem(64, 33 * 128, 4096), H200, INSTANCES)
    for index in groups.within(inf):
        group = groups.group(index)
        if group.splits_in_cluster and group.tiles.cluster_tiles == 33:
            assert group.splits <= 3


def test_many_rows_are_not_exchanged() -> None:
    for shape in ((512, 4096, 4096), (4096, 16, 4096), (8192, 8192, 8192)):
        assert not plan(*shape).swapped


def test_a_split_must_pay() -> None:
    assert plan(128, 128, 256).splits == 1  # one tile, little to share
    assert plan(128, 128, 65536).splits > 4  # one tile, a long sum


def test_an_explanation_names_runners_up_and_reasons() -> None:
    text = rendered(plan(4096, 4096, 4096))
    assert "gemm 4096 x 4096 x 4096" in text
    assert "why not" in text and "%" in text and "bytes from" in text
    assert "pipeline: 4 stages" in text
    assert "dropped" in text
    detailed = rendered(plan(4096, 4096, 4096), rejected=True)
    assert "its operands are fp16" in detailed


@pytest.mark.parametrize("shape", SHAPES)
def test_every_explanation_renders(shape: tuple[int, int, int]) -> None:
    one = plan(*shape)
    assert str(one.instance.tile) in rendered(one, rejected=True)
    assert "\n" not in str(one)


def test_a_saved_plan_from_before_the_exchange_is_not_exchanged() -> None:
    one = plan(4096, 4096, 4096)
    record = json.loads(json.dumps(one.to_dict()))
    del record["choice"]["swapped"]
    assert Plan.from_dict(record) == one


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(SHAPES), st.sampled_from(Device.names()))
def test_a_saved_plan_is_the_same_when_read(shape: tuple[int, int, int], device: str) -> None:
    one = plan(*shape, device=Device.named(device))
    again = Plan.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again == one
    assert again.to_dict() == one.to_dict()
    assert hash(again) == hash(one)
    assert rendered(again) == rendered(one)


def test_a_plan_changed_by_hand_is_predicted_anew() -> None:
    one = plan(8192, 8192, 8192)
    other = one.replace(order=Order("row"))
    assert other.order == Order("row")
    assert other.prediction.seconds > one.prediction.seconds
    assert other.alternatives[0].choice == one.choice
    assert "faster by the model" in rendered(other)
    small = next(i for i in INSTANCES if i.name == "bf16_kk_tma_128x128x64")
    assert one.replace(instance=small).num_stages == 6
    assert one.replace(cluster=(1, 1)).grid == 132
    assert plan(128, 128, 16384).replace(splits=3, cluster=(1, 1)).splits == 3


def test_an_exchange_made_by_hand_counts_the_other_tiles() -> None:
    tall = plan(64, 4096, 4096).replace(
        instance=next(i for i in INSTANCES if i.name == "bf16_kk_tma_128x64x128"),
        swapped=False,
        splits=1,
        splits_in_cluster=False,
        cluster=(1, 1),
        order=Order("row"),
    )
    wide = tall.replace(swapped=True)
    assert (tall.grid, wide.grid) == (64, 32)  # 1 x 64 tiles of 128 x 64, or 32 x 1
    assert wide.replace(swapped=False) == tall
    assert "swapped" in str(wide) and "swapped" in rendered(wide)
    assert "swapped" not in str(tall)
    # The kernel no longer multiplies with 64 rows that are not there.
    assert wide.prediction.busy["padding"] == 0 < tall.prediction.busy["padding"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"splits": 0}, "splits is 0"),
        ({"splits": 1000}, "K has 64 tiles, so 1 to 64"),
        ({"num_stages": 9}, r"num_stages is 9; .* takes 2 to 4"),
        ({"num_stages": 1}, "num_stages is 1"),
        ({"num_stages": 0}, "num_stages is 0"),
        ({"cluster": (3, 3)}, "a cluster has 1 to 8 blocks"),
        ({"cluster": (0, 1)}, "needs two numbers >= 1"),
        ({"grid": 131}, "multiple of the cluster's 2 blocks"),
        ({"grid": 10**6}, "grid is 1000000"),
        ({"speed": 11}, "has no speed to replace"),
        ({"instance": next(i for i in INSTANCES if i.dtype == "fp16")}, "its operands are fp16"),
        (
            {"instance": next(i for i in INSTANCES if i.b_major == "n")},
            "it loads b with n contiguous, the problem has k",
        ),
    ],
)
def test_an_illegal_change_is_refused_by_name(changes: dict[str, object], message: str) -> None:
    one = plan(4096, 4096, 4096).replace(
        instance=next(i for i in INSTANCES if i.name == "bf16_kk_tma_128x256x64"), cluster=(2, 1)
    )
    with pytest.raises(ValueError, match=message):
        one.replace(**changes)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ({"m": -1}, "m is -1; needs an int >= 0"),
        ({"m": 1.5}, "m is 1.5; needs an int >= 0"),
        ({"dtype": "fp64"}, "dtype is 'fp64'; needs one of bf16, fp16"),
        ({"a_major": "n"}, "a_major is 'n'; needs one of k, m"),
        ({"loader": "cp.async"}, "needs one of tma, gather"),
        ({"store": "tma"}, "store is 'tma'; needs one of vectors, elements"),
        ({"n": 0}, "n is 0: the product is empty"),
        ({"n": 1 << 40}, "n is 1099511627776; at most"),
    ],
)
def test_a_wrong_problem_is_refused_by_name(problem: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(**{"m": 8, "n": 8, "k": 8, **problem})  # type: ignore[arg-type]


def test_an_exchange_needs_the_exchanged_majors() -> None:
    one = plan(4096, 4096, 4096, b_major="n")
    with pytest.raises(ValueError, match=r"\(swapped\): it loads a with k contiguous, .* has m"):
        one.replace(swapped=True)


def test_no_fitting_instance_says_why() -> None:
    with pytest.raises(ValueError, match="instance table is empty"):
        plan_gemm(GemmProblem(8, 8, 8), H200, [])
    only_fp16 = [i for i in INSTANCES if i.dtype == "fp16"]
    with pytest.raises(ValueError, match=r"no instance for gemm 8 x 8 x 8 .* operands are fp16"):
        plan_gemm(GemmProblem(8, 8, 8), H200, only_fp16)
    tiny = replace(H200, shared_memory_per_block=16384)
    with pytest.raises(ValueError, match="exceed 16384 bytes of shared memory"):
        plan_gemm(GemmProblem(8, 8, 8), tiny, INSTANCES)
    by_tma = [i for i in INSTANCES if i.loader == "tma"]
    with pytest.raises(ValueError, match="TMA cannot load these operands"):
        plan_gemm(GemmProblem(8, 8, 8, loader="gather"), H200, by_tma)


def test_a_gather_instance_stands_in_where_no_tma_one_fits() -> None:
    gather = [i for i in INSTANCES if i.loader == "gather"]
    assert plan_gemm(GemmProblem(64, 64, 64, a_major="m"), H200, gather).instance in gather


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda r: r.update(version=99), "version 99"),
        (lambda r: r.update(family="poetry"), "unknown kernel family 'poetry'"),
        (lambda r: r.pop("choice"), "lacks 'choice'"),
        (lambda r: r["choice"].pop("grid"), "lacks 'grid'"),
        (lambda r: r["choice"].update(splits=10**6), "splits is 1000000"),
        (lambda r: r["problem"].update(colour="red"), "unknown fields: colour"),
        (lambda r: r.update(alternatives=3), "malformed"),
        (lambda r: r["prediction"].update(seconds="long"), "malformed: 'long' is no number"),
        (lambda r: r["prediction"].update(parts=[1]), "malformed"),
        (lambda r: r.update(measured=[]), "malformed"),
    ],
)
def test_a_damaged_record_is_refused_by_name(damage: object, message: str) -> None:
    record = json.loads(json.dumps(plan(4096, 4096, 4096).to_dict()))
    damage(record)  # type: ignore[operator]
    with pytest.raises(ValueError, match=message):
        Plan.from_dict(record)


def test_planning_is_quick() -> None:
    """0.6 ms in the middle, 7 ms at most; for a device of which nothing is remembered."""
    times = []
    for shape in SHAPES:
        unknown = replace(H200, name="unknown")
        start = process_time()  # not of what else the machine does
        plan(*shape, device=unknown)
        times.append(process_time() - start)
    assert sorted(times)[len(times) // 2] < 0.005


def test_planning_imports_no_torch_and_needs_no_binding() -> None:
    import tk.schedulers

    allowed = "rich", "numpy"
    for path in Path(tk.schedulers.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                ours = name.startswith("tk.schedulers.")
                if path.name == "l2.py" and name == "tk._binding":
                    continue  # where it is there; test_schedulers_l2.py does without
                assert ours or name.split(".")[0] in (*sys.stdlib_module_names, *allowed), path
