"""Inputs and bounds of the attention tests: tensors of several kinds of memory, and the error that
plain torch operations in the tensors' own dtype make on the same numbers."""

from __future__ import annotations

import math
from typing import Any

import torch

import tk

# Kinds of memory of a (batch, heads, rows, dimension) tensor: as shaped, as (batch, rows, heads,
# dimension), with longer rows, as one of three interleaved ones, and one head or batch for all.
KINDS = ("dense", "rows_first", "padded", "fused", "same_heads", "same_batch")


def random(
    *shape: int, kind: str = "dense", dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> torch.Tensor:
    """Normal numbers of that shape in that kind of memory."""
    batch, heads, rows, dimension = shape

    def normal(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, device=device).to(dtype)

    if kind == "rows_first":
        return normal(batch, rows, heads, dimension).transpose(1, 2)
    if kind == "padded":
        return normal(batch, heads, rows, dimension + 8)[..., :dimension]
    if kind == "fused":
        return normal(batch, rows, 3, heads, dimension).select(2, 1).transpose(1, 2)
    if kind == "same_heads":
        return normal(batch, 1, rows, dimension).expand(*shape)
    if kind == "same_batch":
        return normal(1, heads, rows, dimension).expand(*shape)
    return normal(*shape)


def torch_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any
) -> torch.Tensor:
    """The formula in q's dtype throughout, as torch's math backend computes it when it may reduce
    in half precision: products, scores and weights are rounded each."""
    out = tk.reference.attention(q, k, v, compute_dtype=q.dtype, **options)
    assert isinstance(out, torch.Tensor)
    return out


def assert_no_worse_than_torch(
    result: torch.Tensor,
    lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    **options: Any,
) -> None:
    """The stated bound: 1.1 x torch's error against float64. Beside it, one for each element: what
    rounding the weights to q's dtype, and the output, can make of it."""
    exact, exact_lse = tk.reference.attention(q, k, v, return_lse=True, **options)
    assert isinstance(exact, torch.Tensor)
    assert result.shape == exact.shape
    assert result.dtype == q.dtype
    if result.numel() == 0:
        return
    assert torch.equal(result.isnan(), exact.isnan())
    rival = torch_attention(q, k, v, **options)
    if not exact.isnan().any():
        floor = 2.0**-12 * float(exact.norm())
        assert error(result, exact) <= 1.1 * error(rival, exact) + floor
    unit = torch.finfo(q.dtype).eps
    largest = v.double().abs().nan_to_num(posinf=0.0).max() if v.numel() else 0.0
    excess = (result.double() - exact).abs() - unit * (exact.abs() + largest) - 1e-6
    assert (excess.nan_to_num(nan=0.0) <= 0).all(), f"an element is off by {float(excess.max())}"
    if lse is not None:
        assert lse.dtype == torch.float32
        torch.testing.assert_close(lse.double(), exact_lse, rtol=1e-5, atol=2e-5, equal_nan=True)


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Root of the summed squares of the differences."""
    return float((result.double() - exact).norm())


def pair(result: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The output and the log-sum-exp of a call with return_lse."""
    out, lse = result
    assert isinstance(out, torch.Tensor)
    assert isinstance(lse, torch.Tensor)
    return out, lse


def no_keys(lse: torch.Tensor) -> torch.Tensor:
    """Which rows saw no key."""
    return lse == -math.inf
