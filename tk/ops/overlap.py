"""Whether strided tensors share memory, exactly: numpy's solver on addresses, nothing is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tk.errors import wrong_value

__all__ = [
    "Operand",
    "extent",
    "overlaps_itself",
    "refuse_overlap",
    "refuse_self_overlap",
    "share_memory",
]

# Some 10 ms of search. Beyond it (never seen with three axes) the answer is the safe one.
_MAX_WORK: Any = 1_000_000
_BASE = 1 << 44


class _Span:
    """Addresses of a strided tensor in the shape that `numpy.asarray` takes without a copy."""

    def __init__(self, address: int, shape: Sequence[int], strides: Sequence[int], size: int):
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "typestr": f"|V{size}",
            "data": (_BASE + address, True),  # not 0, which numpy takes for no memory
            "shape": tuple(shape),
            "strides": tuple(stride * size for stride in strides),
        }


def _share(first: _Span, second: _Span) -> bool:
    try:
        return bool(np.shares_memory(np.asarray(first), np.asarray(second), max_work=_MAX_WORK))
    except np.exceptions.TooHardError:
        return True


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last one of a tensor, both counted; 0 when it is empty."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def share_memory(
    first: tuple[int, Sequence[int], Sequence[int], int],
    second: tuple[int, Sequence[int], Sequence[int], int],
) -> bool:
    """Whether two tensors, each (address, shape, strides in elements, bytes an element), touch the
    same byte. Interleaved columns of one buffer do not, though their ranges cross."""
    return _share(_Span(*first), _Span(*second))


def overlaps_itself(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two different indices of a tensor are the same element, e.g. by a stride of 0.

    Two indices that differ first (in some axis d) by at least 1 meet if
    sum_{k != d} u_k s_k + v s_d = sum_{k != d} (n_k - 1) s_k - s_d for 0 <= u_k <= 2 n_k - 2 and
    0 <= v <= n_d - 2: a strided set holds an address, which is the same question as above.
    """
    if 0 in shape:
        return False
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        if size == 1:
            continue
        others = [k for k in range(len(shape)) if k != axis]
        target = sum((shape[k] - 1) * strides[k] for k in others) - stride
        sizes = [2 * shape[k] - 1 for k in others] + [size - 1]
        steps = [strides[k] for k in others] + [stride]
        if target >= 0 and _share(_Span(0, sizes, steps, 1), _Span(target, [1], [1], 1)):
            return True
    return False


def refuse_self_overlap(operation: str, shape: Sequence[int], strides: Sequence[int]) -> None:
    """ValueError for an output of such strides two of whose elements are one."""
    if overlaps_itself(shape, strides):
        raise wrong_value(
            operation,
            "out",
            f"of strides {tuple(strides)}, by which elements share memory",
            "of strides that give each element its own",
        )


@dataclass(frozen=True)
class Operand:
    """A strided tensor without its address, as overlaps are checked."""

    name: str
    shape: Sequence[int]
    strides: Sequence[int]
    itemsize: int

    @staticmethod
    def of(name: str, tensor: torch.Tensor | None) -> Operand | None:
        """That of a tensor."""
        if tensor is None:
            return None
        return Operand(name, tuple(tensor.shape), tensor.stride(), tensor.element_size())

    @property
    def bytes(self) -> int:
        """Bytes from the first to the last element, both counted."""
        return extent(self.shape, self.strides) * self.itemsize


def refuse_overlap(
    operation: str,
    out: Operand,
    address: int,
    operands: Sequence[Operand | None],
    addresses: Sequence[int],
) -> None:
    """ValueError when an output at `address` shares a byte with an operand at its own."""
    for start, each in zip(addresses, operands, strict=True):
        if each is not None and share_memory(
            (address, out.shape, out.strides, out.itemsize),
            (start, each.shape, each.strides, each.itemsize),
        ):
            raise wrong_value(
                operation, "out", f"in memory of {each.name}", "apart from all inputs"
            )
