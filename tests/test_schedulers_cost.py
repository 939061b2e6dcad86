"""The traffic and time models: exact footprints, measured bytes, and laws that must hold."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instance_table import matmul_instances

from tk.schedulers import Device, GemmProblem, Order
from tk.schedulers.cost import overlapped, power_limited
from tk.schedulers.gemm import GemmGroup
from tk.schedulers.order import CODES
from tk.schedulers.pipeline import num_stages_for
from tk.schedulers.problem import exchanged_majors
from tk.schedulers.traffic import panels_read, wave_masks

H200 = Device.named("h200")
sizes = st.integers(1, 30)


def group(
    problem: GemmProblem,
    tile: str,
    cluster: tuple[int, int] = (1, 1),
    splits: int = 1,
    device: Device = H200,
) -> GemmGroup:
    name = f"{problem.dtype}_{problem.a_major}{problem.b_major}_tma_{tile}"
    instance = next(i for i in matmul_instances() if i.name == name)
    stages = num_stages_for(instance, device)
    return GemmGroup(problem, device, instance, cluster, splits, stages)


@settings(deadline=None)
@given(st.sampled_from(list(CODES)), sizes, sizes, sizes, st.floats(0, 1), st.floats(0, 1))
def test_a_waves_footprint_is_that_of_its_tiles(
    kind: str, param: int, rows: int, cols: int, start: float, length: float
) -> None:
    order = Order(kind, param if kind.startswith("grouped") else 0)
    tiles = order.tiles(rows, cols)
    lo = int(start * (len(tiles) - 1))
    hi = lo + 1 + int(length * (len(tiles) - 1 - lo))
    row_mask, col_mask = wave_masks(order, lo, hi, rows, cols)
    assert row_mask == sum(1 << row for row in {tile[0] for tile in tiles[lo:hi]})
    assert col_mask == sum(1 << col for col in {tile[1] for tile in tiles[lo:hi]})


@settings(deadline=None)
@given(
    st.sampled_from(list(CODES)),
    sizes,
    sizes,
    sizes,
    st.floats(1, 200),
    st.floats(1e3, 1e8),
    st.floats(1e3, 1e8),
)
def test_panels_lie_between_once_each_and_once_a_tile(
    kind: str,
    param: int,
    rows: int,
    cols: int,
    wave: float,
    row_bytes: float,
    col_bytes: float,
) -> None:
    order = Order(kind, param if kind.startswith("grouped") else 0)
    panels = panels_read(
        order, rows, cols, wave=wave, row_bytes=row_bytes, col_bytes=col_bytes, device=H200
    )
    assert rows <= panels.rows <= rows * cols
    assert cols <= panels.cols <= rows * cols


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 132), st.integers(1, 64))
def test_waves_of_blocks_shared_by_splits_have_tiles(
    rows: int, cols: int, blocks: int, splits: int
) -> None:
    for order in (Order("row"), Order("column"), Order("grouped_n", 4), Order("snake")):
        panels = panels_read(
            order, rows, cols, wave=blocks / splits, row_bytes=1e6, col_bytes=1e6, device=H200
        )
        assert panels.rows >= rows


@pytest.mark.parametrize(("width", "gigabytes"), [(1, 2.41), (2, 2.40), (4, 1.51), (8, 1.23)])
def test_bytes_agree_with_hardware_counters(width: int, gigabytes: float) -> None:
    # An H200 at 8192^3, 128 x 256 tiles, cluster 2 x 1, bands of `width` cluster tiles.
    base = group(GemmProblem(8192, 8192, 8192), "128x256x64", (2, 1))
    prediction = base.predict(Order("grouped_m", width))
    assert prediction.bytes["a"] + prediction.bytes["b"] == pytest.approx(gigabytes * 1e9, rel=0.1)


def test_operands_that_fit_in_a_half_of_the_cache_are_read_once() -> None:
    problem = GemmProblem(4096, 4096, 1024)  # 4 waves
    prediction = group(problem, "128x256x64", (2, 1)).predict(Order("row"))
    least = (problem.m + problem.n) * problem.k * 2
    assert prediction.bytes["a"] + prediction.bytes["b"] == pytest.approx(least, rel=0.05)


def test_multicast_saves_bytes_from_the_cache() -> None:
    problem = GemmProblem(8192, 8192, 8192)
    alone = group(problem, "128x256x64").predict(Order("grouped_m", 8)).bytes["l2"]
    paired = group(problem, "128x256x64", (2, 1)).predict(Order("grouped_m", 8)).bytes["l2"]
    # 1/128 + 1/256 loads of an operand for each tile, against 1/256 + 1/256.
    assert paired == pytest.approx(alone * 2 / 3)


def test_parts_add_up_and_name_the_bound() -> None:
    prediction = group(GemmProblem(4096, 4096, 4096), "128x256x64", (2, 1)).predict(Order("row"))
    assert sum(prediction.parts.values()) == pytest.approx(prediction.seconds)
    assert prediction.bound_by == "tensor cores"
    assert prediction.waves == pytest.approx(256 / 66)
    few = GemmProblem(14336, 16, 4096, store="elements")
    small = group(few, "128x16x128").predict(Order("row"))
    assert small.bound_by == "HBM"


def test_the_floor_is_below_every_order() -> None:
    for shape in ((4096, 4096, 4096), (512, 14336, 4096), (16, 4096, 14336)):
        for splits in (1, 2, 4):
            one = group(GemmProblem(*shape), "128x128x64", splits=splits)
            for order in one.orders():
                assert one.floor() <= one.predict(order).seconds * (1 + 1e-9)


def test_an_exchange_keeps_the_work_and_its_majors() -> None:
    problem = GemmProblem(3, 5, 7, batch=2, a_major="m", b_major="k", out_dtype="fp32")
    other = problem.exchanged()
    assert (other.m, other.n, other.k, other.batch) == (5, 3, 7, 2)
    assert (other.a_major, other.b_major) == ("k", "n")
    assert other.flops == problem.flops
    assert other.min_bytes == problem.min_bytes
    for majors in product("km", "kn"):
        assert exchanged_majors(*exchanged_majors(*majors)) == majors


def test_output_by_elements_is_slower() -> None:
    order = Order("grouped_m", 8)
    fast = group(GemmProblem(4096, 4096, 256), "128x256x64").predict(order).seconds
    for changes in ({"store": "elements"}, {"out_dtype": "fp32"}, {"out_dtype": "fp16"}):
        problem = replace(GemmProblem(4096, 4096, 256), **changes)  # type: ignore[arg-type]
        assert group(problem, "128x256x64").predict(order).seconds > fast
    odd = group(GemmProblem(4096, 4095, 256), "128x256x64").predict(order).seconds
    assert odd > fast


def test_rows_that_are_no_whole_lines_load_slowly() -> None:
    order = Order("grouped_m", 8)
    for whole, part in ((4096, 4104), (4096, 4032 + 8)):
        for majors, shape in (("kk", (4096, 4096, part)), ("kn", (4096, part, 4096))):
            even = group(GemmProblem(4096, 4096, whole, b_major=majors[1]), "128x256x64")
            odd = group(GemmProblem(*shape, b_major=majors[1]), "128x256x64")
            assert odd.predict(order).busy["L2"] > 1.3 * even.predict(order).busy["L2"]


def test_loads_beyond_the_edge_take_time() -> None:
    order = Order("row")
    few = group(GemmProblem(1, 14336, 4096), "128x128x64").predict(order)
    full = group(GemmProblem(128, 14336, 4096), "128x128x64").predict(order)
    assert few.bound_by == "padding"
    assert few.seconds > full.seconds  # an H200 took 61 us and 47 us


def test_memory_waits_while_tiles_are_finished() -> None:
    # 6 rounds of a few K tiles each against one of 32.
    problem = GemmProblem(14336, 1, 4096, store="elements")
    whole = group(problem, "128x16x128").predict(Order("row")).seconds
    cut = group(problem, "128x16x128", splits=6).predict(Order("row")).seconds
    assert cut > 1.15 * whole  # an H200 took 59.3 us and 37.7 us


def test_a_tile_may_be_slower_than_the_rates_say() -> None:
    problem, order = GemmProblem(4096, 4096, 512), Order("grouped_m", 8)
    slow = replace(H200, tile_factors={"128x256x64": 1.1})
    assert Device.from_dict(slow.to_dict()) == slow
    for tile, longer in (("128x256x64", True), ("256x128x64", False)):
        usual = replace(H200, tile_factors={})
        before = group(problem, tile, device=usual).predict(order).seconds
        after = group(problem, tile, device=slow).predict(order).seconds
        assert after == before if not longer else 1.02 * before < after < 1.15 * before
    with pytest.raises(ValueError, match=r"tile_factors\['128x256x64'\] is 0"):
        replace(H200, tile_factors={"128x256x64": 0})


def test_more_of_a_resource_is_never_slower() -> None:
    problem = GemmProblem(8192, 8192, 8192)
    order = Order("grouped_m", 4)
    base = group(problem, "256x192x64", (1, 2)).predict(order).seconds
    for name in ("dram_bandwidth", "l2_bandwidth", "power_watts", "l2_bytes"):
        value = getattr(H200, name)
        more = replace(H200, **{name: value * 2})
        faster = group(problem, "256x192x64", (1, 2), device=more).predict(order).seconds
        assert faster <= base


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.floats(1, 20))
def test_overlapped_time_lies_between_the_longest_and_the_sum(
    seconds: list[float], exponent: float
) -> None:
    time = overlapped(exponent, *seconds)
    assert max(seconds) * (1 - 1e-9) <= time <= sum(seconds) * (1 + 1e-9)


def test_power_binds_only_above_the_limit_and_only_after_a_while() -> None:
    assert power_limited(H200, 1e-3, H200.power_watts * 0.9e-3) == 1e-3
    long = power_limited(H200, 1e-2, H200.power_watts * 2e-2) / 1e-2
    short = power_limited(H200, 1e-5, H200.power_watts * 2e-5) / 1e-5
    assert 1 < short < long < 2
    assert power_limited(replace(H200, power_watts=0.0), 1e-3, 1e9) == 1e-3


@pytest.mark.parametrize(
    ("shape", "tile", "cluster", "splits", "microseconds"),
    [
        ((16384, 16384, 16384), "256x192x64", (1, 2), 1, 12061),  # 13422 on a warmer card
        ((8192, 8192, 8192), "128x256x64", (2, 1), 1, 1493),
        ((8192, 4096, 14336), "128x256x64", (2, 1), 1, 1277),
        ((2048, 14336, 4096), "128x256x64", (2, 1), 1, 303.0),
        ((4096, 4096, 4096), "128x256x64", (2, 1), 1, 177.1),
        ((4096, 4096, 1024), "128x256x64", (2, 1), 1, 52.5),
        ((4096, 4096, 256), "128x256x64", (2, 1), 1, 21.3),
        ((4096, 4096, 64), "128x256x64", (2, 1), 1, 17.2),
        ((512, 4096, 4096), "128x128x64", (2, 1), 1, 30.0),
        ((128, 4096, 14336), "128x128x64", (1, 2), 4, 45.5),
        ((1000, 1000, 1000), "128x128x64", (2, 1), 1, 13.1),
        # Rows that are no whole lines of the cache.
        ((4104, 4088, 4072), "256x192x64", (1, 2), 1, 208.0),
        ((3000, 5000, 7000), "128x256x64", (1, 1), 1, 407.2),
        # Of the exchanged product.
        ((4096, 1, 14336), "128x16x128", (1, 1), 4, 40.4),
        ((14336, 16, 4096), "128x16x128", (1, 1), 1, 38.4),
        ((4096, 16, 4096), "128x16x128", (1, 1), 2, 18.0),
        ((128256, 16, 4096), "128x16x128", (1, 1), 1, 266.2),
    ],
)
def test_times_agree_with_those_of_an_h200(
    shape: tuple[int, int, int],
    tile: str,
    cluster: tuple[int, int],
    splits: int,
    microseconds: float,
) -> None:
    # A run of this library on an H200, each shape with its best order.
    problem = GemmProblem(*shape)
    if shape[1] < 128:
        problem = replace(problem, store="elements")
    base = group(problem, tile, cluster, splits)
    best = min(base.predict(order).seconds for order in base.orders())
    assert best == pytest.approx(microseconds * 1e-6, rel=0.12)
