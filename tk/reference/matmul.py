"""The matrix product with its epilogue as a PyTorch formula."""

from __future__ import annotations

import torch
from torch.nn import functional

__all__ = ["activate", "matmul"]


def activate(z: torch.Tensor, activation: str | None) -> torch.Tensor:
    """relu(z), gelu(z) = z * (1 + erf(z / sqrt 2)) / 2, its tanh form, or silu(z) = z / (1 + e^-z),
    in z's dtype. ValueError for another name."""
    if activation is None:
        return z
    if activation == "relu":
        return functional.relu(z)
    if activation == "gelu":
        return functional.gelu(z)
    if activation == "gelu_tanh":
        return functional.gelu(z, approximate="tanh")
    if activation == "silu":
        return functional.silu(z)
    raise ValueError(f'activation is "{activation}"; must be relu, gelu, gelu_tanh, silu or None')


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    alpha: float = 1.0,
    c: torch.Tensor | None = None,
    beta: float = 0.0,
    out_dtype: torch.dtype | None = None,
    compute_dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """activation(alpha * a @ b + bias + beta * c), all of it in `compute_dtype`.

    Shapes as `tk.matmul`; any real dtypes and devices that PyTorch takes. The result is rounded
    once, to `out_dtype`, or left in `compute_dtype` when that is None. Differentiable.
    """
    z = alpha * torch.matmul(a.to(compute_dtype), b.to(compute_dtype))
    if bias is not None:
        z = z + bias.to(compute_dtype)
    if c is not None:
        z = z + beta * c.to(compute_dtype)
    result = activate(z, activation)
    return result if out_dtype is None else result.to(out_dtype)
