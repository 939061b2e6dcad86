"""Tile orders: bijections, the persistent walk over them, and C++ against Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import host_programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instance_table import ROOT

from tk.schedulers import Order, persistent_walk
from tk.schedulers.hilbert import hilbert_walk
from tk.schedulers.morton import morton_walk
from tk.schedulers.order import CODES, MAX_TABLE_ROWS
from tk.schedulers.walk import cluster_grid

KINDS = tuple(CODES)
GROUPED = ("grouped_m", "grouped_n")
CLUSTERS = ((1, 1), (2, 1), (1, 2))
AWKWARD = ((2, 2), (3, 3), (1, 7), (13, 5), (17, 1))  # grids of tiles

kinds = st.sampled_from(KINDS)
sizes = st.integers(1, 40)


def make_order(kind: str, param: int) -> Order:
    return Order(kind, param if kind in GROUPED else 0)


def grid_tiles(rows: int, cols: int) -> list[tuple[int, int]]:
    return [(row, col) for row in range(rows) for col in range(cols)]


@settings(deadline=None)
@given(kinds, sizes, sizes, sizes)
def test_every_order_visits_each_tile_once(kind: str, param: int, rows: int, cols: int) -> None:
    assert sorted(make_order(kind, param).tiles(rows, cols)) == grid_tiles(rows, cols)


@settings(deadline=None)
@given(kinds, sizes, sizes, sizes)
def test_the_tile_at_an_index_is_that_of_the_walk(
    kind: str, param: int, rows: int, cols: int
) -> None:
    order = make_order(kind, param)
    walk = order.tiles(rows, cols)
    assert [order.tile(index, rows, cols) for index in range(rows * cols)] == walk


@pytest.mark.parametrize("kind", KINDS)
def test_every_order_has_its_line_on_the_page(kind: str) -> None:
    page = (ROOT / "docs" / "scheduling.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    way = "a table" if make_order(kind, 1).needs_table else "integers"
    assert any(f"`{kind}`" in row.split("|")[1] and way in row for row in rows)


@given(kinds, st.integers(1, 1 << 20))
def test_an_order_as_text_is_read_back(kind: str, param: int) -> None:
    order = make_order(kind, param)
    assert Order.parse(str(order)) == order
    assert Order.parse(str(order).replace("(", ":").rstrip(")")) == order


@settings(deadline=None)
@given(sizes, sizes)
def test_hilbert_steps_to_a_neighbour(rows: int, cols: int) -> None:
    walk = hilbert_walk(rows, cols)
    steps = [(abs(a[0] - b[0]), abs(a[1] - b[1])) for a, b in pairwise(walk)]
    assert all(max(step) == 1 for step in steps)
    assert sum(min(step) for step in steps) <= 1  # a corner only where an odd size leaves no side


@settings(deadline=None)
@given(sizes, sizes)
def test_morton_is_the_order_of_interleaved_bits(rows: int, cols: int) -> None:
    def number(tile: tuple[int, int]) -> int:
        row, col = tile
        return sum(
            (row >> bit & 1) << (2 * bit + 1) | (col >> bit & 1) << 2 * bit for bit in range(6)
        )

    assert morton_walk(rows, cols) == sorted(grid_tiles(rows, cols), key=number)


@pytest.mark.parametrize("grid", [(1 << 15, 1), (1, 1 << 16), (0, 5), (5, 0)])
def test_morton_does_not_walk_what_lies_outside_a_narrow_grid(grid: tuple[int, int]) -> None:
    assert morton_walk(*grid) == grid_tiles(*grid)


def test_small_walks_by_hand() -> None:
    assert Order("row").tiles(2, 2) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert Order("column").tiles(2, 2) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert Order("snake").tiles(2, 2) == [(0, 0), (0, 1), (1, 1), (1, 0)]
    assert Order("grouped_m", 2).tiles(3, 2) == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    assert Order("grouped_n", 2).tiles(2, 3) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
    assert Order("hilbert").tiles(2, 2) == [(0, 0), (1, 0), (1, 1), (0, 1)]
    assert Order("morton").tiles(2, 3) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]


@settings(deadline=None, max_examples=60)
@given(
    kinds,
    st.integers(1, 40),
    st.integers(1, 20),
    st.integers(1, 20),
    st.sampled_from(CLUSTERS),
    st.sampled_from((1, 7, 132)),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_the_persistent_grid_computes_each_tile_once(
    kind: str,
    param: int,
    tiles_m: int,
    tiles_n: int,
    cluster: tuple[int, int],
    workers: int,
    batch: int,
    splits: int,
) -> None:
    size = cluster[0] * cluster[1]
    visits = persistent_walk(
        make_order(kind, param),
        tiles_m,
        tiles_n,
        grid=max(workers // size, 1) * size,
        cluster=cluster,
        batch=batch,
        splits=splits,
    )
    seen = [(visit.batch, *visit.tile, visit.split) for visit in visits]
    assert sorted(seen) == [
        (which, row, col, split)
        for which in range(batch)
        for row in range(tiles_m)
        for col in range(tiles_n)
        for split in range(splits)
    ]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("tiles", AWKWARD, ids=str)
def test_grouped_walks_of_awkward_grids_lose_no_tile(
    tiles: tuple[int, int], cluster: tuple[int, int]
) -> None:
    size = cluster[0] * cluster[1]
    for kind in KINDS:
        for param in range(1, 9):
            for workers in (1, 7, 132):
                order = make_order(kind, param)
                grid = max(workers // size, 1) * size
                visits = persistent_walk(order, *tiles, grid=grid, cluster=cluster)
                assert sorted(visit.tile for visit in visits) == grid_tiles(*tiles)


@pytest.mark.slow
@pytest.mark.parametrize("tiles", AWKWARD, ids=str)
@pytest.mark.prepare(host_programs.start_builds, [("host_walk", "plain")])
def test_the_kernels_task_loop_visits_what_python_says(tiles: tuple[int, int]) -> None:
    """NVIDIA/cutlass #3497: host and device rounded differently, and tiles at the end were lost."""
    cases = [
        (order, cluster, workers, splits)
        for order in (make_order(kind, width) for kind in KINDS for width in range(1, 9))
        if not order.needs_table
        for cluster in CLUSTERS
        for workers in (1, 7, 132)
        for splits in (1, 2)
    ]
    cases = list(dict.fromkeys(cases))
    numbers = [
        str(number)
        for order, cluster, workers, splits in cases
        for number in (order.code, order.param, *tiles, *cluster, workers, splits)
    ]
    done = host_programs.run("host_walk", "plain", *numbers)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(cases)
    for (order, cluster, workers, splits), line in zip(cases, lines, strict=True):
        size = cluster[0] * cluster[1]
        clusters = max(workers // size, 1)
        visits = persistent_walk(
            order, *tiles, grid=clusters * size, cluster=cluster, splits=splits
        )
        expected = [
            f"{v.block}:{v.step * clusters + v.block // size}:{v.tile[0]}:{v.tile[1]}:{v.split}"
            for v in visits
        ]
        assert line.split() == expected


def test_blocks_of_a_cluster_take_neighbouring_tiles_at_the_same_step() -> None:
    visits = list(persistent_walk(Order("grouped_m", 2), 6, 4, grid=4, cluster=(2, 1)))
    by_cluster: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for visit in visits:
        by_cluster.setdefault((visit.step, visit.block // 2), []).append(visit.tile)
    for first, second in by_cluster.values():
        assert second == (first[0] + 1, first[1])


def test_a_table_packs_rows_and_columns() -> None:
    assert Order("row").table(3, 4) is None
    for order in (Order("hilbert"), Order("morton")):
        table = order.table(3, 4)
        assert table is not None
        assert [(entry >> 16, entry & 0xFFFF) for entry in table] == order.tiles(3, 4)
        assert max(table) < 1 << 31


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Order("zigzag"), "unknown order 'zigzag'"),
        (lambda: Order("grouped_m"), "needs a width >= 1"),
        (lambda: Order("row", 3), "takes no param"),
        (lambda: Order.parse("zigzag:3"), "unknown order 'zigzag'"),
        (lambda: Order.parse("grouped_m"), "needs a width >= 1"),
        (lambda: Order.parse("grouped_m:wide"), "'wide' is no width; write grouped_m:8"),
        (lambda: Order("row").tile(6, 2, 3), "outside a grid of 2 x 3"),
        (lambda: Order("row").tile(-1, 2, 3), "outside a grid of 2 x 3"),
        (lambda: Order("hilbert").table(MAX_TABLE_ROWS + 1, 1), "does not fit its table"),
        (lambda: list(persistent_walk(Order("row"), 2, 2, grid=3, cluster=(2, 1))), "no multiple"),
    ],
)
def test_wrong_orders_are_refused_by_name(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


_PROGRAM = """
#include "tk/grid/order.hpp"
extern "C" void walk(int kind, int param, int rows, int cols, const int* table, int* tiles) {
    const tk::tile_order order{kind, param, rows, cols, table};
    for (int i = 0; i < rows * cols; ++i) {
        const tk::tile_coord at = order.at(i);
        tiles[i] = at.row << 16 | at.col;
    }
}
extern "C" void one(int kind, int param, int rows, int cols, int index, int* tile) {
    const tk::tile_coord at = tk::tile_order{kind, param, rows, cols, nullptr}.at(index);
    tile[0] = at.row, tile[1] = at.col;
}
"""

_FLAGS = [
    "-std=c++20",
    "-O1",
    "-fPIC",
    "-shared",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
    "-fsanitize=undefined",
    "-fno-sanitize-recover",
    "-DTK_ARCH_HOST",
    f"-I{ROOT / 'cpp' / 'include'}",
]


@pytest.fixture(scope="module")
def device_order(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """tk/grid/order.hpp compiled for the host, with the walk behind a C function."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    folder: Path = tmp_path_factory.mktemp("order")
    source, library = folder / "order.cpp", folder / "order.so"
    source.write_text(_PROGRAM)
    subprocess.run([compiler, *_FLAGS, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


@settings(deadline=None)
@given(kinds, sizes, sizes, sizes)
def test_cpp_and_python_agree_tile_by_tile(
    device_order: ctypes.CDLL, kind: str, param: int, rows: int, cols: int
) -> None:
    order = make_order(kind, param)
    table = order.table(rows, cols)
    packed = (ctypes.c_int * len(table))(*table) if table is not None else None
    tiles = (ctypes.c_int * (rows * cols))()
    device_order.walk(order.code, order.param, rows, cols, packed, tiles)
    assert [(tile >> 16, tile & 0xFFFF) for tile in tiles] == order.tiles(rows, cols)


@settings(deadline=None)
@given(
    st.sampled_from([kind for kind in KINDS if not make_order(kind, 1).needs_table]),
    st.integers(1, 1 << 20),
    st.integers(1, 1 << 15),
    st.integers(1, 1 << 15),
    st.floats(0, 1, exclude_max=True),
)
def test_cpp_and_python_agree_on_large_grids(
    device_order: ctypes.CDLL, kind: str, param: int, rows: int, cols: int, where: float
) -> None:
    order = make_order(kind, param)
    index = int(where * rows * cols)
    tile = (ctypes.c_int * 2)()
    device_order.one(order.code, order.param, rows, cols, index, tile)
    assert tuple(tile) == order.tile(index, rows, cols)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(CLUSTERS))
def test_the_cluster_grid_covers_the_output(
    tiles_m: int, tiles_n: int, cluster: tuple[int, int]
) -> None:
    rows, cols = cluster_grid(tiles_m, tiles_n, cluster)
    assert tiles_m <= rows * cluster[0] < tiles_m + cluster[0]
    assert tiles_n <= cols * cluster[1] < tiles_n + cluster[1]
