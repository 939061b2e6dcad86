"""The rotation of plain tensors as an autograd function, without the dispatcher's detour, and in
place too, which the dispatcher's operation cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tk.ops.rotary_arguments import Arguments
from tk.ops.rotary_eager import run

__all__ = ["differentiable_rotary"]


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        given = Arguments(*arguments)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(given.cos, given.sin, given.positions, given.cu_seqlens)
        ctx.options = given[6:9], not given.inverse
        q, k = run(given)
        if given.inplace:
            ctx.mark_dirty(q, *(() if k is None else (k,)))
        return q, k

    @staticmethod
    def backward(
        ctx: Any, q_grad: torch.Tensor | None, k_grad: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        """The incoming gradients, rotated back; never in place, for others may hold them too."""
        others = (None,) * 9
        if q_grad is None and k_grad is None:
            return (None, None, *others)
        options, inverse = ctx.options
        first, second = (k_grad, None) if q_grad is None else (q_grad, k_grad)
        rotated, other = differentiable_rotary(
            first, second, *ctx.saved_tensors, *options, inverse, False
        )
        return (None, rotated, *others) if q_grad is None else (rotated, other, *others)


differentiable_rotary: Callable[..., tuple[torch.Tensor, torch.Tensor | None]] = (
    _Differentiable.apply
)
"""(fields of Arguments...) -> (q, k), with gradients of q and k."""
