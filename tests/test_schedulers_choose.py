"""Which candidates there are, and how the best is chosen among groups that only claim figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from instance_table import matmul_instances

from tk.schedulers import Choice, Device, GemmProblem, Order, Prediction
from tk.schedulers.choose import Group, family_named, rank

INSTANCES = matmul_instances()
H200 = Device.named("h200")
ROW, COLUMN, BANDS, SNAKE = Order("row"), Order("column"), Order("grouped_m", 8), Order("snake")


@dataclass
class Claims:
    """A group whose orders take what it says, in microseconds."""

    microseconds: dict[Order, float]
    grid: int = 132
    least: float = 0.0
    asked: list[Order] = field(default_factory=list)

    def floor(self) -> float:
        return self.least * 1e-6

    def orders(self) -> Sequence[Order]:
        return [order for order in self.microseconds if not order.needs_table]

    def table_orders(self) -> Sequence[Order]:
        return [order for order in self.microseconds if order.needs_table]

    def choice(self, order: Order) -> Choice:
        return Choice(INSTANCES[0], 4, (1, 1), order, 1, self.grid)

    def predict(self, order: Order) -> Prediction:
        self.asked.append(order)
        seconds = self.microseconds[order] * 1e-6
        return Prediction(seconds, {"all": seconds}, {"all": seconds}, {}, 1.0, 1.0)


def best(*groups: Group) -> Choice:
    return rank(groups, 8)[0].choice


def test_the_fastest_order_of_the_fastest_group_wins() -> None:
    slow, fast = Claims({ROW: 30.0}), Claims({ROW: 25.0, BANDS: 26.0, SNAKE: 20.0})
    assert best(slow, fast).order == SNAKE
    assert [c.prediction.seconds for c in rank([slow, fast], 8)] == pytest.approx(
        [20e-6, 25e-6, 26e-6, 30e-6]
    )


def test_of_equal_orders_the_first_wins_and_a_table_must_gain() -> None:
    assert best(Claims({BANDS: 20.0, ROW: 20.0, COLUMN: 20.0})).order == BANDS
    assert best(Claims({ROW: 20.0, Order("hilbert"): 19.9})).order == ROW
    assert best(Claims({ROW: 20.0, Order("hilbert"): 19.0})).order == Order("hilbert")


def test_of_about_equal_groups_that_on_more_blocks_wins() -> None:
    few, many = Claims({ROW: 20.0}, grid=32), Claims({ROW: 20.15}, grid=128)
    assert best(few, many).grid == 128
    assert best(few, Claims({ROW: 20.4}, grid=128)).grid == 32


def test_orders_that_cannot_matter_are_not_tried() -> None:
    winner = Claims({ROW: 20.0, COLUMN: 20.0, BANDS: 20.0}, least=20.0)
    bounded = Claims({ROW: 20.5, COLUMN: 20.5, BANDS: 20.5}, least=20.5)
    hopeless = Claims({ROW: 40.0}, least=40.0)
    rank([winner, bounded, hopeless], 8)
    assert winner.asked == [ROW, COLUMN, BANDS]  # the runners-up are shown
    assert bounded.asked == [ROW, COLUMN]
    assert hopeless.asked == []


def test_nothing_to_rank_is_no_candidate() -> None:
    assert rank([], 8) == []


def choices(*shape: int, **changes: object) -> list[Choice]:
    problem = GemmProblem(*shape, **changes)  # type: ignore[arg-type]
    groups, _ = family_named("gemm").groups(problem, H200, INSTANCES)
    return [group.choice(order) for group in groups for order in group.orders()]


@pytest.mark.parametrize("b_major", ["k", "n"])
def test_bands_of_usual_widths_and_both_pairs_of_blocks_are_candidates(b_major: str) -> None:
    tried = choices(16384, 16384, 16384, b_major=b_major)
    for tile in ("128x256x64", "256x192x64", "256x128x64", "128x192x64", "128x128x64"):
        for cluster in ((1, 1), (2, 1), (1, 2)):
            orders = {c.order for c in tried if c.instance.tile == tile and c.cluster == cluster}
            for width in (4, 8, 16):
                assert {Order("grouped_m", width), Order("grouped_n", width)} <= orders
            assert {ROW, COLUMN, SNAKE} <= orders


def test_candidates_are_all_different() -> None:
    for shape in ((8192, 8192, 8192), (16, 4096, 14336), (1000, 1000, 1000)):
        tried = choices(*shape)
        assert len(tried) == len(set(tried))


def test_few_rows_are_tried_both_ways() -> None:
    for b_major in ("k", "n"):
        tried = choices(16, 4096, 14336, b_major=b_major)
        assert {c.swapped for c in tried} == {True, False}
        narrow = {(c.instance.tile_n, c.cluster) for c in tried if c.swapped}
        assert {(16, (1, 1)), (16, (2, 1)), (64, (1, 1)), (64, (2, 1))} <= narrow
        assert {c.splits for c in tried if c.instance.tile_n == 16} >= {1, 2, 3, 4, 8}


def test_blocks_take_work_when_free_where_memory_serves_them_unevenly() -> None:
    """Rounds of small tiles that are read from memory; not one round, nor rounds of products."""
    assert any(c.dynamic for c in choices(128, 128256, 4096))
    assert not any(c.dynamic for c in choices(128, 4096, 4096) if c.splits == 1)
    assert not any(c.dynamic for c in choices(8192, 8192, 8192))
    assert all(c.cluster == (1, 1) for c in choices(128, 128256, 4096) if c.dynamic)


def test_an_exchange_that_a_direct_tile_matches_is_not_tried() -> None:
    for choice in choices(256, 4096, 4096):
        # 128 x 256 exchanged covers what 256 x 128 does, with a slower output.
        assert not (choice.swapped and choice.instance.tile in ("128x256x64", "128x128x64"))
    assert not any(choice.swapped for choice in choices(512, 4096, 4096))
