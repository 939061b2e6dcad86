"""Uneven work: the order longest first, its makespans against all assignments there are, and the
work of attention's query tiles against its mask."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk.schedulers.attention_tiles import (
    Window,
    attention_costs,
    key_tiles,
    varlen_costs,
    varlen_tiles,
)
from tk.schedulers.uneven import NO_ITEM, longest_first, makespans, round_robin, when_free

few_costs = st.lists(st.integers(0, 20), max_size=7)
many_costs = st.lists(st.floats(0, 1e6), max_size=200)
limits = st.none() | st.integers(0, 40)


def shortest(costs: list[int], workers: int) -> int:
    """The least makespan of all assignments."""
    return min(
        max(sum(c for c, at in zip(costs, where, strict=True) if at == w) for w in range(workers))
        for where in product(range(workers), repeat=len(costs))
    )


@given(many_costs)
def test_longest_first_is_a_stable_bijection_by_falling_cost(costs: list[float]) -> None:
    order = longest_first(costs)
    assert sorted(order) == list(range(len(costs)))
    keys = [(-costs[item], item) for item in order]
    assert keys == sorted(keys)


@given(few_costs, st.integers(1, 3))
def test_longest_first_when_free_is_within_grahams_bound(costs: list[int], workers: int) -> None:
    best = shortest(costs, workers)
    found = makespans(costs, workers)
    assert found.bound <= best <= found.dynamic_longest_first
    assert found.dynamic_longest_first <= best * (4 / 3 - 1 / (3 * workers)) + 1e-9
    # In any order a queue ends within (2 - 1/m) of the best.
    assert found.dynamic <= best * (2 - 1 / workers) + 1e-9


@given(many_costs, st.integers(1, 40), st.randoms())
def test_every_assignment_does_each_item_once_and_all_the_work(
    costs: list[float], workers: int, random: object
) -> None:
    order = longest_first(costs)
    random.shuffle(order)  # type: ignore[attr-defined]
    for assign in (round_robin, when_free):
        for walk in (None, order):
            made = assign(costs, workers, walk)
            assert len(made.items) == workers
            assert sorted(item for mine in made.items for item in mine) == sorted(order)
            assert sum(made.loads) == pytest.approx(sum(costs))
            assert made.makespan == pytest.approx(max(made.loads))
            assert 0 < made.balance <= 1 + 1e-9


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 7))
def test_the_table_has_each_workers_items_in_its_column(costs: list[int], workers: int) -> None:
    made = when_free(costs, workers, longest_first(costs))
    table = made.table()
    assert len(table) % workers == 0
    columns = [[e for e in table[worker::workers] if e != NO_ITEM] for worker in range(workers)]
    assert [tuple(column) for column in columns] == list(made.items)


def test_makespans_by_hand() -> None:
    # Causal attention over four key tiles on two workers: 1 + 3 and 2 + 4 in turns; 4 + 1, 3 + 2.
    found = makespans([1, 2, 3, 4], 2)
    assert (found.static, found.static_longest_first) == (6, 6)
    assert (found.dynamic, found.dynamic_longest_first, found.bound) == (6, 5, 5)
    # Graham's own worst case for two workers: 7/6 of the best, which is 6.
    worst = makespans([3, 3, 2, 2, 2], 2)
    assert worst.dynamic_longest_first == 7 and shortest([3, 3, 2, 2, 2], 2) == 6
    # The two shortest of the three longest share a worker.
    assert makespans([5, 5, 5], 2).bound == 10
    empty = makespans([], 4)
    assert empty.static == empty.dynamic == empty.bound == 0
    assert str(found).startswith("static 6, longest first 6; dynamic 6")


def test_causal_tiles_longest_first_end_earlier() -> None:
    """8192 queries and keys in tiles of 128 x 128, 16 heads, 132 workers."""
    costs = attention_costs(8192, 8192, 128, 128, causal=True) * 16
    found = makespans(costs, 132)
    assert found.dynamic_longest_first < 1.01 * found.bound
    assert found.static > 1.1 * found.bound


def visible(i: int, j: int, offset: int, causal: bool, window: Window) -> bool:
    left, right = window[0], 0 if causal else window[1]
    distance = j - i - offset
    return (left is None or distance >= -left) and (right is None or distance <= right)


@given(
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(1, 17),
    st.integers(1, 17),
    st.booleans(),
    st.tuples(limits, limits),
)
def test_key_tiles_are_those_in_which_the_mask_leaves_an_element(
    queries: int, keys: int, query_tile: int, key_tile: int, causal: bool, window: Window
) -> None:
    expected = [
        sorted(
            {
                j // key_tile
                for i in range(first, min(first + query_tile, queries))
                for j in range(keys)
                if visible(i, j, keys - queries, causal, window)
            }
        )
        for first in range(0, queries, query_tile)
    ]
    found = key_tiles(queries, keys, query_tile, key_tile, causal=causal, window=window)
    assert [list(tiles) for tiles in found] == expected
    costs = attention_costs(
        queries, keys, query_tile, key_tile, causal=causal, window=window, overhead=0.5
    )
    assert costs == [len(tiles) + 0.5 for tiles in expected]


def test_known_tiles() -> None:
    assert attention_costs(512, 512, 128, 128, causal=True) == [1, 2, 3, 4]
    assert attention_costs(512, 512, 128, 128) == [4, 4, 4, 4]
    # One new query after 1000 keys sees them all; more queries than keys: the first see none.
    assert attention_costs(1, 1001, 128, 128, causal=True) == [8]
    assert attention_costs(256, 128, 128, 128, causal=True) == [0, 1]
    assert attention_costs(512, 512, 128, 128, causal=True, window=(127, None)) == [1, 2, 2, 2]


def test_sequences_of_different_lengths_have_their_own_tiles() -> None:
    items = varlen_tiles([300, 0, 128], [300, 5, 640], 128, 128, heads=2, causal=True)
    assert [(i.sequence, i.head, i.tile) for i in items] == [
        *((0, head, tile) for head in range(2) for tile in range(3)),
        (2, 0, 0),
        (2, 1, 0),
    ]
    assert varlen_costs(items) == [1, 2, 3, 1, 2, 3, 5, 5]
    assert longest_first(varlen_costs(items))[:3] == [6, 7, 2]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"costs\[1\] is -1"):
        longest_first([1, -1])
    with pytest.raises(ValueError, match=r"costs\[0\] is nan"):
        longest_first([float("nan")])
    with pytest.raises(ValueError, match="workers is 0"):
        makespans([1], 0)
    with pytest.raises(ValueError, match="each of the 3 items once"):
        when_free([1, 2, 3], 2, [0, 1, 1])
    with pytest.raises(ValueError, match="key_tile is 0"):
        key_tiles(1, 1, 1, 0)
    with pytest.raises(ValueError, match=r"window\[0\] is -2"):
        key_tiles(1, 1, 1, 1, window=(-2, None))
    with pytest.raises(ValueError, match="query_lengths has 2 sequences, key_lengths 1"):
        varlen_tiles([1, 2], [1], 1, 1)
    with pytest.raises(ValueError, match="heads is 0"):
        varlen_tiles([1], [1], 1, 1, heads=0)
