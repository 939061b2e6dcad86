"""Plans that a caller brings to tk.matmul: every split, order, cluster and instance gives the right
values, the same bits each time, and no element is left out; a plan of something else is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from matmul_inputs import assert_no_worse_than_torch, random

import tk
from tk import runtime
from tk.schedulers import Device, GemmProblem, Instance, Order, Plan, plan_gemm
from tk.schedulers.walk import cluster_grid

NAN = float("nan")
ORDERS = (
    Order("row"),
    Order("column"),
    Order("grouped_m", 2),
    Order("grouped_m", 8),
    Order("grouped_n", 3),
    Order("snake"),
    Order("hilbert"),
    Order("morton"),
)


def instances_for(a: torch.Tensor, b: torch.Tensor) -> list[Instance]:
    """Instances that can load a and b."""
    problem = tk.plan_matmul(a, b).problem
    majors = (problem.a_major, problem.b_major)
    return [
        instance
        for instance in tk.runtime.backend(a.device).instances
        if instance.dtype == problem.dtype
        and (instance.loader == "gather" or (instance.a_major, instance.b_major) == majors)
    ]


def legal(plan: Plan, **changes: object) -> Plan | None:
    """The plan with these changes, None when it cannot run."""
    try:
        return plan.replace(**changes)
    except ValueError:
        return None


def splits_of(plan: Plan, most: int) -> Iterator[Plan]:
    """Split products that meet in memory, and those that meet in a cluster."""
    for splits in range(1, most + 1):
        for together in (False, True):
            changed = legal(plan, splits=splits, cluster=(1, 1), splits_in_cluster=together)
            if changed is not None:
                yield changed


def into_nan(a: torch.Tensor, b: torch.Tensor, plan: Plan, **options: object) -> torch.Tensor:
    out = torch.full((*a.shape[:-1], b.shape[-1]), NAN, device=a.device).to(a.dtype)
    tk.matmul(a, b, plan=plan, out=out, **options)  # type: ignore[arg-type]
    assert not out.isnan().any()
    return out


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("tiles", [(1, 1), (2, 2), (1, 7), (7, 1), (5, 3)], ids=str)
def test_every_order_fills_every_tile(device: str, order: Order, tiles: tuple[int, int]) -> None:
    """The grids of tiles of one instance; the last row and column of tiles are cut."""
    a, b = random((64, 8), device=device), random((8, 64), "transposed", device=device)
    small = min(instances_for(a, b), key=lambda i: (i.tile_m * i.tile_n, i.tile_k))
    m, n = tiles[0] * small.tile_m - 3, tiles[1] * small.tile_n - 5
    a, b = random((m, 16), device=device), random((16, n), "transposed", device=device)
    plan = tk.plan_matmul(a, b).replace(instance=small, cluster=(1, 1), splits=1, order=order)
    assert_no_worse_than_torch(into_nan(a, b, plan), a, b)


@pytest.mark.slow
@pytest.mark.parametrize("tiles", [(2, 2), (3, 3), (1, 7), (13, 5), (17, 1)], ids=str)
def test_no_width_of_bands_and_no_cluster_leaves_a_tile_out(
    device: str, tiles: tuple[int, int]
) -> None:
    """NVIDIA/cutlass #3497: tiles at the end of a rounded grid were never computed."""
    a, b = random((64, 8), device=device), random((8, 64), "transposed", device=device)
    small = min(
        (i for i in instances_for(a, b) if i.loader == "tma"),
        key=lambda i: (i.tile_m * i.tile_n, i.tile_k),
    )
    m, n = tiles[0] * small.tile_m - 8, tiles[1] * small.tile_n - 8
    a, b = random((m, 16), device=device), random((16, n), "transposed", device=device)
    plan = tk.plan_matmul(a, b).replace(instance=small, cluster=(1, 1), splits=1, swapped=False)
    bands = [Order(kind, width) for kind in ("grouped_m", "grouped_n") for width in range(1, 9)]
    expected = None
    for order in (*bands, Order("snake"), Order("hilbert"), Order("morton")):
        for cluster in ((1, 1), (2, 1), (1, 2)):
            for workers in (1, 7, 132):
                size, (rows, cols) = cluster[0] * cluster[1], cluster_grid(*tiles, cluster)
                grid = min(max(workers // size, 1), rows * cols) * size
                changed = legal(plan, order=order, cluster=cluster, grid=grid)
                if changed is not None:
                    result = into_nan(a, b, changed)
                    expected = result if expected is None else expected
                    assert torch.equal(result, expected)
    assert expected is not None
    assert_no_worse_than_torch(expected, a, b)


def test_every_instance_and_cluster_is_right(device: str) -> None:
    """One cut tile in each direction, K of two tiles and a bit."""
    for b_kind in ("dense", "transposed"):
        for a_kind in ("dense", "transposed"):
            a = random((136, 136), a_kind, device=device)
            b = random((136, 264), b_kind, device=device)
            plan = tk.plan_matmul(a, b)
            for instance in instances_for(a, b):
                for cluster in ((1, 1), (2, 1), (1, 2)):
                    made = legal(plan, instance=instance, cluster=cluster, splits=1)
                    if made is not None:
                        assert_no_worse_than_torch(into_nan(a, b, made), a, b)


def test_every_depth_of_the_ring_gives_the_same_bits(device: str) -> None:
    a, b = random((72, 330), device=device), random((330, 80), device=device)
    plan = tk.plan_matmul(a, b).replace(splits=1)
    results = [
        into_nan(a, b, made)
        for depth in range(1, plan.instance.max_stages + 1)
        if (made := legal(plan, num_stages=depth)) is not None
    ]
    assert len(results) >= 2
    assert all(torch.equal(results[0], result) for result in results)


@pytest.mark.parametrize("splits", [1, 2])
def test_blocks_that_take_tiles_when_free_fill_every_tile_with_the_same_bits(
    device: str, splits: int
) -> None:
    """More tiles than blocks; on a GPU also several times with one counter, which starts anew."""
    a, b = random((520, 264), device=device), random((264, 1032), device=device)
    for grid in (1, 5, 12):
        static = tk.plan_matmul(a, b).replace(cluster=(1, 1), splits=splits, grid=grid)
        expected = into_nan(a, b, static)
        assert_no_worse_than_torch(expected, a, b)
        for _ in range(3):
            assert torch.equal(into_nan(a, b, static.replace(dynamic=True)), expected)


def test_a_queue_is_for_blocks_alone_and_for_tma() -> None:
    a, b = random((512, 64), device="cpu"), random((64, 512), device="cpu")
    plan = tk.plan_matmul(a, b)
    with pytest.raises(ValueError, match="dynamic needs the tma loader and clusters of one block"):
        plan.replace(cluster=(2, 1), dynamic=True)
    gathered = tk.plan_matmul(a[:, 1:], b[1:])
    with pytest.raises(ValueError, match="dynamic needs the tma loader"):
        gathered.replace(dynamic=True)


def test_a_split_product_is_the_same_bits_every_time(device: str) -> None:
    """The last of three or more partners to arrive may not run the epilogue before the others have
    added their part (NVIDIA/cutlass #2027). On a GPU a second stream keeps the device busy."""
    k, calls = (16384, 20) if device == "cuda" else (2048, 3)
    a, b = random((128, k), device=device), random((k, 128), device=device)
    bias = torch.randn(128, device=device)
    options = {"bias": bias, "activation": "relu"}
    cuda: Any = torch.cuda
    stream = cuda.Stream() if device == "cuda" else None
    plans = list(splits_of(tk.plan_matmul(a, b), 8))
    assert {plan.splits for plan in plans} >= {1, 2, 3, 8}
    assert {plan.splits for plan in plans if plan.splits_in_cluster} >= {2, 3, 8}
    for plan in plans:
        results = []
        for _ in range(calls):
            if stream is not None:
                with torch.cuda.stream(stream):
                    torch.matmul(b, a)
            results.append(into_nan(a, b, plan, **options))
        assert all(torch.equal(results[0], result) for result in results)
        assert_no_worse_than_torch(results[0], a, b, **options)


def test_bias_and_relu_apply_once_after_the_whole_sum(device: str) -> None:
    """Partial sums of opposite sign: relu of each, or a bias added to each, would show."""
    k = 1024
    a = torch.ones(128, k, device=device).bfloat16()
    a[:, k // 2 :] = -1
    b = torch.ones(k, 128, device=device).bfloat16()
    b[: k // 2] = 2
    bias = torch.full((128,), 0.5, device=device)
    for plan in splits_of(tk.plan_matmul(a, b), 8):
        assert (into_nan(a, b, plan, bias=bias, activation="relu") == k / 2 + 0.5).all()
        assert (into_nan(a, -b, plan, bias=bias, activation="relu") == 0).all()


def test_batched_splits(device: str) -> None:
    a, b = random((3, 40, 520), device=device), random((3, 520, 24), device=device)
    for plan in splits_of(tk.plan_matmul(a, b), 3):
        assert_no_worse_than_torch(into_nan(a, b, plan), a, b)


def test_every_instance_sums_its_splits_in_a_cluster(device: str) -> None:
    """Cut tiles in each direction, K of eight tiles and a bit; with and without an epilogue, and
    exchanged. The depth leaves room for the parts."""
    bias = torch.randn(264, device=device)
    found = set()
    for kind in ("dense", "transposed"):
        a = random((150, 1096), device=device)
        b = random((1096, 264), kind, device=device)
        plan = tk.plan_matmul(a, b).replace(cluster=(1, 1))
        for swapped in (False, True):
            for instance in instances_for(a, b):
                for splits in (2, 3, 8):
                    made = legal(
                        plan,
                        instance=instance,
                        swapped=swapped,
                        splits=splits,
                        splits_in_cluster=True,
                    )
                    if made is None:
                        continue
                    found.add((instance.tile, splits))
                    memory = made.instance.fixed_bytes + made.num_stages * instance.bytes_per_stage
                    memory += (splits - 1) * instance.bytes_per_part
                    assert memory <= made.device.shared_memory_per_block
                    assert_no_worse_than_torch(into_nan(a, b, made), a, b)
                    options = {"bias": bias, "activation": "silu"}
                    assert_no_worse_than_torch(into_nan(a, b, made, **options), a, b, **options)
    assert {tile for tile, _ in found} >= {"128x16x128", "128x64x128", "64x64x128", "128x128x64"}
    assert ("128x128x64", 8) not in found, "seven parts of 32 KiB leave no room for two stages"


def test_a_cluster_of_splits_shares_nothing_else() -> None:
    a, b = random((100, 2048), device="cpu"), random((2048, 64), "transposed", device="cpu")
    small = min(instances_for(a, b), key=lambda i: (i.tile_m * i.tile_n, i.tile_k))
    plan = tk.plan_matmul(a, b).replace(instance=small, cluster=(1, 1), splits=4)
    together = plan.replace(splits_in_cluster=True)
    assert together.grid % 4 == 0
    assert Plan.from_dict(together.to_dict()) == together
    for change, text in (
        ({"splits": 1}, "splits is 1; splits_in_cluster takes 2 to 8"),
        ({"splits": 9}, "splits is 9; splits_in_cluster takes 2 to 8"),
        ({"cluster": (2, 1)}, r"splits_in_cluster needs cluster \(1, 1\) and no dynamic"),
        ({"dynamic": True}, r"splits_in_cluster needs cluster \(1, 1\) and no dynamic"),
        ({"grid": 4 * together.grid}, "splits_in_cluster needs a block a split"),
        ({"splits_in_cluster": 1}, "splits_in_cluster is 1; needs True or False"),
    ):
        with pytest.raises(ValueError, match=text):
            together.replace(**change)
    wide = [i for i in instances_for(a, b) if i.bytes_per_part == 0]
    with pytest.raises(ValueError, match="cannot sum the splits of a tile in a cluster"):
        together.replace(instance=wide[0])


def test_a_plan_is_the_one_a_call_uses(device: str) -> None:
    a, b = random((3, 40, 64), device=device), random((64, 24), device=device)
    plan = tk.plan_matmul(a, b, activation="gelu")
    assert (plan.problem.m, plan.problem.batch) == (120, 1), "shared b: the batch is more rows"
    assert torch.equal(tk.matmul(a, b, plan=plan), tk.matmul(a, b))
    unfolded = tk.schedulers.plan_gemm(
        replace(plan.problem, m=40, batch=3), plan.device, tk.runtime.backend(a.device).instances
    )
    assert torch.equal(tk.matmul(a, b, plan=unfolded), tk.matmul(a, b))
    read = Plan.from_dict(plan.to_dict())
    assert torch.equal(tk.matmul(a, b, plan=read), tk.matmul(a, b))


def test_a_plan_of_another_product_is_refused(device: str) -> None:
    a, b = random((40, 64), device=device), random((64, 24), device=device)
    plan = tk.plan_matmul(a, b)
    half = random((40, 64), dtype=torch.float16, device=device)
    for wrong, text in (
        ((a[:39], b), r"plan is for \(batch, M, N, K\) = \(1, 40, 24, 64\); must be for \(1, 39"),
        ((a[:, :32], b[:32]), r"must be for \(1, 40, 24, 32\)"),
        ((half, half[:24].t()), r"plan is for bf16 to bf16; must be for fp16 to fp16"),
        ((a.t().contiguous().t(), b), r"plan is for TMA loads of a along K; must be for .*along M"),
        ((random((40, 64), "odd", device=device), b), r"along K; must be for the gather loader"),
        ((random((40, 64), "offset", device=device), b), r"along K; must be for the gather loader"),
    ):
        with pytest.raises(ValueError, match=r"tk\.matmul: .*" + text):
            tk.matmul(*wrong, plan=plan)
    with pytest.raises(ValueError, match=r"plan is for bf16 to bf16; must be for bf16 to fp32"):
        tk.matmul(a, b, plan=plan, out_dtype=torch.float32)


def test_a_plan_of_another_instance_table_is_refused(device: str) -> None:
    a, b = random((40, 64), device=device), random((64, 24), device=device)
    plan = tk.plan_matmul(a, b)
    for change in ({"index": 9999}, {"name": "from elsewhere"}, {"fixed_bytes": 7}):
        other = replace(plan, instance=replace(plan.instance, **change))
        with pytest.raises(ValueError, match=r"plan is for instance .* this build does not have"):
            tk.matmul(a, b, plan=other)


def test_a_plan_that_cannot_run_is_refused(device: str) -> None:
    a, b = random((40, 64), device=device), random((64, 24), device=device)
    plan = tk.plan_matmul(a, b)
    for change in ({"splits": 100}, {"grid": 0}, {"num_stages": 0}, {"cluster": (4, 4)}):
        with pytest.raises(ValueError, match=f"plan for .*{next(iter(change))}|is 0; needs >= 1"):
            tk.matmul(a, b, plan=replace(plan, **change))


def test_an_empty_product_has_no_plan() -> None:
    a, b = torch.zeros(0, 8).bfloat16(), torch.zeros(8, 6).bfloat16()
    with pytest.raises(ValueError, match=r"the output is empty"):
        tk.plan_matmul(a, b)


def test_plan_matmul_checks_like_matmul() -> None:
    a, b = torch.zeros(5, 8).bfloat16(), torch.zeros(7, 6).bfloat16()
    with pytest.raises(ValueError, match=r"tk\.matmul: b is a \(7, 6\)"):
        tk.plan_matmul(a, b)
    with pytest.raises(TypeError, match=r"alpha is str"):
        tk.plan_matmul(a, b, alpha="1")  # type: ignore[arg-type]


def h200_plan(problem: GemmProblem) -> Plan:
    return plan_gemm(problem, Device.named("h200"), runtime.instances("host"))


@pytest.mark.parametrize("cluster", [(3, 1), (3, 2), (1, 3), (6, 1)])
def test_a_cluster_is_powers_of_two(cluster: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="powers of two"):
        h200_plan(GemmProblem(520, 520, 64)).replace(cluster=cluster).check()


def test_a_block_of_a_cluster_loads_eight_rows_at_least() -> None:
    plan = h200_plan(GemmProblem(520, 520, 128))
    narrow = next(
        i
        for i in runtime.instances("host")
        if i.tile_n == 16 and (i.dtype, i.a_major, i.b_major) == ("bf16", "k", "k")
    )
    with pytest.raises(ValueError, match="less than 8 rows"):
        plan.replace(instance=narrow, cluster=(4, 1), splits=1, swapped=False).check()


def test_a_plan_for_a_sum_of_nothing_is_checked_too(device: str) -> None:
    a, b = random((5, 0), device=device), random((0, 7), device=device)
    with pytest.raises(ValueError, match="plan"):
        tk.matmul(
            a, b, plan=tk.plan_matmul(random((5, 8), device=device), random((8, 7), device=device))
        )


def test_the_library_names_what_is_no_order() -> None:
    library = runtime.library("host")
    for kind, index in ((5, 1), (6, 1), (0, 16)):
        with pytest.raises(ValueError, match="an order needs"):
            library.order_tile(kind, 0, 4, 4, index)
