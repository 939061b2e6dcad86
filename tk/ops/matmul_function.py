"""The product of plain tensors as autograd functions, without the dispatcher's detour: one for
gradients, and a slower one that torch.func's transforms (grad, vjp, jvp, vmap) understand too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tk.ops.matmul_eager import run
from tk.ops.matmul_gradient import backward, forward_tangent, setup_context
from tk.schedulers import Plan

__all__ = ["differentiable_matmul", "transformable_matmul"]


class _Differentiable(torch.autograd.Function):
    """Ten times faster to call than the other: torch binds no arguments by their names."""

    @staticmethod
    def forward(
        ctx: Any,
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None,
        c: torch.Tensor | None,
        activation: str | None,
        alpha: float,
        beta: float,
        out_dtype: torch.dtype | None,
        plan: Plan | None,
    ) -> torch.Tensor:
        output = run(a, b, bias, activation, alpha, c, beta, None, out_dtype, plan)
        setup_context(ctx, (a, b, bias, c, activation, alpha, beta, out_dtype, plan), output)
        return output

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return backward(ctx, grad)


class _Transformable(torch.autograd.Function):
    """The same with forward-mode derivatives and a rule for vmap."""

    @staticmethod
    def forward(
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None,
        c: torch.Tensor | None,
        activation: str | None,
        alpha: float,
        beta: float,
        out_dtype: torch.dtype | None,
        plan: Plan | None,
    ) -> torch.Tensor:
        return run(a, b, bias, activation, alpha, c, beta, None, out_dtype, plan)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        setup_context(ctx, inputs, output, forward_mode=True)
        ctx.output_like = (output.shape, output.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return backward(ctx, grad)

    @staticmethod
    def jvp(
        ctx: Any,
        a: torch.Tensor | None,
        b: torch.Tensor | None,
        bias: torch.Tensor | None,
        c: torch.Tensor | None,
        *_: None,
    ) -> torch.Tensor:
        shape, dtype = ctx.output_like
        return forward_tangent(ctx, shape, dtype, a, b, bias, c)

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None,
        c: torch.Tensor | None,
        *options: Any,
    ) -> tuple[torch.Tensor, int]:
        """One batched product where the mapped axis can be its batch, else one after the other."""
        a_front, b_front, bias_front, c_front = (
            tensor if tensor is None or axis is None else tensor.movedim(axis, 0)
            for tensor, axis in zip((a, b, bias, c), in_dims, strict=False)
        )
        mapped = [axis is not None for axis in in_dims[:4]]
        matrices = a.dim() - mapped[0] == 2 and b.dim() - mapped[1] == 2
        # A c of three axes that is not mapped fits no single product: the loop below says so.
        matrices = matrices and (c is None or mapped[3] or c.dim() <= 2)
        if matrices and (mapped[0] or mapped[1]) and not mapped[2] and options[-1] is None:
            if mapped[3]:
                assert c_front is not None
                while c_front.dim() < 3:
                    c_front = c_front.unsqueeze(1)
            return transformable_matmul(a_front, b_front, bias, c_front, *options), 0
        each = [
            transformable_matmul(
                *(
                    tensor[i] if tensor is not None and is_mapped else tensor
                    for tensor, is_mapped in zip(
                        (a_front, b_front, bias_front, c_front), mapped, strict=True
                    )
                ),
                *options,
            )
            for i in range(info.batch_size)
        ]
        return torch.stack(each), 0


differentiable_matmul: Callable[..., torch.Tensor] = _Differentiable.apply
"""(a, b, bias, c, activation, alpha, beta, out_dtype, plan) -> output, with gradients."""

transformable_matmul: Callable[..., torch.Tensor] = _Transformable.apply
"""The same inside torch.func's transforms and forward-mode differentiation."""
