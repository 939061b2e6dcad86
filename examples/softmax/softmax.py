"""The softmax of each row in one kernel: softmax.hpp as a PyTorch operation with a gradient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import tk

__all__ = ["softmax"]

_kernels = tk.load(Path(__file__).parent / "softmax.hpp")


@torch.library.custom_op("tk_examples::softmax", mutates_args=())
def _operation(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    _kernels.softmax(out, x)
    return out


@_operation.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(output)


def _gradient(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
    (out,) = ctx.saved_tensors
    return out * (gradient - (gradient * out).sum(-1, keepdim=True))


_operation.register_autograd(_gradient, setup_context=_keep)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """exp(x - max) / sum(exp(x - max)) along each row, computed in fp32 and rounded once.

    x (rows, columns) in fp32 or bf16, of any sizes and strides. Returns a contiguous tensor of the
    same shape and dtype. As with torch.softmax, a row of which nothing is finite, or with a NaN or
    +infinity in it, is NaN. ValueError names an argument that does not fit.
    """
    return _operation(x)
