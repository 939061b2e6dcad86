"""How the rotation's work is dealt out: by vectors where memory allows, and enough warps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk.schedulers.rotary import RotaryInstance, RotaryPlan, RotaryWork, plan_rotary

TABLE = [
    RotaryInstance(0, "bf16_8", "bf16", 8, 4),
    RotaryInstance(1, "fp32_4", "fp32", 4, 4),
    RotaryInstance(2, "bf16_1", "bf16", 1, 4),
    RotaryInstance(3, "fp32_1", "fp32", 1, 4),
]
WORK = RotaryWork(
    tokens=32768,
    heads=(32, 8),
    head_dim=128,
    rotary_dim=128,
    dtype="bf16",
    vectors={4: True, 8: True},
    heads_inside=False,
)


def plan(work: RotaryWork, **options: bool) -> RotaryPlan:
    return plan_rotary(work, 132, TABLE, **options)


def test_the_widest_vectors_that_memory_allows() -> None:
    assert plan(WORK).instance.name == "bf16_8"
    assert plan(replace(WORK, vectors={4: True, 8: False})).instance.name == "bf16_1"
    assert plan(replace(WORK, dtype="fp32")).instance.name == "fp32_4"
    with pytest.raises(ValueError, match="no instance of the rotation is of fp16"):
        plan(replace(WORK, dtype="fp16"))


@given(
    tokens=st.integers(1, 1 << 20),
    heads=st.tuples(st.integers(0, 130), st.integers(1, 130)),
    dimensions=st.sampled_from([(64, 64), (128, 128), (128, 32), (256, 64)]),
    in_place=st.booleans(),
)
def test_every_task_has_a_warp_and_every_multiprocessor_enough(
    tokens: int, heads: tuple[int, int], dimensions: tuple[int, int], in_place: bool
) -> None:
    dimension, rotary_dim = dimensions
    work = replace(
        WORK,
        tokens=tokens,
        heads=heads,
        head_dim=dimension,
        rotary_dim=rotary_dim,
        in_place=in_place,
    )
    made = plan(work)
    slots = (rotary_dim if in_place else dimension) // 16
    groups = sum(-(-each // made.heads_per_task) for each in heads)
    tasks = -(-tokens * slots // 32) * groups
    assert 4 * made.grid >= tasks
    assert made.heads_per_task % made.instance.heads_at_once == 0
    if made.heads_per_task > made.instance.heads_at_once:  # else there is no smaller task
        assert tasks >= 128 * 132


def test_the_host_starts_few_blocks() -> None:
    assert plan(WORK, on_host=True).grid == 4
    assert plan(replace(WORK, tokens=1, heads=(1, 0)), on_host=True).grid == 1
    assert plan(replace(WORK, heads_inside=True)).groups_first
