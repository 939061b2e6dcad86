"""Gradients of out = act(z), z = alpha * a @ b + bias + beta * c, by the same product kernel.

With g = d loss / d out and dz = g * act'(z):

    d a    = alpha * dz @ b^T          d b = alpha * a^T @ dz
    d bias = sum of dz over rows       d c = beta * dz

summed over what was broadcast. act' is taken in fp32 by PyTorch's formulas; z is computed again by
the kernel (for relu the sign of the output says enough, which is stored). Every gradient has its
input's dtype. All steps are differentiable themselves, so that higher derivatives work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["backward", "forward_tangent", "setup_context"]


def setup_context(
    ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor, *, forward_mode: bool = False
) -> None:
    """Saves what `backward` needs; `inputs` are the nine of the operation tk::matmul.

    With `forward_mode` also what `forward_tangent` needs.
    """
    a, b, bias, c, activation, alpha, beta, _, _ = inputs
    ctx.activation, ctx.alpha, ctx.beta = activation, alpha, beta
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.c_like = None if c is None else (c.shape, c.dtype)
    ctx.dtype, ctx.a_shape, ctx.b_shape = a.dtype, a.shape, b.shape
    recompute = activation not in (None, "relu")
    both = recompute or forward_mode
    needs_a, needs_b = (True, True) if both else ctx.needs_input_grad[:2]
    saved = (
        a if needs_b else None,
        b if needs_a else None,
        bias if recompute else None,
        c if recompute else None,
        output if activation == "relu" else None,
    )
    ctx.save_for_backward(*saved)
    if forward_mode:
        ctx.save_for_forward(*saved)


def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """Gradients of the nine inputs of tk::matmul."""
    saved = ctx.saved_tensors  # once: a checkpoint unpacks them anew at each look
    a, b = saved[:2]
    needed = ctx.needs_input_grad
    dz = _through_activation(ctx, saved, grad)
    grad_a = grad_b = grad_bias = grad_c = None
    if needed[0] or needed[1]:
        rounded = dz if dz.dtype == ctx.dtype else dz.to(ctx.dtype)
        if needed[0]:
            grad_a = _gradient_of_a(rounded, ctx.a_shape, b, ctx.alpha)
        if needed[1]:
            grad_b = _gradient_of_b(rounded, a, ctx.b_shape, ctx.alpha)
    if needed[2]:
        rows = tuple(range(dz.dim() - 1))
        grad_bias = dz.sum(dim=rows, dtype=torch.float32).to(ctx.bias_dtype)
    if needed[3]:
        shape, dtype = ctx.c_like
        grad_c = (dz.float() * ctx.beta).sum_to_size(shape).to(dtype)
    return grad_a, grad_b, grad_bias, grad_c, None, None, None, None, None


def forward_tangent(
    ctx: Any,
    shape: Sequence[int],
    dtype: torch.dtype,
    a_tangent: torch.Tensor | None,
    b_tangent: torch.Tensor | None,
    bias_tangent: torch.Tensor | None,
    c_tangent: torch.Tensor | None,
) -> torch.Tensor:
    """The output's tangent, act'(z) * (alpha * (da @ b + a @ db) + dbias + beta * dc)."""
    from tk.ops.matmul import matmul

    saved = ctx.saved_tensors
    a, b = saved[:2]
    total: torch.Tensor | None = None
    if a_tangent is not None:
        total = matmul(a_tangent, b, alpha=ctx.alpha, out_dtype=torch.float32)
    if b_tangent is not None:
        other = matmul(a, b_tangent, alpha=ctx.alpha, out_dtype=torch.float32)
        total = other if total is None else total + other
    if bias_tangent is not None:
        total = bias_tangent.float() if total is None else total + bias_tangent
    if c_tangent is not None:
        scaled = c_tangent.float() * ctx.beta
        total = scaled if total is None else total + scaled
    assert total is not None
    return _through_activation(ctx, saved, total.expand(shape)).to(dtype)


def _through_activation(
    ctx: Any, saved: Sequence[torch.Tensor], grad: torch.Tensor
) -> torch.Tensor:
    """grad * act'(z): grad itself, or grad where relu let through, or in fp32."""
    from tk.ops.matmul import matmul

    activation = ctx.activation
    if activation is None:
        return grad
    a, b, bias, c, output = saved
    if activation == "relu":
        return torch.where(output <= 0, torch.zeros_like(grad), grad)  # NaN lets through
    if activation not in ("gelu", "gelu_tanh", "silu"):
        raise NotImplementedError(f"tk.matmul: activation {activation!r} has no derivative yet")
    z = matmul(a, b, bias=bias, alpha=ctx.alpha, c=c, beta=ctx.beta, out_dtype=torch.float32)
    wide = grad.float()
    result: torch.Tensor
    if activation != "silu":
        approximate = "tanh" if activation == "gelu_tanh" else "none"
        result = torch.ops.aten.gelu_backward(wide, z, approximate=approximate)
    elif torch.is_grad_enabled():  # for higher derivatives, which silu_backward does not have
        sigmoid = torch.sigmoid(z)
        result = wide * sigmoid * (1 + z * (1 - sigmoid))
    else:
        result = torch.ops.aten.silu_backward(wide, z)
    return result


def _gradient_of_a(
    dz: torch.Tensor, a_shape: torch.Size, b: torch.Tensor, alpha: float
) -> torch.Tensor:
    from tk.ops.matmul import matmul

    if not _shared(a_shape, dz):
        return matmul(dz, b.mT, alpha=alpha)
    # sum over the batch, of products in fp32: M x K of them fit where the outputs did.
    total = matmul(dz, b.mT, alpha=alpha, out_dtype=torch.float32)
    return total.sum(dim=0, keepdim=len(a_shape) == 3).to(dz.dtype)


def _gradient_of_b(
    dz: torch.Tensor, a: torch.Tensor, b_shape: torch.Size, alpha: float
) -> torch.Tensor:
    from tk.ops.matmul import matmul

    if not _shared(b_shape, dz):
        return matmul(a.mT, dz, alpha=alpha)
    if a.dim() == 3 and a.shape[0] == dz.shape[0]:
        # The batch is more rows: one product over all of them, in fp32 to its end. These are
        # views unless a caller's strides leave no other way.
        total = matmul(a.flatten(0, 1).mT, dz.flatten(0, 1), alpha=alpha)
        return total if len(b_shape) == 2 else total.unsqueeze(0)
    total = matmul(a.mT, dz, alpha=alpha, out_dtype=torch.float32)
    return total.sum(dim=0, keepdim=len(b_shape) == 3).to(dz.dtype)


def _shared(operand_shape: torch.Size, dz: torch.Tensor) -> bool:
    """Whether all batches of the output read the same operand."""
    return dz.dim() == 3 and (len(operand_shape) == 2 or operand_shape[0] != dz.shape[0])
