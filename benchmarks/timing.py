"""The one timing function, for our kernels and for their rivals.

Device events around each call, the L2 cache cold, warm-up first, median with quartiles, and the
candidates interleaved call by call (A B C, C B A, ...) so that drift of clocks and temperature
hits all of them alike.

What the figure holds: from the moment the device reaches the call to the moment it has finished
it. What it does not hold:

- the host's time to launch: a spin kernel before each call keeps the device behind the host;
- the flush, which runs before the start event over a buffer of several times the L2. By default it
  *reads*: no dirty line is left to be written back during the call. ``flush="write"`` writes zeros,
  as ``triton.testing.do_bench`` does: a call then also pays for writing back what it displaces, up
  to an L2's worth, as after a kernel that has just written its output. Compare figures of one kind
  alone: small calls differ by up to a third.

With ``graph=True`` the same sequence is captured in a CUDA graph, events included, which takes
the launch latency of the device out too. On the CPU the clock is ``time.perf_counter`` and
nothing is flushed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch

from tk.benchmarks.record import Timing

FLUSH_L2_SIZES = 4  # bytes read by a flush, in sizes of the L2: random replacement keeps e^-4
DEFAULT_L2_BYTES = 64 * 2**20  # when the driver does not say
MAX_SPIN_SECONDS = 5e-3
SPIN_HZ = 2e9  # a spin is counted in cycles; at a lower clock it lasts longer, which is safe
GRAPH_UNROLL = 10  # calls in one captured graph
STAGES = 4  # of the repetitions, when those that have no chance are stopped early
FEWEST_TO_STOP = 3  # repetitions before that
CLEARLY = 1.02
CALLS_IN_FLIGHT = 96  # with a spin and a flush each, well under the 1024 launches a stream queues

Function = Callable[[], object]
Flush = Literal["read", "write", "none"]
"""What is done to the L2 cache before each call: see above."""
FLUSHES: tuple[Flush, ...] = get_args(Flush)


class Clock(Protocol):
    """Runs functions in the order given and returns the seconds of each call."""

    def warm_up(self, function: Function) -> None: ...

    def sample(self, functions: Sequence[Function]) -> list[float]: ...


def time_interleaved(
    functions: Sequence[Function],
    *,
    device: torch.device | str = "cuda",
    seconds: float = 0.05,
    flush: Flush = "read",
    graph: bool = False,
    warm_up: int = 2,
    min_repetitions: int = 5,
    max_repetitions: int = 500,
    give_up: float = math.inf,
    stop_early: bool = False,
) -> list[Timing]:
    """Times several functions against each other and returns one :class:`Timing` for each.

    ``seconds`` is the time that the slowest function may run in all; the number of repetitions
    follows from it, within ``min_repetitions`` and ``max_repetitions``, and is the same for all.
    A function that a first estimate puts at more than ``give_up`` times the fastest keeps that
    estimate (of few repetitions) as its timing. With ``stop_early`` the repetitions are made in
    stages, after each of which those functions are left out that have no chance to be the fastest
    (their lower quartile is CLEARLY above the best upper one); the first function, what the others
    are compared to, never is. Functions run on the current stream and must be
    capturable when ``graph`` is set. Raises ValueError for arguments that make no sense.
    """
    if not functions:
        return []
    if seconds <= 0 or min_repetitions < 1 or max_repetitions < min_repetitions or give_up < 1:
        raise ValueError(
            f"seconds={seconds}, min_repetitions={min_repetitions}, "
            f"max_repetitions={max_repetitions}, give_up={give_up}: the first must be positive, "
            "the second at least 1 and at most the third, the last at least 1"
        )
    if flush not in FLUSHES:
        raise ValueError(f"flush is {flush!r}; must be one of {', '.join(FLUSHES)}")
    device = torch.device(device)
    if device.type == "cuda":
        with torch.cuda.device(device):
            return _measure(
                CudaClock(flush=flush),
                functions,
                seconds,
                graph,
                warm_up,
                min_repetitions,
                max_repetitions,
                give_up,
                stop_early,
            )
    if graph:
        raise ValueError("graph=True needs a CUDA device")
    return _measure(
        CpuClock(),
        functions,
        seconds,
        False,
        warm_up,
        min_repetitions,
        max_repetitions,
        give_up,
        stop_early,
    )


def time_function(function: Function, **options: object) -> Timing:
    """:func:`time_interleaved` of one function; the options are the same."""
    return time_interleaved([function], **options)[0]  # type: ignore[arg-type]


def summarize(samples: Sequence[float]) -> Timing:
    """Median and quartiles (linear interpolation) of times in seconds."""
    q1, median, q3 = np.percentile(np.asarray(samples, dtype=np.float64), (25.0, 50.0, 75.0))
    return Timing(float(median), float(q1), float(q3), len(samples))


def interleaving(count: int, rounds: int) -> list[int]:
    """The order of calls: every function once a round, each second round backwards."""
    forward = list(range(count))
    return [i for r in range(rounds) for i in (forward if r % 2 == 0 else forward[::-1])]


def _measure(
    clock: CudaClock | CpuClock,
    functions: Sequence[Function],
    seconds: float,
    graph: bool,
    warm_up: int,
    min_repetitions: int,
    max_repetitions: int,
    give_up: float,
    stop_early: bool,
) -> list[Timing]:
    for function in functions:
        for _ in range(warm_up):
            clock.warm_up(function)
    estimates = _collect(clock, functions, 2)
    quickest = min(min(samples) for samples in estimates)
    limit = give_up * max(quickest, 1e-9)
    kept = [i for i, samples in enumerate(estimates) if min(samples) <= limit]
    slowest = max(min(estimates[i]) for i in kept)
    rounds = math.ceil(seconds / max(slowest, 1e-9))
    rounds = max(min_repetitions, min(max_repetitions, rounds))
    found: list[list[float]] = [[] for _ in functions]
    stages = STAGES if stop_early else 1
    for stage in range(stages):
        share = rounds * (stage + 1) // stages - rounds * stage // stages
        chosen = [functions[i] for i in kept]
        if graph and isinstance(clock, CudaClock):
            samples = clock.sample_graphs(chosen, share)
        else:
            samples = _collect(clock, chosen, share)
        for i, s in zip(kept, samples, strict=True):
            found[i] += s
        if stage < stages - 1:
            kept = _with_a_chance(kept, found)
    return [summarize(s or estimate) for s, estimate in zip(found, estimates, strict=True)]


def _with_a_chance(kept: Sequence[int], samples: Sequence[Sequence[float]]) -> list[int]:
    """Those of the functions that may yet be the fastest, and the first one of all."""
    known = {i: summarize(samples[i]) for i in kept if len(samples[i]) >= FEWEST_TO_STOP}
    if not known:
        return list(kept)
    limit = CLEARLY * min(timing.q3 for timing in known.values())
    return [i for i in kept if i == 0 or i not in known or known[i].q1 <= limit]


def _collect(clock: Clock, functions: Sequence[Function], rounds: int) -> list[list[float]]:
    order = interleaving(len(functions), rounds)
    samples: list[list[float]] = [[] for _ in functions]
    for index, value in zip(order, clock.sample([functions[i] for i in order]), strict=True):
        samples[index].append(value)
    return samples


class CpuClock:
    """``time.perf_counter`` around each call."""

    def warm_up(self, function: Function) -> None:
        """Runs the function once, untimed."""
        function()

    def sample(self, functions: Sequence[Function]) -> list[float]:
        """Seconds of each call, in order."""
        seconds = []
        for function in functions:
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
        return seconds


class CudaClock:
    """CUDA events on the current stream of the current device."""

    def __init__(self, *, flush: Flush) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        l2_bytes = int(getattr(properties, "L2_cache_size", 0)) or DEFAULT_L2_BYTES
        self.flush_bytes = 0 if flush == "none" else FLUSH_L2_SIZES * l2_bytes
        self._writes = flush == "write"
        self._buffer = torch.zeros(self.flush_bytes // 4, device="cuda", dtype=torch.float32)
        self._sink = torch.zeros((), device="cuda", dtype=torch.float32)
        self._spin_seconds = 100e-6  # then: the host's time for one repetition, and half as much

    def warm_up(self, function: Function) -> None:
        """Runs the function once, untimed, and waits for it."""
        self._flush()
        function()
        torch.cuda.synchronize()

    def sample(self, functions: Sequence[Function]) -> list[float]:
        """Seconds of each call, in order; each is preceded by a spin and a flush."""
        seconds: list[float] = []
        for first in range(0, len(functions), CALLS_IN_FLIGHT):
            part = functions[first : first + CALLS_IN_FLIGHT]
            events = [_event_pair() for _ in part]
            host_seconds = []
            for function, (start, end) in zip(part, events, strict=True):
                _spin(self._spin_seconds)
                began = time.perf_counter()
                self._flush()
                start.record()
                function()
                end.record()
                host_seconds.append(time.perf_counter() - began)
            torch.cuda.synchronize()
            # Of the slower functions, but not of one call that the system interrupted.
            self._spin_seconds = 10e-6 + 1.5 * float(np.percentile(host_seconds, 90))
            seconds += [start.elapsed_time(end) * 1e-3 for start, end in events]
        return seconds

    def sample_graphs(self, functions: Sequence[Function], rounds: int) -> list[list[float]]:
        """Seconds of ``rounds`` calls or a few more of each function, captured in graphs."""
        unroll = min(rounds, GRAPH_UNROLL)
        captured = [self._capture(function, unroll) for function in functions]
        samples: list[list[float]] = [[] for _ in functions]
        replays = math.ceil(rounds / unroll)
        for index in interleaving(len(functions), replays):
            graph, events = captured[index]
            graph.replay()
            torch.cuda.synchronize()
            samples[index] += [start.elapsed_time(end) * 1e-3 for start, end in events]
        return samples

    def _capture(
        self, function: Function, unroll: int
    ) -> tuple[torch.cuda.CUDAGraph, list[tuple[torch.cuda.Event, torch.cuda.Event]]]:
        try:
            events = [_event_pair(external=True) for _ in range(unroll)]
        except TypeError as error:
            raise ValueError(
                f"graph=True needs events that a graph can record; torch {torch.__version__} "
                "has none, 2.8 and later do"
            ) from error
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for start, end in events:
                self._flush()
                start.record()
                function()
                end.record()
        return graph, events

    def _flush(self) -> None:
        if not self.flush_bytes:
            return
        if self._writes:
            self._buffer.zero_()
        else:
            torch.sum(self._buffer, dim=0, out=self._sink)


def _spin(seconds: float) -> None:
    spin: Any = torch.cuda._sleep
    spin(int(min(seconds, MAX_SPIN_SECONDS) * SPIN_HZ))


def _event_pair(**options: bool) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    event: Any = torch.cuda.Event
    return event(enable_timing=True, **options), event(enable_timing=True, **options)
