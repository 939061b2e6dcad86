"""The ring over time: nothing is used before it is there or overwritten before it is given back,
deeper rings are never slower, and what binds is what the pipeline says."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from instance_table import matmul_instances

from tk.schedulers import Device, GemmProblem, pipeline_for, plan_gemm
from tk.schedulers.pipeline import stages_that_hide
from tk.schedulers.timeline import (
    StageTimes,
    StageUse,
    Store,
    Timeline,
    k_tiles_of,
    simulate,
    stage_times,
    timeline_of,
)

H200 = Device.named("h200")
INSTANCES = matmul_instances()

# Whole nanoseconds: sums are exact.
times = st.builds(
    StageTimes,
    latency=st.integers(0, 3000),
    transfer=st.integers(0, 1500),
    compute=st.integers(1, 1500),
    epilogue=st.integers(0, 5000),
)
depths = st.integers(2, 8)
counts = st.integers(1, 20)
some_tiles = st.integers(1, 4)


@given(times, depths, counts, some_tiles)
def test_stages_are_loaded_then_computed_on_then_given_back(
    times: StageTimes, depth: int, k_tiles: int, num_tiles: int
) -> None:
    made = simulate(times, depth, k_tiles, num_tiles)
    places = [(use.tile, use.k, use.stage) for use in made.uses]
    assert places == [
        (at // k_tiles, at % k_tiles, at % depth) for at in range(k_tiles * num_tiles)
    ]
    for at, use in enumerate(made.uses):
        assert use.asked + times.latency <= use.loaded <= use.begin
        assert use.begin + times.compute == use.end <= use.released
        if at:
            before = made.uses[at - 1]
            assert use.loaded >= before.loaded + times.transfer
            assert use.begin >= before.end
        if at >= depth:  # not overwritten before it was given back
            assert use.asked >= made.uses[at - depth].released
    assert [store.tile for store in made.stores] == list(range(num_tiles))
    for store in made.stores:
        last = made.uses[(store.tile + 1) * k_tiles - 1]
        assert (store.begin, store.end) == (last.end, last.end + times.epilogue)
        if store.tile + 1 < num_tiles:
            assert made.uses[(store.tile + 1) * k_tiles].begin >= store.end


@given(times, depths, counts, some_tiles)
def test_time_is_work_and_waits(
    times: StageTimes, depth: int, k_tiles: int, num_tiles: int
) -> None:
    made = simulate(times, depth, k_tiles, num_tiles)
    work = num_tiles * (k_tiles * times.compute + times.epilogue)
    assert made.seconds == work + sum(use.waited for use in made.uses)
    assert made.fill == times.latency
    assert made.seconds == work + made.fill + made.starved
    assert all((use.waited > 0) == (use.cause != "") for use in made.uses)


@given(times, depths, counts, some_tiles)
def test_a_deeper_ring_is_never_slower(
    times: StageTimes, depth: int, k_tiles: int, num_tiles: int
) -> None:
    shallow = simulate(times, depth, k_tiles, num_tiles)
    deep = simulate(times, depth + 1, k_tiles, num_tiles)
    assert deep.seconds <= shallow.seconds
    for ours, theirs in zip(deep.uses, shallow.uses, strict=True):
        assert ours.begin <= theirs.begin and ours.loaded <= theirs.loaded


@given(times, depths, counts, some_tiles)
def test_the_ring_starves_of_latency_where_littles_law_says_so(
    times: StageTimes, depth: int, extra: int, num_tiles: int
) -> None:
    """If bandwidth is enough: then it is the depth alone that decides."""
    times = replace(times, transfer=min(times.transfer, times.compute))
    made = simulate(times, depth, depth + extra, num_tiles)
    hides = depth >= ceil(times.latency / times.compute) + 1
    assert (made.starves == "") == hides
    assert hides == (depth >= stages_that_hide(times.latency, times.compute))
    assert made.starves in ("", "latency")


@given(times, depths, some_tiles)
def test_too_little_bandwidth_starves_any_ring(
    times: StageTimes, depth: int, num_tiles: int
) -> None:
    slow = replace(times, transfer=times.compute + 1)
    made = simulate(slow, depth, 3 * depth, num_tiles)
    assert made.starves
    if depth >= stages_that_hide(times.latency, times.compute):
        assert made.starves == "bandwidth"


@pytest.mark.parametrize("factor", [0.2, 0.9, 1.1, 2.5, 4.0])
def test_what_binds_is_what_the_pipeline_says(factor: float) -> None:
    plan = plan_gemm(GemmProblem(8192, 8192, 8192), H200, INSTANCES)
    compute = stage_times(plan).compute
    device = replace(H200, load_latency_s=factor * compute)
    for depth in range(2, plan.num_stages + 1):
        pipeline = pipeline_for(plan.instance, device, compute, depth)
        ring = StageTimes(device.load_latency_s, 0.5 * compute, compute, 0.0)
        made = simulate(ring, depth, 40)
        assert (pipeline.binds == "latency hidden") == (made.starves == "")


def test_a_small_ring_by_hand() -> None:
    """Two stages, a latency of three products: each load is waited for."""
    made = simulate(StageTimes(3, 0, 1, 5), 2, 3)
    assert made == Timeline(
        2,
        StageTimes(3, 0, 1, 5),
        (
            StageUse(0, 0, 0, 0, 3, 3, 4, 4, 3, "fill"),
            StageUse(0, 1, 1, 0, 3, 4, 5, 7, 0, ""),
            StageUse(0, 2, 0, 4, 7, 7, 8, 8, 2, "latency"),
        ),
        (Store(0, 8, 13),),
    )
    assert (made.seconds, made.fill, made.starved, made.starves) == (13, 3, 2, "latency")


def test_loads_go_on_while_a_tile_is_written() -> None:
    made = simulate(StageTimes(3, 0, 2, 10), 4, 4, 2)
    assert made.uses[4].waited == 0 and made.uses[4].loaded <= made.stores[0].end


def test_a_plans_timeline_has_its_depth_and_its_k_tiles() -> None:
    plan = plan_gemm(GemmProblem(8192, 8192, 8192), H200, INSTANCES)
    made = timeline_of(plan)
    assert made.num_stages == plan.num_stages
    assert len(made.uses) == 2 * k_tiles_of(plan) == 2 * 8192 // plan.instance.tile_k
    # A product bound by the tensor cores hardly waits for loads.
    assert made.starved < 0.05 * made.seconds
    shallow = timeline_of(plan.replace(num_stages=2))
    assert shallow.seconds > made.seconds
    assert len(timeline_of(plan, k_tiles=7, num_tiles=1).uses) == 7
    split = plan_gemm(GemmProblem(128, 128, 65536), H200, INSTANCES)
    assert k_tiles_of(split) * split.splits * split.instance.tile_k >= 65536


def test_wrong_arguments_are_named() -> None:
    usable = StageTimes(1, 1, 1, 1)
    with pytest.raises(ValueError, match="num_stages is 1; needs >= 2"):
        simulate(usable, 1, 4)
    with pytest.raises(ValueError, match="k_tiles is 0"):
        simulate(usable, 2, 0)
    with pytest.raises(ValueError, match="num_tiles is 0"):
        simulate(usable, 2, 1, 0)
    with pytest.raises(ValueError, match="compute is 0"):
        StageTimes(1, 1, 0, 1)
    with pytest.raises(ValueError, match="latency is -1"):
        StageTimes(-1, 1, 1, 1)


def test_a_product_without_depth_has_a_timeline() -> None:
    one = plan_gemm(GemmProblem(256, 256, 0), Device.named("h200"), matmul_instances())
    drawn = timeline_of(one, num_tiles=1)
    assert len(drawn.uses) == len(drawn.stores) == 1
