"""Inputs and bounds of the matrix-product tests: tensors of every kind of strides, in memory whose
unused elements are NaN, and the error that torch.matmul makes on the same numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import tk

NAN = float("nan")

# Kinds of memory of a (rows, columns) matrix. "odd", "offset", "strided" and the expanded
# ones are what TMA refuses.
MATRIX_KINDS = (
    "dense",
    "transposed",
    "padded",
    "transposed_padded",
    "odd",
    "transposed_odd",
    "offset",
    "strided",
    "same_rows",
    "same_columns",
    "same",
)
OUT_KINDS = ("dense", "transposed", "padded", "odd", "offset", "strided")
BATCH_KINDS = ("outer", "between", "inner", "shared")


@dataclass
class Memory:
    """A view and the memory it lies in, whose other elements are NaN."""

    view: torch.Tensor
    base: torch.Tensor

    def untouched(self) -> bool:
        """Whether everything outside of the view is still NaN. Overwrites the view."""
        self.view.fill_(NAN)
        return bool(self.base.isnan().all())


def up(size: int) -> int:
    """The next multiple of 8 elements, 16 bytes of bf16."""
    return -(-size // 8) * 8


def matrix_strides(kind: str, rows: int, cols: int) -> tuple[int, int, int]:
    """Strides of a matrix and its offset in elements."""
    return {
        "dense": (cols, 1, 0),
        "transposed": (1, rows, 0),
        "padded": (up(cols) + 8, 1, 8),
        "transposed_padded": (1, up(rows) + 8, 8),
        "odd": (cols + 3 - cols % 2, 1, 0),
        "transposed_odd": (1, rows + 3 - rows % 2, 0),
        "offset": (up(cols), 1, 3),
        "strided": (3 * cols + 5, 2, 1),
        "same_rows": (0, 1, 0),
        "same_columns": (1, 0, 0),
        "same": (0, 0, 5),
    }[kind]


def allocate(
    shape: tuple[int, ...],
    kind: str = "dense",
    batch_kind: str = "outer",
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
) -> Memory:
    """A (rows, columns) or (batch, rows, columns) view of that kind of memory, all of it NaN.

    A batch lies outside of the matrices, between their rows, inside of their elements, or is one
    matrix for all ("shared").
    """
    rows, cols = shape[-2:]
    row, col, offset = matrix_strides(kind, rows, cols)
    strides: tuple[int, ...] = (row, col)
    if len(shape) == 3:
        batch = shape[0]
        span = 1 + max(rows - 1, 0) * row + max(cols - 1, 0) * col
        if batch_kind == "outer":
            strides = (up(span), row, col)
        elif batch_kind == "between":
            longer = max(row, col)
            strides = (longer, *(s * batch if s == longer else s for s in (row, col)))
        elif batch_kind == "inner":
            strides = (1, row * batch, col * batch)
        else:
            strides = (0, row, col)
    size = offset + 1 + sum(max(n - 1, 0) * s for n, s in zip(shape, strides, strict=True))
    base = torch.full((size + 7,), NAN, dtype=dtype, device=device)
    return Memory(base.as_strided(shape, strides, offset), base)


def random(
    shape: tuple[int, ...],
    kind: str = "dense",
    batch_kind: str = "outer",
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
) -> torch.Tensor:
    """Such a view filled with normal numbers (elements that share memory share a number)."""
    memory = allocate(shape, kind, batch_kind, dtype, device)
    numbers = torch.randn(memory.base.shape, device=device).to(dtype)
    used = torch.zeros_like(memory.base, dtype=torch.bool)
    used.as_strided(shape, memory.view.stride(), memory.view.storage_offset()).fill_(True)
    memory.base.copy_(torch.where(used, numbers, memory.base))
    return memory.view


def torch_formula(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    alpha: float = 1.0,
    c: torch.Tensor | None = None,
    beta: float = 0.0,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """torch.matmul, then the epilogue a step at a time in the output's dtype."""
    z = torch.matmul(a, b).to(out_dtype or a.dtype)
    if alpha != 1.0:
        z = alpha * z
    if bias is not None:
        z = z + bias.to(z.dtype)
    if c is not None:
        z = z + beta * c.to(z.dtype)
    return tk.reference.activate(z, activation)


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Root of the summed squares of the differences, NaN when any element is."""
    return float((result.double() - exact).norm())


def assert_no_worse_than_torch(
    result: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **options: object
) -> None:
    """The stated bound: 1.05 x torch's error against float64. Beside it, one that also holds fp32
    outputs tight: each element within the rounding of its dtype and of an fp32 sum of K terms."""
    exact = tk.reference.matmul(a, b, **{**options, "out_dtype": None})  # type: ignore[arg-type]
    assert result.shape == exact.shape
    if result.numel() == 0:
        return
    assert not result.isnan().any()
    rival = torch_formula(a, b, **options)  # type: ignore[arg-type]
    # The floor: where torch happens to be exact, the last bit of an fp32 sum is still allowed.
    floor = 2.0**-20 * float(exact.norm())
    assert error(result, exact) <= 1.05 * error(rival, exact) + floor

    alpha = abs(float(options.get("alpha", 1.0)))  # type: ignore[arg-type]
    size = alpha * (a.double().abs() @ b.double().abs())
    for name, scale in (("bias", 1.0), ("c", options.get("beta", 0.0))):
        term = options.get(name)
        if isinstance(term, torch.Tensor):
            size = size + abs(float(scale)) * term.double().abs()  # type: ignore[arg-type]
    rounding = torch.finfo(result.dtype).eps / 2 * exact.abs() + torch.finfo(result.dtype).tiny
    # Activations have slopes below 1.13; erf, tanh and exp in fp32 add a few of their own bits.
    allowed = 1.01 * rounding + 1.2 * (a.shape[-1] + 16) * 2.0**-24 * size + 2.0**-21 * exact.abs()
    excess = ((result.double() - exact).abs() - allowed).max()
    assert excess <= 0, f"an element is off by {float(excess)} more than its rounding"
