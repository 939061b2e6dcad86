"""Inputs and the bound of the rotation's tests: tables of angles, and a comparison with float64."""

from __future__ import annotations

from typing import Any

import torch

import tk

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
DTYPES = (BF16, FP16, FP32)


def tables(
    rows: int, half: int, dtype: torch.dtype = FP32, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin (rows, half) of the angles of position times frequency."""
    frequency = 10000.0 ** -(torch.arange(half, dtype=torch.float64) / max(half, 1))
    angle = torch.arange(rows, dtype=torch.float64)[:, None] * frequency
    return angle.cos().to(device, dtype), angle.sin().to(device, dtype)


def operands(
    batch: int = 2,
    heads: int = 3,
    k_heads: int = 1,
    rows: int = 33,
    dimension: int = 64,
    *,
    dtype: torch.dtype = BF16,
    device: str = "cpu",
    rows_first: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """q and k of normal numbers, (B, H, N, D), in memory also as (B, N, H, D)."""

    def made(of: int) -> torch.Tensor:
        sizes = (batch, rows, of, dimension) if rows_first else (batch, of, rows, dimension)
        x = torch.randn(sizes, device=device).to(dtype)
        return x.transpose(1, 2) if rows_first else x

    return made(heads), made(k_heads)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same bits, the sign of 0 and NaN too."""
    kind = torch.int32 if a.dtype == FP32 else torch.int16
    return a.shape == b.shape and torch.equal(a.contiguous().view(kind), b.contiguous().view(kind))


def assert_is_rotation(
    out: torch.Tensor | None,
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    **options: Any,
) -> None:
    """One rounding to x's dtype of a result in fp32, and the columns beyond bit for bit."""
    assert out is not None
    exact = tk.reference.rotary(x, cos, sin, **options)
    assert (out.shape, out.dtype, out.device) == (x.shape, x.dtype, x.device)
    largest = float(x.double().abs().max()) if x.numel() else 0.0
    unit = torch.finfo(x.dtype).eps / 2
    torch.testing.assert_close(
        out.double(), exact, rtol=1.01 * unit, atol=3e-7 * largest + 1e-12, equal_nan=True
    )
    columns = 2 * cos.shape[1]
    assert same_bits(out[..., columns:], x[..., columns:])


def rotate(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """tk.rotary of both, compared with float64."""
    out, k_out = tk.rotary(q, k, cos, sin, **options)
    options.pop("rotary_dim", None)
    assert k_out is not None
    assert_is_rotation(out, q, cos, sin, **options)
    assert_is_rotation(k_out, k, cos, sin, **options)
    return out, k_out
