"""Sizes and strides of a product as the C interface takes them, and which loaders may read them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from tk.errors import wrong_value
from tk.ops.arguments import DTYPE_NAMES
from tk.ops.matmul_arguments import OPERATION, Checked
from tk.schedulers.problem import MAX_SIZE, GemmProblem

__all__ = ["Layout", "folded", "layout_of"]

Strides = tuple[int, int, int]

# cuTensorMapEncodeTiled: bases and strides are multiples of 16 bytes, strides are below 2^40 bytes.
_TMA_ALIGNMENT = 16
_TMA_LARGEST_STRIDE = 2**40
_BYTES = 2  # of an element of a or b


@dataclass(frozen=True)
class Layout:
    """Strides in elements, each with the batch last; 0 where an operand is shared by all batches.

    `aligned` says that a's and b's addresses are multiples of 16 bytes.
    """

    m: int
    n: int
    k: int
    batch: int
    a: Strides  # m, k, batch
    b: Strides  # k, n, batch
    c: Strides  # m, n, batch
    out: Strides  # m, n, batch
    bias: int
    aligned: bool

    @property
    def empty(self) -> bool:
        """Whether the output has no element."""
        return 0 in (self.m, self.n, self.batch)

    def a_majors(self) -> tuple[str, ...]:
        """Majors of a that TMA takes, the preferred one first."""
        return self._majors("km", (self.k, self.a[1]), (self.m, self.a[0]), self.a[2])

    def b_majors(self) -> tuple[str, ...]:
        """Majors of b that TMA takes, the preferred one first."""
        return self._majors("kn", (self.k, self.b[0]), (self.n, self.b[1]), self.b[2])

    def _majors(
        self, names: str, k: tuple[int, int], other: tuple[int, int], batch_stride: int
    ) -> tuple[str, ...]:
        if self.k == 0:
            return tuple(names)  # nothing is read
        if not self.aligned or (self.batch > 1 and not _legal(batch_stride, shared=True)):
            return ()
        legal = (_takes(k, other), _takes(other, k))
        return tuple(name for name, ok in zip(names, legal, strict=True) if ok)

    def problem(self, dtype: torch.dtype, out_dtype: torch.dtype) -> GemmProblem:
        """What is to be planned: TMA if both operands allow it, else the gather loader."""
        a_majors, b_majors = self.a_majors(), self.b_majors()
        tma = bool(a_majors and b_majors)
        return GemmProblem(
            m=self.m,
            n=self.n,
            k=self.k,
            batch=self.batch,
            dtype=DTYPE_NAMES[dtype],
            a_major=a_majors[0] if tma else "k",
            b_major=b_majors[0] if tma else "k",
            loader="tma" if tma else "gather",
            out_dtype=DTYPE_NAMES[out_dtype],
        )

    def exchanged(self) -> Layout:
        """out^T = b^T a^T, the problem that a swapped plan is for."""
        (a_m, a_k, a_batch), (b_k, b_n, b_batch) = self.a, self.b
        c, out = ((n, m, batch) for m, n, batch in (self.c, self.out))
        a, b = (b_n, b_k, b_batch), (a_k, a_m, a_batch)
        return replace(self, m=self.n, n=self.m, a=a, b=b, c=c, out=out)

    def for_loader(self, loader: str, a_major: str, b_major: str) -> Layout:
        """The same elements with strides that never matter (of axes of size 1, or of anything when
        K is 0) replaced by ones that are legal for the loader."""
        if loader != "tma":
            return self
        k, m, n = max(self.k, 1), self.m, self.n
        a_m, a_k = _legalised((m, self.a[0]), (k, self.a[1]), second_contiguous=a_major == "k")
        b_n, b_k = _legalised((n, self.b[1]), (k, self.b[0]), second_contiguous=b_major == "k")
        a_batch, b_batch = (0, 0) if self.k == 0 else (self.a[2], self.b[2])
        return replace(self, a=(a_m, a_k, a_batch), b=(b_k, b_n, b_batch))


def _legal(stride: int, shared: bool = False) -> bool:
    in_bytes = stride * _BYTES
    smallest = 0 if shared else 1
    return smallest <= in_bytes < _TMA_LARGEST_STRIDE and in_bytes % _TMA_ALIGNMENT == 0


def _takes(contiguous: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether TMA reads an operand of two (size, stride) axes, the first one contiguous."""
    return (contiguous[0] == 1 or contiguous[1] == 1) and (other[0] == 1 or _legal(other[1]))


def _legalised(
    first: tuple[int, int], second: tuple[int, int], second_contiguous: bool
) -> tuple[int, int]:
    """The two strides; those that an axis of size 1 leaves open are made as in dense memory."""
    if not second_contiguous:
        second_stride, first_stride = _legalised(second, first, True)
        return first_stride, second_stride
    elements = _TMA_ALIGNMENT // _BYTES
    dense = -(-second[0] // elements) * elements
    open_stride = first[0] == 1 or not _legal(first[1])
    return (dense if open_stride else first[1]), 1


def layout_of(
    checked: Checked,
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    c: torch.Tensor | None,
    out_strides: tuple[int, ...],
    aligned: bool,
) -> Layout:
    """The layout of arguments that passed `check`. ValueError for sizes that are too large."""
    sizes = (checked.m, checked.n, checked.k, 1 if checked.batch is None else checked.batch)
    if max(sizes) > MAX_SIZE:
        raise wrong_value(OPERATION, "a size", f"{max(sizes)}", f"at most {MAX_SIZE}")
    return Layout(
        *sizes,
        a=_with_batch(a.shape, a.stride(), (a.shape[-2], a.shape[-1])),
        b=_with_batch(b.shape, b.stride(), (b.shape[-2], b.shape[-1])),
        c=(0, 0, 0) if c is None else _with_batch(c.shape, c.stride(), (checked.m, checked.n)),
        out=_with_batch(checked.shape, out_strides, (checked.m, checked.n)),
        bias=0 if bias is None or bias.shape[0] == 1 else bias.stride(0),
        aligned=aligned,
    )


def _with_batch(
    shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, int]
) -> Strides:
    """(row, column, batch) strides; an axis of size 1 that stands for a longer one gets 0, and so
    does a batch of 1."""
    padding = 3 - len(shape)
    sizes = (1,) * padding + tuple(shape)
    batch, row, column = (0,) * padding + tuple(strides)
    return (
        0 if sizes[1] == 1 != wanted[0] else row,
        0 if sizes[2] == 1 != wanted[1] else column,
        0 if sizes[0] == 1 else batch,
    )


def folded(layout: Layout) -> Layout:
    """The batch as more rows, when all batches share b and the rows of the others follow on: one
    product of batch * M rows reads b once. Otherwise the layout itself."""
    batch, m = layout.batch, layout.m
    if batch <= 1 or m == 0 or layout.b[2] != 0 or batch * m > MAX_SIZE:
        return layout
    operands = (layout.a, layout.c, layout.out)
    if m > 1 and any(rows[2] != m * rows[0] for rows in operands):
        return layout

    def rows_of(strides: Strides) -> Strides:
        return (strides[2] if m == 1 else strides[0]), strides[1], 0

    a, c, out = (rows_of(strides) for strides in operands)
    b = (layout.b[0], layout.b[1], 0)
    return replace(layout, m=batch * m, batch=1, a=a, b=b, c=c, out=out)
