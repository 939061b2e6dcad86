"""The arguments of tk.matmul: what is allowed, in words, and the shapes that follow from them.

Works on real, fake and meta tensors alike, so that eager calls, the dispatcher and torch.compile
raise the same errors. Reads no memory and asks the device nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tk.errors import describe, listed, wrong_type, wrong_value
from tk.ops import arguments
from tk.ops.arguments import check_device, check_dtype, check_tensor

__all__ = [
    "ACTIVATIONS",
    "INPUT_DTYPES",
    "OUTPUT_DTYPES",
    "Checked",
    "check",
    "scalar",
]

OPERATION = "tk.matmul"

ACTIVATIONS: dict[str | None, int] = {None: 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}
"""Activations and their codes in the C interface (enum tk_activation)."""

INPUT_DTYPES = (torch.bfloat16, torch.float16)
OUTPUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@dataclass(frozen=True)
class Checked:
    """What follows from valid arguments. `batch` is None for a product of two matrices."""

    m: int
    n: int
    k: int
    batch: int | None
    out_dtype: torch.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The output's shape."""
        return (self.m, self.n) if self.batch is None else (self.batch, self.m, self.n)


def scalar(argument: str, value: object) -> float:
    """alpha or beta as a float; errors as `tk.ops.arguments.scalar` has them."""
    return arguments.scalar(OPERATION, argument, value)


def check(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str | None,
    alpha: float,
    c: torch.Tensor | None,
    beta: float,
    out: torch.Tensor | None,
    out_dtype: torch.dtype | None,
) -> Checked:
    """Raises TypeError for objects of the wrong kind and ValueError for anything else that cannot
    be computed; each names the argument, what it was and what is allowed."""
    for name, tensor in (("a", a), ("b", b), ("bias", bias), ("c", c), ("out", out)):
        if tensor is not None or name in ("a", "b"):
            check_tensor(OPERATION, name, tensor, optional=name not in ("a", "b"))
    _check_dtypes(a, b, bias, c, out, out_dtype)
    for name, tensor in (("b", b), ("bias", bias), ("c", c), ("out", out)):
        if tensor is not None:
            check_device(OPERATION, name, tensor, "a", a)
    checked = _check_shapes(a, b, _output_dtype(a, out, out_dtype))
    if bias is not None and (bias.dim() != 1 or bias.shape[0] != checked.n):
        raise wrong_value(
            OPERATION, "bias", describe(bias), f"of shape ({checked.n},), that is (N,)"
        )
    if c is not None and not _broadcasts(c.shape, checked.shape):
        raise wrong_value(OPERATION, "c", describe(c), f"broadcastable to {checked.shape}")
    if out is not None and tuple(out.shape) != checked.shape:
        raise wrong_value(OPERATION, "out", describe(out), f"of shape {checked.shape}")
    if out is not None and out.requires_grad and torch.is_grad_enabled():
        raise wrong_value(
            OPERATION, "out", "a tensor that requires grad", "one that does not (or use no_grad)"
        )
    _check_epilogue(activation, alpha, c, beta)
    return checked


def _check_dtypes(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    c: torch.Tensor | None,
    out: torch.Tensor | None,
    out_dtype: torch.dtype | None,
) -> None:
    check_dtype(OPERATION, "a", a, INPUT_DTYPES)
    if b.dtype != a.dtype:
        raise wrong_value(OPERATION, "b", describe(b), f"of a's dtype, {a.dtype}")
    for name, tensor in (("bias", bias), ("c", c), ("out", out)):
        if tensor is not None:
            check_dtype(OPERATION, name, tensor, OUTPUT_DTYPES)
    if out_dtype is not None:
        if not isinstance(out_dtype, torch.dtype):
            raise wrong_type(OPERATION, "out_dtype", out_dtype, "a torch.dtype or None")
        if out_dtype not in OUTPUT_DTYPES:
            raise wrong_value(OPERATION, "out_dtype", str(out_dtype), listed(OUTPUT_DTYPES))
        if out is not None and out.dtype != out_dtype:
            raise wrong_value(OPERATION, "out_dtype", str(out_dtype), f"out's dtype, {out.dtype}")


def _output_dtype(
    a: torch.Tensor, out: torch.Tensor | None, out_dtype: torch.dtype | None
) -> torch.dtype:
    if out is not None:
        return out.dtype
    return a.dtype if out_dtype is None else out_dtype


def _check_shapes(a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype) -> Checked:
    for name, tensor, allowed in (
        ("a", a, "(M, K) or (batch, M, K)"),
        ("b", b, "(K, N) or (batch, K, N)"),
    ):
        if tensor.dim() not in (2, 3):
            raise wrong_value(OPERATION, name, describe(tensor), f"of shape {allowed}")
    m, k = a.shape[-2], a.shape[-1]
    if b.shape[-2] != k:
        raise wrong_value(
            OPERATION, "b", describe(b), f"of shape (..., {k}, N), for a's last axis is K = {k}"
        )
    return Checked(m, b.shape[-1], k, _batch(a, b), out_dtype)


def _batch(a: torch.Tensor, b: torch.Tensor) -> int | None:
    if a.dim() == 2:
        return None if b.dim() == 2 else b.shape[0]
    if b.dim() == 2:
        return a.shape[0]
    if a.shape[0] != b.shape[0] and a.shape[0] != 1 and b.shape[0] != 1:
        raise wrong_value(
            OPERATION, "b", describe(b), f"of batch {a.shape[0]} (a's) or 1, or of two axes"
        )
    return b.shape[0] if a.shape[0] == 1 else a.shape[0]


def _broadcasts(shape: torch.Size, target: tuple[int, ...]) -> bool:
    if len(shape) > len(target):
        return False
    sizes = zip(reversed(shape), reversed(target), strict=False)
    return all(size == 1 or size == wanted for size, wanted in sizes)


def _check_epilogue(
    activation: str | None, alpha: float, c: torch.Tensor | None, beta: float
) -> None:
    if activation is not None and not isinstance(activation, str):
        raise wrong_type(OPERATION, "activation", activation, listed(ACTIVATIONS))
    if activation not in ACTIVATIONS:
        raise wrong_value(OPERATION, "activation", f'"{activation}"', listed(ACTIVATIONS))
    scalar("alpha", alpha)
    scalar("beta", beta)
    if c is None and beta != 0.0:
        raise wrong_value(OPERATION, "beta", repr(beta), "0.0 when c is not given")
    if c is not None and beta == 0.0:
        raise wrong_value(OPERATION, "beta", repr(beta), "other than 0.0 when c is given")
