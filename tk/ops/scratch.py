"""The stream that a call runs on, and the memory that it needs beside its tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tk import resources
from tk.runtime import Backend

__all__ = ["Scratch", "stream_of"]


def _no_stream(_: int) -> int:
    return 0


# Absent from builds of torch without CUDA, where no CUDA tensor asks for it.
_cuda_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", _no_stream)


def stream_of(backend: Backend) -> Callable[[int], int]:
    """Gives the handle of the current stream of a device's number, 0 for the host."""
    return _no_stream if backend.kind == "host" else _cuda_stream


class Scratch:
    """Counters that are 0 and a workspace, held for one call; `counters` and `workspace` are their
    addresses, 0 for none. From torch's allocator, so that a graph's replay finds them again."""

    __slots__ = ("_held", "counters", "workspace")

    def __init__(
        self, backend: Backend, stream: int, workspace_bytes: int, num_counters: int
    ) -> None:
        self._held: list[torch.Tensor] = []
        self.counters = self.workspace = 0
        host = backend.kind == "host"
        if num_counters:
            # Host calls of two threads run at once, so that each has counters of its own.
            counters = (
                torch.zeros(num_counters, dtype=torch.int32)
                if host
                else resources.counters(backend.index, stream, num_counters)
            )
            self._held.append(counters)
            self.counters = counters.data_ptr()
        if workspace_bytes:
            where = torch.device("cpu") if host else torch.device("cuda", backend.index)
            workspace = torch.empty(workspace_bytes, dtype=torch.uint8, device=where)
            self._held.append(workspace)
            self.workspace = workspace.data_ptr()
