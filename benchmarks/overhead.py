"""The Python side of a call: how long the host is busy until the call returns, not waiting."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

import tk
from tk.benchmarks.timing import interleaving

CALLS = 100  # in one batch: short enough that the stream's queue never fills
BATCHES = 30


def host_call_seconds(device: torch.device) -> dict[str, float]:
    """Seconds of a call of tk.matmul and of torch.matmul on a small product, by name.

    The median over batches of calls, interleaved, after warm-up, so that everything that is
    cached is; the device is idle at the start of each batch.
    """
    a = torch.randn(128, 128, device=device, dtype=torch.bfloat16)
    b = torch.randn(128, 128, device=device, dtype=torch.bfloat16).t()
    functions: dict[str, Callable[[], object]] = {
        "tk.matmul": lambda: tk.matmul(a, b),
        "torch.matmul": lambda: torch.matmul(a, b),
    }
    names = list(functions)
    samples: dict[str, list[float]] = {name: [] for name in names}
    with torch.cuda.device(device):
        for index in interleaving(len(names), BATCHES):
            samples[names[index]].append(_batch(functions[names[index]]))
    return {name: statistics.median(values[2:]) for name, values in samples.items()}


def _batch(function: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        function()
    seconds = time.perf_counter() - start
    torch.cuda.synchronize()
    return seconds / CALLS
