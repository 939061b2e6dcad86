"""Every way in which a plan may run attention gives the right values."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from attention_inputs import assert_no_worse_than_torch, pair, random

import tk
from tk.ops.attention_plan import plan_for
from tk.schedulers import Order
from tk.schedulers.choose import family_named

OPTIONS: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"causal": True},
    "window": {"window": (70, 20)},
    "general": {"causal": True, "softcap": 4.0},
}


@pytest.mark.parametrize("dimension", [64, 128])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_candidate_is_right(device: str, options: dict[str, Any], dimension: int) -> None:
    q = random(2, 4, 150, dimension, device=device)
    k, v = (random(2, 2, 300, dimension, device=device) for _ in range(2))
    plan = tk.plan_attention(q, k, v, **options)
    table = tk.runtime.backend(q.device).table("attention")
    groups, _ = family_named("attention").groups(plan.problem, plan.device, table)
    assert groups
    for group in groups:
        choice = group.choice(group.orders()[0])
        other = plan.replace(
            **{
                name: getattr(choice, name)
                for name in (
                    *("instance", "num_stages", "splits", "pack_heads", "grid", "dynamic"),
                    "turns",
                )
            }
        )
        out, lse = pair(tk.attention(q, k, v, plan=other, return_lse=True, **options))
        assert_no_worse_than_torch(out, lse, q, k, v, **options)


@pytest.mark.parametrize("packed", [False, True], ids=["", "packed heads"])
def test_orders_and_queues_change_no_bit(device: str, packed: bool) -> None:
    q = random(2, 4, 200, 64, device=device)
    k, v = (random(2, 2, 200, 64, device=device) for _ in range(2))
    plan = tk.plan_attention(q, k, v, causal=True).replace(
        pack_heads=packed, splits=1, dynamic=False, longest_first=False, turns=False
    )
    expected = tk.attention(q, k, v, causal=True, plan=plan)
    orders = (Order("row"), Order("column"), Order("snake"), Order("grouped_m", 3))
    for order, dynamic, longest_first in product(orders, (False, True), (False, True)):
        other = plan.replace(order=order, dynamic=dynamic, longest_first=longest_first, grid=3)
        result = tk.attention(q, k, v, causal=True, plan=other)
        assert torch.equal(result, expected), str(other)


def test_depths_and_turns_change_no_bit(device: str) -> None:
    q, k, v = (random(1, 2, 300, 64, device=device) for _ in range(3))
    plan = tk.plan_attention(q, k, v, causal=True)
    two = next(
        each
        for each in tk.runtime.backend(q.device).table("attention")
        if (each.head_dim, each.dtype, each.scores) == (64, "bf16", "plain")
        and each.consumer_warpgroups >= 2
    )
    plan = plan.replace(instance=two, turns=False)
    expected = tk.attention(q, k, v, causal=True, plan=plan)
    for num_stages, turns in product(range(two.min_stages, plan.num_stages + 1), (False, True)):
        other = plan.replace(num_stages=num_stages, turns=turns)
        result = tk.attention(q, k, v, causal=True, plan=other)
        assert torch.equal(result, expected), str(other)


def test_what_is_planned_stays() -> None:
    q = random(1, 1, 33, 64)
    plan = tk.plan_attention(q, q, q)
    assert tk.plan_attention(q, q, q) is plan
    assert plan_for(plan.problem, tk.runtime.backend(q.device)) is plan
