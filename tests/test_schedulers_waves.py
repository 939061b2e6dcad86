"""The waves of a walk: every tile in one, and the same bytes as the model that samples them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from instance_table import matmul_instances

from tk.schedulers import Device, GemmProblem, Order, plan_gemm
from tk.schedulers.order import CODES
from tk.schedulers.traffic import panels_read
from tk.schedulers.waves import Wave, footprint_waves, schedule_of

H200 = Device.named("h200")
INSTANCES = matmul_instances()
sizes = st.integers(1, 24)


@given(
    st.sampled_from(list(CODES)),
    sizes,
    sizes,
    sizes,
    st.floats(0.5, 200),
    st.floats(1e3, 1e8),
    st.floats(1e3, 1e8),
)
def test_waves_are_a_partition_and_read_what_the_model_of_traffic_says(
    kind: str, param: int, rows: int, cols: int, wave: float, row_bytes: float, col_bytes: float
) -> None:
    order = Order(kind, param if kind.startswith("grouped") else 0)
    sizes_of = {"wave": wave, "row_bytes": row_bytes, "col_bytes": col_bytes, "device": H200}
    waves = footprint_waves(order, rows, cols, **sizes_of)  # type: ignore[arg-type]
    places = [place for one in waves for place in range(one.begin, one.end)]
    assert places == list(range(rows * cols))
    walk = order.tiles(rows, cols)
    for one in waves:
        tiles = walk[one.begin : one.end]
        assert list(one.row_hits) == sorted({row for row, _ in tiles})
        assert list(one.col_hits) == sorted({col for _, col in tiles})
        assert all(0 <= hit <= 1 for hits in (one.row_hits, one.col_hits) for hit in hits.values())
    assert not any(waves[0].row_hits.values()) and not any(waves[0].col_hits.values())
    if len(waves) <= 8 and max(wave, 1.0).is_integer():  # then nothing is sampled there
        panels = panels_read(order, rows, cols, **sizes_of)  # type: ignore[arg-type]
        tiles_in_all = rows * cols
        read_rows = min(max(sum(w.rows_read for w in waves), rows), tiles_in_all)
        read_cols = min(max(sum(w.cols_read for w in waves), cols), tiles_in_all)
        assert read_rows == pytest.approx(panels.rows)
        assert read_cols == pytest.approx(panels.cols)


@pytest.mark.parametrize("waves", [4, 8])
def test_whole_waves_read_what_traffic_says(waves: int) -> None:
    for order in (Order("row"), Order("grouped_m", 4), Order("hilbert"), Order("morton")):
        sizes_of = {"wave": 64, "row_bytes": 4e6, "col_bytes": 2e6, "device": H200}
        found = footprint_waves(order, 16, waves * 4, **sizes_of)  # type: ignore[arg-type]
        panels = panels_read(order, 16, waves * 4, **sizes_of)  # type: ignore[arg-type]
        assert len(found) == waves
        assert sum(w.rows_read for w in found) == pytest.approx(panels.rows)
        assert sum(w.cols_read for w in found) == pytest.approx(panels.cols)


def test_a_small_walk_by_hand() -> None:
    """Two rows of four tiles, two at a time; nothing drifts and everything fits."""
    device = replace(H200, shared_miss_fraction=0.0, wave_drift=0.0)
    waves = footprint_waves(Order("row"), 2, 4, wave=2, row_bytes=1e6, col_bytes=1e6, device=device)
    assert waves == [
        Wave(0, 2, {0: 0.0}, {0: 0.0, 1: 0.0}),
        Wave(2, 4, {0: 1.0}, {2: 0.0, 3: 0.0}),
        Wave(4, 6, {1: 0.0}, {0: 1.0, 1: 1.0}),
        Wave(6, 8, {1: 1.0}, {2: 1.0, 3: 1.0}),
    ]
    assert (waves[0].rows_read, waves[0].cols_read, waves[3].cols_read) == (1, 2, 0)


def test_a_schedule_has_the_plans_bytes() -> None:
    for sizes_ in ((8192, 8192, 8192), (4096, 4096, 1024), (300, 200, 4096)):
        plan = plan_gemm(GemmProblem(*sizes_), H200, INSTANCES)
        for order in (plan.order, Order("row"), Order("hilbert")):
            schedule = schedule_of(plan.replace(order=order))
            read = [
                sum(part) for part in zip(*map(schedule.read_bytes, schedule.waves), strict=True)
            ]
            predicted = plan.replace(order=order).prediction.bytes
            # The prediction samples six of the waves.
            assert sum(read) == pytest.approx(predicted["a"] + predicted["b"], rel=0.2)
            assert 0 <= schedule.hit_rate() < 1
            assert len(schedule.wave_of_tile()) == schedule.rows * schedule.cols


def test_a_swapped_plan_has_rows_of_b() -> None:
    plan = plan_gemm(GemmProblem(8, 14336, 4096), H200, INSTANCES)
    assert plan.swapped
    assert schedule_of(plan).operands == ("b", "a")
