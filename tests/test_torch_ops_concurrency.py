"""Threads, streams, CUDA graphs and several devices: calls that meet do not disturb each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from matmul_inputs import random

import tk
from tk import resources
from tk.ops.matmul_eager import prepared_calls
from tk.schedulers import Order, Plan

cuda: Any = torch.cuda
two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def split_plan(a: torch.Tensor, b: torch.Tensor) -> Plan:
    return tk.plan_matmul(a, b).replace(splits=3)


def split_operands(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return random((40, 520), device=device), random((520, 24), device=device)


def test_threads_at_once_get_their_own_results(device: str) -> None:
    """Other shapes and plans in each thread, nothing prepared before: loading, planning, counters
    of split products and caches all meet."""
    work: list[tuple[torch.Tensor, torch.Tensor, Plan | None]] = []
    for rows in (1, 17, 40, 65):
        a, b = random((rows, 520), device=device), random((520, 24), device=device)
        work += [(a, b, None), (a, b, split_plan(a, b))]
    expected = [tk.matmul(a, b, plan=plan) for a, b, plan in work]
    prepared_calls.clear()
    start = threading.Barrier(4)

    def run(which: int) -> list[bool]:
        start.wait()
        order = work[which:] + work[:which]
        wanted = expected[which:] + expected[:which]
        return [
            torch.equal(tk.matmul(a, b, plan=plan), result)
            for _ in range(3)
            for (a, b, plan), result in zip(order, wanted, strict=True)
        ]

    with ThreadPoolExecutor(4) as pool:
        assert all(all(results) for results in pool.map(run, range(4)))


def test_the_interpreter_runs_on_during_a_host_product() -> None:
    a = random((1024, 1024))
    done = threading.Event()

    def multiply() -> None:
        tk.matmul(a, a)
        done.set()

    thread = threading.Thread(target=multiply)
    thread.start()
    counted = 0
    while not done.is_set():
        counted += 1
    thread.join()
    assert counted > 1000


@pytest.mark.gpu
def test_streams_at_once() -> None:
    """Split products share no counters across streams; each stream waits for its inputs alone."""
    a, b = random((64, 4096), device="cuda"), random((4096, 64), device="cuda")
    plan = split_plan(a, b)
    expected = tk.matmul(a, b, plan=plan)
    streams = [cuda.Stream() for _ in range(4)]
    results = []
    torch.cuda.synchronize()
    for _ in range(20):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(tk.matmul(a, b, plan=plan))
    torch.cuda.synchronize()
    assert all(torch.equal(result, expected) for result in results)


@pytest.mark.gpu
def test_a_call_runs_on_the_current_stream() -> None:
    a, b = random((512, 512), device="cuda"), random((512, 512), device="cuda")
    expected = tk.matmul(a, b)
    stream = cuda.Stream()
    late = torch.zeros_like(a)
    with torch.cuda.stream(stream):
        cuda._sleep(50_000_000)
        late.copy_(a)
        result = tk.matmul(late, b)
    stream.synchronize()
    assert torch.equal(result, expected)


def captured(function: Callable[[], torch.Tensor]) -> tuple[Any, torch.Tensor]:
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        out = function()
    return graph, out


PLANS: dict[str, Callable[[Plan], Plan]] = {
    "default": lambda plan: plan,
    "split": lambda plan: plan.replace(splits=3),
    "hilbert": lambda plan: plan.replace(order=Order("hilbert")),
    "split hilbert": lambda plan: plan.replace(order=Order("hilbert"), splits=2),
}


@pytest.mark.gpu
@pytest.mark.parametrize("warm", [False, True], ids=["first call in the capture", "warm"])
@pytest.mark.parametrize("kind", PLANS)
def test_graphs_replay_with_new_inputs(kind: str, warm: bool) -> None:
    """Dao-AILab/flash-attention #165, #379: something of the host was asked for in a capture."""
    rows = 300 + 8 * list(PLANS).index(kind) + 64 * warm  # shapes that no other test has warmed
    a, b = random((rows, 1024), device="cuda"), random((1024, 600), device="cuda")
    bias = torch.randn(600, device="cuda")
    plan = PLANS[kind](tk.plan_matmul(a, b))

    def function() -> torch.Tensor:
        return tk.matmul(a, b, bias=bias, activation="gelu", plan=plan)

    if warm:
        function()
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["num_alloc_retries"]
    graph, out = captured(function)
    for _ in range(5):
        a.normal_()
        out.fill_(float("nan"))
        graph.replay()
        assert torch.equal(out, function())
    assert torch.cuda.memory_stats()["num_alloc_retries"] == before


@pytest.mark.gpu
def test_a_graph_and_eager_calls_share_a_stream() -> None:
    """A captured split product has counters of its own, cleared at each replay."""
    a, b = random((64, 4096), device="cuda"), random((4096, 64), device="cuda")
    plan = split_plan(a, b)
    expected = tk.matmul(a, b, plan=plan)
    graph, out = captured(lambda: tk.matmul(a, b, plan=plan))
    for _ in range(10):
        graph.replay()
        assert torch.equal(tk.matmul(a, b, plan=plan), expected)
        assert torch.equal(out, expected)


@pytest.mark.gpu
@pytest.mark.slow
def test_graph_trees_of_the_compiler() -> None:
    """Memory pools of the compiler's graphs must not own what outlives a call."""
    a, b = random((72, 2048), device="cuda"), random((2048, 72), device="cuda")
    plan = split_plan(a, b).replace(order=Order("hilbert"))
    compile_: Any = torch.compile
    compiler: Any = torch.compiler
    fast = compile_(lambda a: tk.matmul(a, b, plan=plan) + 1, mode="reduce-overhead")
    expected = tk.matmul(a, b, plan=plan) + 1
    for _ in range(5):
        compiler.cudagraph_mark_step_begin()
        assert torch.equal(fast(a), expected)


@pytest.mark.gpu
def test_counters_are_zero_after_every_call() -> None:
    a, b = split_operands("cuda")
    tk.matmul(a, b, plan=split_plan(a, b))
    torch.cuda.synchronize()
    assert resources._counters
    assert all(not counters.any() for counters in resources._counters.values())


@pytest.mark.gpu
@two_gpus
def test_a_second_device_while_the_first_is_current() -> None:
    """bitsandbytes PR #1952: a limit of a kernel was set for whichever device came first."""
    a, b = split_operands("cuda:0")
    plan = split_plan(a, b)
    a_other, b_other = a.to("cuda:1"), b.to("cuda:1")
    torch.cuda.set_device(0)
    for each in (None, plan):
        expected = tk.matmul(a, b, plan=each)
        other = tk.matmul(a_other, b_other, plan=each)
        assert other.device.index == 1
        assert torch.equal(other.cpu(), expected.cpu())
        assert torch.cuda.current_device() == 0

    def on_the_other() -> bool:
        torch.cuda.set_device(1)
        same = torch.equal(tk.matmul(a, b, plan=plan).cpu(), expected.cpu())
        return same and torch.cuda.current_device() == 1

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(on_the_other).result()
    with pytest.raises(ValueError, match=r"b is on cuda:1 while a is on cuda:0"):
        tk.matmul(a, b_other)
