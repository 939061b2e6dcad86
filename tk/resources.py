"""Small device memory that outlives a call: counters of splits and queues, tables of tile orders.

It is taken from torch's allocator, but on a thread and a stream of its own: memory pools (of CUDA
graphs, of torch.compile's graph trees) are bound to a thread or a stream, and must not own what
outlives them. Nothing is ever freed while the process lives, since a kernel in flight or a
captured graph may still use it; instead the total is bounded, and past the bound callers get
memory for one call (counters) or another tile order (tables).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["capturing", "counters", "order_table"]

FEWEST_COUNTERS = 4096
MOST_STREAMS = 1024
MOST_TABLE_BYTES = 64 << 20

_lock = threading.Lock()
_PER_THREAD = 2  # cudaStreamPerThread: one handle, another stream in each thread

_counters: dict[tuple[int, int], torch.Tensor] = {}
_outgrown: list[torch.Tensor] = []
_tables: dict[tuple[int, str, int, int, int], torch.Tensor] = {}
_table_bytes: dict[int, int] = {}


def capturing(index: int) -> bool:
    """Whether the current stream of that CUDA device is being captured into a graph."""
    if torch.cuda.current_device() == index:
        return torch.cuda.is_current_stream_capturing()
    with torch.cuda.device(index):
        return torch.cuda.is_current_stream_capturing()


def _apart(index: int, make: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, torch.cuda.Event]:
    """`make()` on a fresh thread and stream, with an event behind its work."""
    made: list[tuple[torch.Tensor, torch.cuda.Event]] = []
    cuda: Any = torch.cuda
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with torch.cuda.device(index), cuda.stream(cuda.Stream(index)):
                tensor = make()
                event = cuda.Event()
                event.record()
                made.append((tensor, event))
        except BaseException as error:  # handed to the caller, whatever it is
            errors.append(error)

    thread = threading.Thread(target=work, name="tk-resources")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return made[0]


def counters(index: int, stream: int, count: int) -> torch.Tensor:
    """At least `count` int32 zeros on CUDA device `index` for a kernel that leaves them 0, on the
    device's current stream, whose handle is `stream`.

    The same memory for every call on a stream, which runs them one after the other. While a graph
    is captured: memory of the graph, cleared at each replay. On the per-thread stream, whose handle
    says nothing of whose it is: fresh memory.
    """
    found = _counters.get((index, stream))
    if capturing(index) or stream == _PER_THREAD:
        return torch.zeros(count, dtype=torch.int32, device=torch.device("cuda", index))
    if found is not None and found.numel() >= count:
        return found
    with _lock:
        found = _counters.get((index, stream))
        if found is not None and found.numel() >= count:
            return found
        where = torch.device("cuda", index)
        if found is None and len(_counters) >= MOST_STREAMS:
            return torch.zeros(count, dtype=torch.int32, device=where)
        size = max(FEWEST_COUNTERS, 1 << (count - 1).bit_length())
        made, event = _apart(index, lambda: torch.zeros(size, dtype=torch.int32, device=where))
        torch.cuda.current_stream(where).wait_event(event)
        if found is not None:
            _outgrown.append(found)
        _counters[(index, stream)] = made
        return made


def order_table(
    index: int,
    order: tuple[str, int],
    rows: int,
    cols: int,
    entries: Callable[[], Sequence[int] | None],
) -> torch.Tensor | None:
    """The table of a tile order (kind, parameter) over rows x cols tiles on CUDA device `index`.

    None when it is not there yet and cannot be brought there: a copy from the host cannot be
    captured into a graph, and the tables of a device are bounded in bytes.
    """
    key = (index, *order, rows, cols)
    found = _tables.get(key)
    if found is not None:
        return found
    size = 4 * rows * cols
    if capturing(index) or _table_bytes.get(index, 0) + size > MOST_TABLE_BYTES:
        return None
    with _lock:
        if key not in _tables:
            where = torch.device("cuda", index)
            values = torch.tensor(entries(), dtype=torch.int32)
            table, event = _apart(index, lambda: values.to(where))
            # Of its own stream, once: the copy alone, so that any stream and graph may read it.
            # (To ask the event on later calls would spoil another thread's capture.)
            event.synchronize()
            _tables[key] = table
            _table_bytes[index] = _table_bytes.get(index, 0) + size
        return _tables[key]
