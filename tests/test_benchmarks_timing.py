"""The timing function: turns, quartiles, repetitions, and on a GPU what it must not count."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest
import torch

from tk.benchmarks.record import Timing
from tk.benchmarks.timing import (
    FLUSHES,
    Flush,
    interleaving,
    summarize,
    time_function,
    time_interleaved,
)

MODES = [(flush, graph) for flush in FLUSHES for graph in (True, False)]


def test_an_unknown_flush_is_refused() -> None:
    with pytest.raises(ValueError, match="flush is 'wipe'; must be one of read, write, none"):
        time_function(lambda: None, device="cpu", flush="wipe")


def test_every_round_of_the_interleaving_calls_each_function_once() -> None:
    order = interleaving(3, 4)
    assert order == [0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0]


def test_quartiles_are_those_of_the_samples() -> None:
    samples = [5.0, 1.0, 4.0, 2.0, 3.0]
    timing = summarize(samples)
    assert timing == Timing(median=3.0, q1=2.0, q3=4.0, repetitions=5)
    assert timing.median == statistics.median(samples)


def test_a_sleep_is_timed_as_long_as_it_is() -> None:
    timing = time_function(lambda: time.sleep(0.01), device="cpu", seconds=0.05)
    assert 0.01 <= timing.q1 <= timing.median <= timing.q3
    assert timing.median < 0.02
    assert timing.repetitions >= 5


def test_functions_run_in_turn_and_equally_often() -> None:
    calls: list[str] = []
    functions: list[Callable[[], object]] = [
        lambda: (calls.append("a"), time.sleep(0.001)),
        lambda: (calls.append("b"), time.sleep(0.002)),
    ]
    fast, slow = time_interleaved(functions, device="cpu", seconds=0.02, warm_up=1)
    assert calls.count("a") == calls.count("b")
    assert fast.repetitions == slow.repetitions >= 5
    assert fast.median < slow.median
    measured = "".join(calls[2:])  # after the warm-up
    assert "aaa" not in measured and "bbb" not in measured


def test_a_hopeless_function_keeps_its_estimate() -> None:
    fast, slow = time_interleaved(
        [lambda: time.sleep(0.001), lambda: time.sleep(0.03)],
        device="cpu",
        seconds=0.02,
        give_up=4.0,
    )
    assert fast.repetitions >= 5
    assert slow.repetitions == 2
    assert slow.median > 0.03


def test_a_function_without_a_chance_is_stopped_early_and_the_first_never_is() -> None:
    yardstick, fast, close, slow = time_interleaved(
        [
            lambda: time.sleep(0.004),
            lambda: time.sleep(0.001),
            lambda: time.sleep(0.001),
            lambda: time.sleep(0.006),
        ],
        device="cpu",
        seconds=0.08,
        min_repetitions=20,
        stop_early=True,
    )
    assert yardstick.repetitions == fast.repetitions == 20
    assert close.repetitions >= 5
    assert 3 <= slow.repetitions < 20
    assert slow.median > 0.006


def test_repetitions_stay_within_their_bounds() -> None:
    timing = time_function(lambda: None, device="cpu", seconds=1.0, max_repetitions=7)
    assert timing.repetitions == 7
    timing = time_function(lambda: time.sleep(0.01), device="cpu", seconds=1e-6, min_repetitions=3)
    assert timing.repetitions == 3


def test_nothing_to_time_gives_nothing() -> None:
    assert time_interleaved([], device="cpu") == []


@pytest.mark.parametrize(
    "options",
    [
        {"seconds": 0.0},
        {"min_repetitions": 0},
        {"min_repetitions": 5, "max_repetitions": 4},
        {"give_up": 0.5},
        {"graph": True},
    ],
)
def test_arguments_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        time_function(lambda: None, device="cpu", **options)


@pytest.mark.gpu
@pytest.mark.parametrize(("flush", "graph"), MODES)
def test_an_empty_function_takes_under_five_microseconds(flush: Flush, graph: bool) -> None:
    timing = time_function(lambda: None, flush=flush, graph=graph, seconds=0.002)
    assert timing.median < 5e-6


@pytest.mark.gpu
@pytest.mark.parametrize(("flush", "graph"), MODES)
def test_a_spin_of_a_millisecond_takes_a_millisecond(flush: Flush, graph: bool) -> None:
    spin = _spin_kernel()
    timing = time_function(lambda: spin(1_000_000), flush=flush, graph=graph, seconds=0.03)
    assert timing.median == pytest.approx(1e-3, rel=0.02)


@pytest.mark.gpu
@pytest.mark.parametrize("graph", [True, False])
def test_flushing_slows_a_copy_that_fits_l2_and_not_one_that_does_not(graph: bool) -> None:
    small = _copy(8 * 2**20)
    large = _copy(2**30)
    cold = time_interleaved([small, large], flush="read", graph=graph, seconds=0.02)
    warm = time_interleaved([small, large], flush="none", graph=graph, seconds=0.02)
    alone = time_function(small, flush="none", graph=graph, seconds=0.005)
    assert cold[0].median > alone.median
    assert cold[1].median == pytest.approx(warm[1].median, rel=0.03)


@pytest.mark.gpu
def test_the_host_being_slow_to_launch_is_not_in_the_figure() -> None:
    x = torch.zeros(1024, device="cuda")

    def slow_host() -> None:
        end = time.perf_counter() + 300e-6
        while time.perf_counter() < end:
            pass
        x.add_(1)

    quick, slow = time_interleaved([lambda: x.add_(1), slow_host], flush="none", seconds=0.002)
    assert slow.median < quick.median + 10e-6


@pytest.mark.gpu
def test_the_flush_follows_the_size_of_the_l2() -> None:
    from tk.benchmarks.timing import FLUSH_L2_SIZES, CudaClock

    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    assert CudaClock(flush="read").flush_bytes == FLUSH_L2_SIZES * l2_bytes
    assert CudaClock(flush="write").flush_bytes == FLUSH_L2_SIZES * l2_bytes
    assert CudaClock(flush="none").flush_bytes == 0


def _copy(size: int) -> Callable[[], object]:
    source = torch.randn(size // 4, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _spin_kernel() -> Callable[[int], object]:
    """A kernel that waits so many nanoseconds by the device's global timer."""
    pytest.importorskip("triton")
    from spin_kernel import spin

    target = torch.zeros(1, dtype=torch.int64, device="cuda")
    return lambda nanoseconds: spin[(1,)](target, nanoseconds)
