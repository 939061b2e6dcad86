"""The arguments of tk.rotary: what is allowed, in words, and the outputs that follow from them.

Works on real, fake and meta tensors alike, so that eager calls, the dispatcher and torch.compile
raise the same errors. Reads no memory and asks the device nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from tk.errors import describe, wrong_type, wrong_value
from tk.ops.arguments import DTYPE_CODES, check_device, check_dtype, check_tensor
from tk.schedulers.order import is_whole

__all__ = [
    "OPERATION",
    "Arguments",
    "Checked",
    "check",
    "new_output",
    "refuse_table_gradients",
    "split_positions",
]

OPERATION = "tk.rotary"
_DTYPES = tuple(DTYPE_CODES)
_POSITION_DTYPES = (torch.int32, torch.int64)


class Arguments(NamedTuple):
    """What the rotation is called with; `positions` are a tensor's, else counted from `offset`."""

    q: torch.Tensor
    k: torch.Tensor | None
    cos: torch.Tensor
    sin: torch.Tensor
    positions: torch.Tensor | None = None
    cu_seqlens: torch.Tensor | None = None
    interleaved: bool = False
    offset: int = 0
    rotary_dim: int | None = None
    inverse: bool = False
    inplace: bool = False

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Those that are given, with their names."""
        for name in ("q", "k", "cos", "sin", "positions", "cu_seqlens"):
            tensor = getattr(self, name)
            if tensor is not None:
                yield name, tensor


@dataclass(frozen=True)
class Checked:
    """What follows from valid arguments; packed sequences are one batch of all their rows."""

    packed: bool
    batch: int
    rows: int
    head_dim: int
    rotary_dim: int


def split_positions(positions: object) -> tuple[torch.Tensor | None, int]:
    """(tensor, offset) of the `positions` that a user gives. TypeError for anything else."""
    if positions is None:
        return None, 0
    if isinstance(positions, torch.Tensor):
        return positions, 0
    if not (is_whole(positions) or isinstance(positions, torch.SymInt)):
        raise wrong_type(OPERATION, "positions", positions, "a torch.Tensor, an int or None")
    return None, positions  # type: ignore[return-value]


def check(arguments: Arguments) -> Checked:
    """Raises TypeError for objects of the wrong kind and ValueError for anything else that cannot
    be computed; each names the argument, what it was and what is allowed."""
    required = ("q", "cos", "sin")
    for name in required:
        check_tensor(OPERATION, name, getattr(arguments, name), optional=False)
    q, k, cos, sin = arguments.q, arguments.k, arguments.cos, arguments.sin
    for name, tensor in arguments.tensors():
        check_tensor(OPERATION, name, tensor, optional=name not in required)
        check_device(OPERATION, name, tensor, "q", q)
    for name in ("interleaved", "inplace"):
        if not isinstance(getattr(arguments, name), bool):
            raise wrong_type(OPERATION, name, getattr(arguments, name), "True or False")
    check_dtype(OPERATION, "q", q, _DTYPES)
    if k is not None and k.dtype != q.dtype:
        raise wrong_value(OPERATION, "k", describe(k), f"of q's dtype, {q.dtype}")
    for name, table in (("cos", cos), ("sin", sin)):
        check_dtype(OPERATION, name, table, tuple(dict.fromkeys((torch.float32, q.dtype))))
    if sin.dtype != cos.dtype or sin.shape != cos.shape:
        allowed = f"of cos's shape and dtype, {tuple(cos.shape)} and {cos.dtype}"
        raise wrong_value(OPERATION, "sin", describe(sin), allowed)
    checked = _check_shapes(arguments)
    _check_positions(arguments, checked)
    return checked


def _check_shapes(arguments: Arguments) -> Checked:
    q, k, cos = arguments.q, arguments.k, arguments.cos
    per_token = arguments.cu_seqlens is not None or (
        arguments.positions is not None and arguments.positions.dim() == 1
    )
    packed = q.dim() == 3 and per_token
    if arguments.cu_seqlens is not None and q.dim() != 3:
        raise wrong_value(OPERATION, "q", describe(q), "of shape (T, H, D) with cu_seqlens")
    if q.dim() != 4 and not packed:
        allowed = "of shape (B, H, N, D), or (T, H, D) with cu_seqlens or positions of shape (T,)"
        raise wrong_value(OPERATION, "q", describe(q), allowed)
    if k is not None and (k.dim() != q.dim() or _without_heads(k) != _without_heads(q)):
        allowed = f"of q's shape, {tuple(q.shape)}, but for the heads"
        raise wrong_value(OPERATION, "k", describe(k), allowed)
    dimension = q.shape[-1]
    rotary_dim = arguments.rotary_dim
    if rotary_dim is not None:
        whole: object = rotary_dim
        if not (is_whole(whole) or isinstance(whole, torch.SymInt)):
            raise wrong_type(OPERATION, "rotary_dim", rotary_dim, "an int or None")
        if rotary_dim < 2 or rotary_dim % 2 or rotary_dim > dimension:
            raise wrong_value(
                OPERATION,
                "rotary_dim",
                str(rotary_dim),
                f"an even number from 2 to the head dimension, {dimension}",
            )
    if cos.dim() != 2:
        raise wrong_value(OPERATION, "cos", describe(cos), "of shape (rows, rotary_dim / 2)")
    if rotary_dim is None:
        rotary_dim = 2 * cos.shape[1]
        if rotary_dim < 2 or rotary_dim > dimension:
            allowed = f"of 1 to {dimension // 2} columns, half of q's head dimension"
            raise wrong_value(OPERATION, "cos", describe(cos), allowed)
    elif 2 * cos.shape[1] != rotary_dim:
        allowed = f"of {rotary_dim // 2} columns, half of rotary_dim"
        raise wrong_value(OPERATION, "cos", describe(cos), allowed)
    return Checked(
        packed=packed,
        batch=1 if packed else q.shape[0],
        rows=q.shape[0 if packed else 2],
        head_dim=dimension,
        rotary_dim=rotary_dim,
    )


def _without_heads(tensor: torch.Tensor) -> tuple[int, ...]:
    return (*tensor.shape[:1], *tensor.shape[2:])


def _check_positions(arguments: Arguments, checked: Checked) -> None:
    positions, lengths, table_rows = (
        arguments.positions,
        arguments.cu_seqlens,
        arguments.cos.shape[0],
    )
    if lengths is not None:
        if positions is not None:
            raise wrong_value(
                OPERATION, "positions", "a tensor with cu_seqlens", "an int or None with it"
            )
        if lengths.dtype != torch.int32:
            raise wrong_value(OPERATION, "cu_seqlens", describe(lengths), "of torch.int32")
        if lengths.dim() != 1 or lengths.shape[0] < (2 if checked.rows else 1):
            raise wrong_value(
                OPERATION, "cu_seqlens", describe(lengths), "of shape (sequences + 1,)"
            )
        if lengths.shape[0] > 1 and lengths.stride(0) != 1:
            was = f"of stride {lengths.stride(0)}"
            raise wrong_value(OPERATION, "cu_seqlens", was, "contiguous")
    if positions is not None:
        check_dtype(OPERATION, "positions", positions, _POSITION_DTYPES)
        batch, rows = checked.batch, checked.rows
        shapes = ((rows,),) if checked.packed else ((rows,), (1, rows), (batch, rows))
        if tuple(positions.shape) not in shapes:
            allowed = f"of shape (T,), that is ({rows},)"
            if not checked.packed:
                allowed = f"of shape (N,) or (B, N), that is ({rows},) or ({batch}, {rows})"
            raise wrong_value(OPERATION, "positions", describe(positions), allowed)
        return
    if arguments.offset < 0:
        raise wrong_value(OPERATION, "positions", str(arguments.offset), "an int >= 0")
    if lengths is None and checked.batch and checked.rows + arguments.offset > table_rows:
        raise wrong_value(
            OPERATION,
            "cos",
            describe(arguments.cos),
            f"of at least {checked.rows + arguments.offset} rows, one for each position",
        )


def refuse_table_gradients(arguments: Arguments) -> None:
    """NotImplementedError when cos or sin would need a gradient."""
    for name in ("cos", "sin"):
        if getattr(arguments, name).requires_grad:
            raise NotImplementedError(
                f"{OPERATION}: {name} requires grad, and is not differentiated; detach it"
            )


def new_output(x: torch.Tensor, device: torch.device | None = None) -> torch.Tensor:
    """Dense memory for the rotated x: as (B, N, H, D) where x's heads lie closer than its rows,
    else as (B, H, N, D); packed, as (T, H, D)."""
    where = x.device if device is None else device
    if x.dim() == 4 and x.stride(1) < x.stride(2):
        batch, heads, rows, dimension = x.shape
        made = torch.empty((batch, rows, heads, dimension), dtype=x.dtype, device=where)
        return made.transpose(1, 2)
    return torch.empty(x.shape, dtype=x.dtype, device=where)
