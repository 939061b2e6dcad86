"""Which candidates there are, and how the best is chosen among groups that only claim figures."""

from __future__ import annotations

import pickle
import timeit
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instance_table import matmul_instances

from tk.schedulers import Choice, Device, GemmProblem, Order, Prediction, choose, plan_gemm
from tk.schedulers.choose import Group, family_named, rank
from tk.schedulers.gemm import GemmProspects
from tk.schedulers.gemm_bounds import way_bounds
from tk.schedulers.gemm_cost import GemmCost
from tk.schedulers.gemm_ways import ways_of

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

    def seconds(self, order: Order) -> float:
        return self.microseconds[order] * 1e-6

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


SUITE = [(4096, 4096, k) for k in (64, 256, 1024)] + [(size,) * 3 for size in (4096, 8192, 16384)]
SUITE += [
    (m, n, k)
    for n, k in ((4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (128256, 4096))
    for m in (1, 16, 128, 512, 2048, 8192)
]
SUITE += [(1000, 1000, 1000), (4104, 4088, 4072), (3000, 5000, 7000), (8192, 28672, 8192)]


def assert_best_is_first_of_all(problem: GemmProblem, device: Device, keep: int = 8) -> None:
    """What planning finds by making a few groups is what ranking all of them puts first."""
    family = family_named("gemm")
    bounds = way_bounds(problem, device, ways_of(problem, device, INSTANCES).table)
    groups, _ = family.groups(problem, device, INSTANCES)
    prospects = GemmProspects(problem, device, INSTANCES)
    indices = prospects.within(inf)
    assert indices == sorted(indices) and len(indices) == len(groups)
    for group, index in zip(groups, indices, strict=True):
        assert prospects.bound(index) <= group.floor()
        assert bounds[index[0]] <= prospects.bound(index) * (1 + 1e-12)
    found = choose.best(prospects, keep)
    ranked = rank(groups, keep)
    assert found is not None and found.choice == ranked[0].choice
    assert found.prediction == ranked[0].prediction


@pytest.mark.parametrize("majors", ["kk", "kn", "mk", "mn"])
def test_the_quick_choice_is_that_of_ranking_everything(majors: str) -> None:
    for shape in SUITE:
        problem = GemmProblem(*shape, a_major=majors[0], b_major=majors[1])
        assert_best_is_first_of_all(problem, H200)


sizes = st.one_of(st.integers(1, 64), st.integers(1, 20000), st.sampled_from((4096, 8192)))


@settings(deadline=None, max_examples=60)
@given(
    sizes,
    sizes,
    st.one_of(st.just(0), sizes),
    st.sampled_from((1, 1, 3)),
    st.sampled_from(("tma", "gather")),
    st.sampled_from(("bf16", "fp32")),
    st.sampled_from(Device.names()),
    st.sampled_from((1, 8)),
)
def test_the_quick_choice_is_right_for_any_problem(
    m: int, n: int, k: int, batch: int, loader: str, out_dtype: str, device: str, keep: int
) -> None:
    problem = GemmProblem(m, n, k, batch, loader=loader, out_dtype=out_dtype)
    assert_best_is_first_of_all(problem, Device.named(device), keep)


def test_little_is_worked_out_for_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred candidates and more, on some forty ways, a few are looked into."""
    calls: Counter[str] = Counter()

    def count(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def counted(*arguments: Any) -> Any:
            calls[name] += 1
            return real(*arguments)

        monkeypatch.setattr(owner, name, counted)

    count(GemmProspects, "group")
    count(GemmProspects, "_look_into")
    count(GemmCost, "_time")
    for m, most_ways, most_groups in ((1, 8, 8), (16, 8, 8), (128, 8, 8), (512, 4, 4)):
        calls.clear()
        prospects = GemmProspects(GemmProblem(m, 4096, 4096), H200, INSTANCES)
        choose.best(prospects, 8)
        assert calls["_look_into"] <= most_ways and calls["group"] <= most_groups, (m, calls)
        assert calls["_time"] <= 4 * calls["group"] + 4, (m, calls)  # floors, orders, the winner
        assert len(prospects.within(inf)) > 80


def test_a_plan_is_made_once_for_a_device_and_a_table() -> None:
    problem = GemmProblem(517, 4096, 4096)
    first = plan_gemm(problem, H200, INSTANCES)
    assert plan_gemm(replace(problem), H200, tuple(INSTANCES)) is first
    other = plan_gemm(problem, H200, INSTANCES[:-1])
    assert other is not first and other == first
    faster = replace(H200, clock_hz=2.5e9)
    assert plan_gemm(problem, faster, INSTANCES).device is faster
    changed = [replace(INSTANCES[0], fixed_bytes=4096), *INSTANCES[1:]]
    assert plan_gemm(problem, H200, changed) is not first


def test_looking_up_a_plan_takes_two_microseconds() -> None:
    """1.3 us; on a slower or busier machine, less than 60 calls of a function that does nothing."""
    table, problem = tuple(INSTANCES), GemmProblem(512, 4096, 4096)
    plan_gemm(problem, H200, table)

    def fastest(work: Callable[[], object]) -> float:
        return min(timeit.repeat(work, timer=process_time, number=2000, repeat=20)) / 2000

    assert fastest(lambda: plan_gemm(problem, H200, table)) < max(2e-6, 60 * fastest(lambda: None))


def test_runners_up_are_ranked_when_they_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_gemm(GemmProblem(519, 4096, 4096), H200, INSTANCES)
    copied = pickle.loads(pickle.dumps(plan))
    assert copied == plan and list(copied.alternatives) == list(plan.alternatives)
    monkeypatch.setattr("tk.schedulers.plan.rank", None)  # a second time would fail
    assert len(plan.alternatives) >= 7 and plan.alternatives[0].choice != plan.choice
    assert len(plan.alternatives[:3]) == 3
    assert any("fp16" in entry.reason for entry in plan.rejected)
