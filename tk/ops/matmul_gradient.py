"""Gradients of out = act(z), z = alpha * a @ b + bias + beta * c, by the same product kernel.

With g = d loss / d out and dz = g * act'(z):

    d a    = alpha * dz @ b^T          d b = alpha * a^T @ dz
    d bias = sum of dz over rows       d c = beta * dz

summed over what was broadcast. act' is taken in fp32 by PyTorch's formulas; z is computed again by
the kernel (for relu the sign of the output says enough, which is stored). Every gradient has its
input's dtype. All steps are differentiable themselves, so that higher derivatives work.
"""

from __future__ import annotations

from typing import Any

import torch

from tk.ops.matmul_eager import run
from tk.schedulers import Plan

__all__ = ["DifferentiableMatmul", "backward", "setup_context"]


class DifferentiableMatmul(torch.autograd.Function):
    """The product of plain tensors with its gradients, without the dispatcher's detour."""

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
        """Runs it and remembers what the gradients need."""
        output = run(a, b, bias, activation, alpha, c, beta, None, out_dtype, plan)
        setup_context(ctx, (a, b, bias, c, activation, alpha, beta, out_dtype, plan), output)
        return output

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """As the dispatcher's operation."""
        return backward(ctx, grad)


def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    """Saves what `backward` needs; `inputs` are the nine of the operation tk::matmul."""
    a, b, bias, c, activation, alpha, beta, _, _ = inputs
    ctx.activation, ctx.alpha, ctx.beta = activation, alpha, beta
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.c_like = None if c is None else (c.shape, c.dtype)
    recompute = activation not in (None, "relu")
    ctx.save_for_backward(
        a,
        b,
        bias if recompute else None,
        c if recompute else None,
        output if activation == "relu" else None,
    )


def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """Gradients of the nine inputs of tk::matmul."""
    a, b, bias, c, output = ctx.saved_tensors
    needed = ctx.needs_input_grad
    dz = grad
    if ctx.activation == "relu":
        dz = torch.where(output > 0, grad, torch.zeros_like(grad))
    elif ctx.activation is not None:
        dz = _through(ctx.activation, grad, _pre_activation(a, b, bias, c, ctx.alpha, ctx.beta))
    grad_a = grad_b = grad_bias = grad_c = None
    if needed[0] or needed[1]:
        rounded = dz if dz.dtype == a.dtype else dz.to(a.dtype)
        if needed[0]:
            grad_a = _gradient_of_a(rounded, a, b, ctx.alpha)
        if needed[1]:
            grad_b = _gradient_of_b(rounded, a, b, ctx.alpha)
    if needed[2]:
        rows = tuple(range(dz.dim() - 1))
        grad_bias = dz.sum(dim=rows, dtype=torch.float32).to(ctx.bias_dtype)
    if needed[3]:
        shape, dtype = ctx.c_like
        grad_c = (dz.float() * ctx.beta).sum_to_size(shape).to(dtype)
    return grad_a, grad_b, grad_bias, grad_c, None, None, None, None, None


def _pre_activation(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    c: torch.Tensor | None,
    alpha: float,
    beta: float,
) -> torch.Tensor:
    from tk.ops.matmul import matmul

    return matmul(a, b, bias=bias, alpha=alpha, c=c, beta=beta, out_dtype=torch.float32)


def _through(activation: str, grad: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """grad * act'(z) in fp32."""
    result: torch.Tensor
    if activation == "silu":
        result = torch.ops.aten.silu_backward(grad.float(), z)
    else:
        approximate = "tanh" if activation == "gelu_tanh" else "none"
        result = torch.ops.aten.gelu_backward(grad.float(), z, approximate=approximate)
    return result


def _gradient_of_a(
    dz: torch.Tensor, a: torch.Tensor, b: torch.Tensor, alpha: float
) -> torch.Tensor:
    from tk.ops.matmul import matmul

    if not _shared(a, dz):
        return matmul(dz, b.mT, alpha=alpha)
    # sum over the batch, of products in fp32: M x K of them fit where the outputs did.
    total = matmul(dz, b.mT, alpha=alpha, out_dtype=torch.float32)
    return total.sum(dim=0, keepdim=a.dim() == 3).to(a.dtype)


def _gradient_of_b(
    dz: torch.Tensor, a: torch.Tensor, b: torch.Tensor, alpha: float
) -> torch.Tensor:
    from tk.ops.matmul import matmul

    if not _shared(b, dz):
        return matmul(a.mT, dz, alpha=alpha)
    if a.dim() == 3 and a.shape[0] == dz.shape[0]:
        # The batch is more rows: one product over all of them, in fp32 to its end. These are
        # views unless a caller's strides leave no other way.
        total = matmul(a.flatten(0, 1).mT, dz.flatten(0, 1), alpha=alpha)
        return total if b.dim() == 2 else total.unsqueeze(0)
    total = matmul(a.mT, dz, alpha=alpha, out_dtype=torch.float32)
    return total.sum(dim=0, keepdim=b.dim() == 3).to(b.dtype)


def _shared(operand: torch.Tensor, dz: torch.Tensor) -> bool:
    """Whether all batches of the output read the same `operand`."""
    return dz.dim() == 3 and (operand.dim() == 2 or operand.shape[0] != dz.shape[0])
