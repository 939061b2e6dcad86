"""Attention's plans: legal for any problem, whole under every order, and as measured where it is
known which instance, grid and order win."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from instance_table import matmul_instances

from tk.schedulers import (
    AttentionInstance,
    AttentionProblem,
    Device,
    GemmProblem,
    Order,
    Plan,
    plan_attention,
    plan_gemm,
)
from tk.schedulers.attention_cost import task_grid
from tk.schedulers.attention_problem import visible_pairs
from tk.schedulers.choose import family_named

H200 = Device.named("h200")


def instance(index: int, dimension: int, queries: int, keys: int, scores: str) -> AttentionInstance:
    return AttentionInstance(
        index=index,
        name=f"bf16_{dimension}_{scores}_{queries}x{keys}",
        dtype="bf16",
        head_dim=dimension,
        value_dim=dimension,
        scores=scores,
        tile_q=queries,
        tile_k=keys,
        consumer_warpgroups=queries // 64,
        bytes_per_stage=4 * keys * dimension,
        fixed_bytes=2 * queries * dimension + 2048,
        min_stages=2,
        max_stages=8,
    )


TABLE = [
    instance(index, *line)
    for index, line in enumerate(
        [
            (64, 192, 128, "plain"),
            (64, 128, 128, "plain"),
            (64, 64, 128, "plain"),
            (128, 192, 80, "plain"),
            (128, 128, 128, "plain"),
            (128, 64, 128, "plain"),
            (256, 128, 64, "plain"),
            (64, 128, 128, "general"),
            (128, 128, 128, "general"),
            (256, 128, 64, "general"),
        ]
    )
]


def problem(
    heads: int, length: int, dimension: int, *, causal: bool = False, **more: int
) -> AttentionProblem:
    right = 0 if causal else -1
    shape = {"batch": 1, "kv_heads": heads, "queries": length, "keys": length, **more}
    return AttentionProblem(
        heads=heads, head_dim=dimension, value_dim=dimension, window_right=right, **shape
    )


def plan(of: AttentionProblem) -> Plan:
    return plan_attention(of, H200, TABLE)


@given(
    queries=st.integers(1, 30),
    keys=st.integers(0, 30),
    left=st.none() | st.integers(0, 40),
    right=st.none() | st.integers(0, 40),
)
def test_pairs_that_are_seen_are_counted(
    queries: int, keys: int, left: int | None, right: int | None
) -> None:
    shift = keys - queries
    seen = sum(
        (left is None or j >= i + shift - left) and (right is None or j <= i + shift + right)
        for i, j in product(range(queries), range(keys))
    )
    assert visible_pairs(queries, keys, left, right) == seen


@given(
    batch=st.integers(1, 40),
    kv_heads=st.integers(1, 9),
    group=st.integers(1, 9),
    queries=st.integers(1, 20000),
    keys=st.integers(1, 70000),
    dimension=st.sampled_from([8, 64, 72, 128, 256]),
    left=st.integers(-1, 500),
    right=st.integers(-1, 500),
    scores=st.sampled_from(["plain", "general"]),
    packed=st.booleans(),
)
def test_every_problem_has_a_legal_plan_that_survives_its_text(
    batch: int,
    kv_heads: int,
    group: int,
    queries: int,
    keys: int,
    dimension: int,
    left: int,
    right: int,
    scores: str,
    packed: bool,
) -> None:
    made = AttentionProblem(
        batch,
        kv_heads * group,
        kv_heads,
        queries,
        keys,
        dimension,
        dimension,
        window_left=left,
        window_right=right,
        scores=scores,
        packed=packed,
        total_queries=queries,
        total_keys=keys,
    )
    for device in (H200, Device.named("host")):
        found = plan_attention(made, device, TABLE).check()
        assert Plan.from_dict(json.loads(found.text)) == found
        assert found.prediction.seconds > 0
        family = family_named("attention")
        bounds = family.prospects(made, device, TABLE).bounds
        assert min(bounds) <= found.prediction.seconds * (1 + 1e-9)


# Which heads a group won in a trial of this design on an H200, by (B * H, length, dimension).
MEASURED = [
    (256, 1024, 128, 64),
    (128, 4096, 128, 16),
    (32, 16384, 128, 4),
    (256, 1024, 64, 128),
    (128, 4096, 64, 32),
    (32, 16384, 64, 8),
]


@pytest.mark.parametrize(("heads", "length", "dimension", "group"), MEASURED)
def test_causal_work_is_dynamic_longest_first_and_grouped_to_fit_l2(
    heads: int, length: int, dimension: int, group: int
) -> None:
    found = plan(problem(heads, length, dimension, causal=True))
    assert found.dynamic
    assert found.longest_first
    assert found.order == Order("grouped_m", group)
    assert found.instance.consumer_warpgroups >= 2


@pytest.mark.parametrize(("heads", "length", "dimension", "group"), MEASURED)
def test_full_work_takes_one_head_after_the_other(
    heads: int, length: int, dimension: int, group: int
) -> None:
    found = plan(problem(heads, length, dimension))
    assert found.order == Order("row")
    assert not found.longest_first
    assert found.splits == 1


def test_decoding_packs_heads_and_splits_keys_until_the_machine_is_full() -> None:
    one = plan(problem(32, 1, 128, kv_heads=8, keys=32768))
    assert one.pack_heads
    assert one.instance.tile_q == 64
    assert one.splits >= 8
    assert one.grid >= 100
    many = plan(problem(32, 1, 128, batch=32, kv_heads=8, keys=8192))
    assert many.pack_heads
    assert many.prediction.bound_by == "HBM"
    floor = many.problem.min_bytes / H200.dram_bandwidth
    assert many.prediction.seconds < 1.1 * floor


def test_scores_that_change_need_a_general_instance() -> None:
    plain = problem(4, 1000, 64)
    assert plan(plain).instance.scores == "plain"
    general = replace(plain, scores="general")
    assert plan(general).instance.scores == "general"
    with pytest.raises(ValueError, match="it has masks alone"):
        plan_attention(general, H200, TABLE[:7])


def test_tasks_are_heads_times_query_tiles() -> None:
    decode = problem(32, 5, 128, batch=3, kv_heads=8, keys=100)
    assert task_grid(decode, TABLE[5], False) == (96, 1)
    assert task_grid(decode, TABLE[5], True) == (24, 1)
    assert task_grid(problem(32, 300, 128, kv_heads=8), TABLE[4], True) == (8, 10)


REASONS = [
    ({"num_stages": 1}, "num_stages is 1"),
    ({"num_stages": 9}, "num_stages is 9"),
    ({"splits": 40}, "splits is 40; the keys have 32 tiles"),
    ({"splits": 2, "dynamic": True}, "static grid"),
    ({"grid": 10**6}, "there are 4096 tasks"),
    ({"cluster": (2, 1)}, "a cluster is for other kernels"),
    ({"swapped": True}, "swapped is for other kernels"),
    ({"order": Order("hilbert")}, "closed forms"),
    ({"pack_heads": True}, "pack_heads needs heads that share"),
    ({"instance": TABLE[1]}, "its head_dim is 64"),
    ({"instance": TABLE[5], "turns": True}, "turns need two consumer"),
]


@pytest.mark.parametrize(("changes", "reason"), REASONS, ids=[r[1] for r in REASONS])
def test_an_illegal_choice_says_why(changes: dict[str, object], reason: str) -> None:
    found = plan(problem(128, 4096, 128, causal=True)).replace(instance=TABLE[4])
    with pytest.raises(ValueError, match=reason):
        found.replace(**changes)


def test_a_problem_without_rows_has_no_plan() -> None:
    for name in ("batch", "heads", "queries", "keys"):
        empty = replace(problem(4, 100, 64), **{name: 0})
        with pytest.raises(ValueError, match=f"{name} is 0: there is nothing"):
            plan(empty)


def test_a_plan_explains_itself() -> None:
    from rich.console import Console

    found = plan(problem(128, 4096, 128, causal=True))
    console = Console(width=240, record=True, quiet=True)
    console.print(found.explain(rejected=True))
    assert len(found.alternatives) > 3
    assert "causal" in str(found)
    assert "longest first" in str(found)


def test_a_matrix_product_has_none_of_its_ways() -> None:
    product_plan = plan_gemm(GemmProblem(4096, 4096, 4096), H200, matmul_instances())
    for way in ("longest_first", "turns", "pack_heads"):
        with pytest.raises(ValueError, match=f"{way} is for other kernels"):
            product_plan.replace(**{way: True})
