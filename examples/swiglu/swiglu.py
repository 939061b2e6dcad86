"""SwiGLU, silu(a @ w1) * (a @ w2), in one kernel: swiglu.hpp as a PyTorch operation."""

from __future__ import annotations

from pathlib import Path

import torch

import tk

__all__ = ["swiglu"]

_kernels = tk.load(Path(__file__).parent / "swiglu.hpp")


def _padded(rows: int, cols: int, device: torch.device) -> torch.Tensor:
    """A matrix for (rows, cols) whose rows are multiples of 16 bytes: TMA writes no less."""
    return torch.empty(rows, -(-cols // 8) * 8, dtype=torch.bfloat16, device=device)


@torch.library.custom_op("tk_examples::swiglu", mutates_args=())
def _operation(a: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    out = _padded(a.shape[0], w1.shape[1], a.device)
    _kernels.swiglu(out, a, w1, w2)
    return out[:, : w1.shape[1]]


@_operation.register_fake
def _(a: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    return _padded(a.shape[0], w1.shape[1], a.device)[:, : w1.shape[1]]


def swiglu(a: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """silu(a @ w1) * (a @ w2), accumulated in fp32 and rounded once.

    a (M, K), w1 and w2 (K, N), all bf16 on one device, of any sizes but K = 0; each contiguous
    along its last axis, with an address and a row stride that are multiples of 16 bytes. Returns
    (M, N) bf16, whose rows are padded to multiples of 16 bytes. Forward only. ValueError names an
    argument that does not fit.
    """
    return _operation(a, w1, w2)
