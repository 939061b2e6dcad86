"""The arguments of tk.attention: what is allowed, in words, and the shapes that follow from them.

Works on real, fake and meta tensors alike, so that eager calls, the dispatcher and torch.compile
raise the same errors. Reads no memory and asks the device nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import NamedTuple

import torch

from tk.errors import describe, wrong_type, wrong_value
from tk.ops.arguments import check_device, check_dtype, check_tensor, scalar
from tk.schedulers.order import is_whole

__all__ = [
    "OPERATION",
    "Arguments",
    "Checked",
    "check",
    "new_output",
    "new_outputs",
    "refuse_gradients",
]

OPERATION = "tk.attention"
INPUT_DTYPES = (torch.bfloat16, torch.float16)

# TMA: bases and strides are multiples of 16 bytes, strides are below 2^40 bytes.
STEP = 8  # elements
LARGEST_STRIDE = 2**39
LARGEST_DIMENSION = 256

_SHAPES = {
    False: {"q": "(B, H, Nq, D)", "k": "(B, Hkv, Nk, D)", "v": "(B, Hkv, Nk, Dv)"},
    True: {"q": "(Tq, H, D)", "k": "(Tk, Hkv, D)", "v": "(Tk, Hkv, Dv)"},
}


class Arguments(NamedTuple):
    """What tk.attention is called with, but for the plan."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    causal: bool = False
    scale: float | None = None
    window: tuple[int, int] | None = None
    softcap: float | None = None
    return_lse: bool = False
    cu_seqlens_q: torch.Tensor | None = None
    cu_seqlens_k: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    alibi_slopes: torch.Tensor | None = None
    out: torch.Tensor | None = None

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Those that are given, with their names."""
        for name in ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "bias", "alibi_slopes", "out"):
            tensor = getattr(self, name)
            if tensor is not None:
                yield name, tensor


@dataclass(frozen=True)
class Checked:
    """What follows from valid arguments. With `packed` rows are those of all sequences."""

    packed: bool
    batch: int  # sequences
    heads: int
    kv_heads: int
    query_rows: int
    key_rows: int
    head_dim: int
    value_dim: int
    scale: float

    @property
    def lse_shape(self) -> tuple[int, ...]:
        """The log-sum-exp's shape, the output's without its last axis."""
        if self.packed:
            return self.query_rows, self.heads
        return self.batch, self.heads, self.query_rows

    @property
    def shape(self) -> tuple[int, ...]:
        """The output's shape."""
        return (*self.lse_shape, self.value_dim)

    @property
    def score_shape(self) -> tuple[int, int, int, int]:
        """(batch, heads, queries, keys), to which a bias is broadcast."""
        return self.batch, self.heads, self.query_rows, self.key_rows


def check(arguments: Arguments) -> Checked:
    """Raises TypeError for objects of the wrong kind and ValueError for anything else that cannot
    be computed; each names the argument, what it was and what is allowed."""
    for name in ("q", "k", "v"):
        check_tensor(OPERATION, name, getattr(arguments, name), optional=False)
    for name, tensor in arguments.tensors():
        check_tensor(OPERATION, name, tensor, optional=name not in ("q", "k", "v"))
    q, k, v = arguments.q, arguments.k, arguments.v
    check_dtype(OPERATION, "q", q, INPUT_DTYPES)
    for name, tensor in arguments.tensors():
        if name in ("k", "v", "out") and tensor.dtype != q.dtype:
            raise wrong_value(OPERATION, name, describe(tensor), f"of q's dtype, {q.dtype}")
        check_device(OPERATION, name, tensor, "q", q)
    packed = _check_packed(arguments)
    scale = _check_numbers(arguments)
    checked = _check_shapes(arguments, packed, scale)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        _check_strides(name, tensor)
    _check_scores(arguments, checked)
    if arguments.out is not None:
        check_out(arguments.out, checked)
    return checked


def _check_packed(arguments: Arguments) -> bool:
    """Whether sequences are packed."""
    lengths = {name: getattr(arguments, name) for name in ("cu_seqlens_q", "cu_seqlens_k")}
    given = [name for name, tensor in lengths.items() if tensor is not None]
    if not given:
        return False
    if len(given) == 1:
        other = next(name for name in lengths if name not in given)
        raise wrong_value(OPERATION, other, f"None while {given[0]} is given", "given with it")
    for name, tensor in lengths.items():
        if tensor.dtype != torch.int32:
            raise wrong_value(OPERATION, name, describe(tensor), "of torch.int32")
        if tensor.dim() != 1 or tensor.shape[0] < 1:
            raise wrong_value(
                OPERATION, name, describe(tensor), "of shape (sequences + 1,), beginning with 0"
            )
        if tensor.shape[0] > 1 and tensor.stride(0) != 1:
            raise wrong_value(OPERATION, name, f"of stride {tensor.stride(0)}", "contiguous")
    first, second = lengths.values()
    if first.shape[0] != second.shape[0]:
        raise wrong_value(
            OPERATION,
            "cu_seqlens_k",
            describe(second),
            f"of cu_seqlens_q's shape, ({first.shape[0]},)",
        )
    return True


def _check_numbers(arguments: Arguments) -> float:
    """The scale, after a look at every option that is no tensor."""
    for name in ("causal", "return_lse"):
        value = getattr(arguments, name)
        if not isinstance(value, bool):
            raise wrong_type(OPERATION, name, value, "True or False")
    window = arguments.window
    if window is not None:
        if not isinstance(window, tuple | list):
            raise wrong_type(OPERATION, "window", window, "(left, right) or None")
        if len(window) != 2 or not all(is_whole(side) and side >= -1 for side in window):
            raise wrong_value(
                OPERATION, "window", f"{window!r}", "two ints >= -1, where -1 is unlimited"
            )
    if arguments.softcap is not None:
        softcap = scalar(OPERATION, "softcap", arguments.softcap)
        if not (softcap > 0 and isfinite(softcap)):
            raise wrong_value(
                OPERATION, "softcap", repr(softcap), "a finite number above 0 or None"
            )
    if arguments.scale is None:
        dimension = arguments.q.shape[-1] if arguments.q.dim() else 0
        return 1 / sqrt(max(int(dimension), 1))
    scale = scalar(OPERATION, "scale", arguments.scale)
    if not isfinite(scale):
        raise wrong_value(OPERATION, "scale", repr(scale), "a finite number or None")
    return scale


def _check_shapes(arguments: Arguments, packed: bool, scale: float) -> Checked:
    q, k, v = arguments.q, arguments.k, arguments.v
    shapes = _SHAPES[packed]
    with_lengths = "with" if packed else "without"
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != (3 if packed else 4):
            raise wrong_value(
                OPERATION,
                name,
                describe(tensor),
                f"of shape {shapes[name]} {with_lengths} cu_seqlens_q and cu_seqlens_k",
            )
    row_axis, head_axis = (0, 1) if packed else (2, 1)
    if not packed and k.shape[0] != q.shape[0]:
        raise wrong_value(OPERATION, "k", describe(k), f"of q's batch, {q.shape[0]}")
    heads, kv_heads = q.shape[head_axis], k.shape[head_axis]
    if (heads % kv_heads if kv_heads else heads) != 0:
        raise wrong_value(
            OPERATION, "k", describe(k), f"of a number of heads that divides q's, {heads}"
        )
    for name, tensor in (("q", q), ("v", v)):
        _check_dimension(name, tensor)
    if k.shape[-1] != q.shape[-1]:
        raise wrong_value(OPERATION, "k", describe(k), f"of q's head dimension, {q.shape[-1]}")
    if v.shape[:-1] != k.shape[:-1]:
        wanted = "(" + ", ".join(map(str, k.shape[:-1])) + ", Dv)"
        raise wrong_value(OPERATION, "v", describe(v), f"of shape {wanted}, as k has it")
    lengths = arguments.cu_seqlens_q
    if lengths is not None and lengths.shape[0] == 1 and q.shape[0] + k.shape[0] > 0:
        raise wrong_value(
            OPERATION, "cu_seqlens_q", "of no sequence", "of as many as q has rows of"
        )
    return Checked(
        packed=packed,
        batch=q.shape[0] if lengths is None else lengths.shape[0] - 1,
        heads=heads,
        kv_heads=kv_heads,
        query_rows=q.shape[row_axis],
        key_rows=k.shape[row_axis],
        head_dim=q.shape[-1],
        value_dim=v.shape[-1],
        scale=scale,
    )


def _check_dimension(name: str, tensor: torch.Tensor) -> None:
    dimension = tensor.shape[-1]
    if dimension % STEP or not STEP <= dimension <= LARGEST_DIMENSION:
        which = "value dimension" if name == "v" else "head dimension"
        raise wrong_value(
            OPERATION,
            name,
            f"{describe(tensor)}, of {which} {dimension}",
            f"of a {which} that is a multiple of {STEP}, up to {LARGEST_DIMENSION}",
        )


def _check_strides(name: str, tensor: torch.Tensor) -> None:
    if tensor.numel() == 0:
        return
    strides = tensor.stride()
    was = f"of strides {tuple(strides)}"
    if strides[-1] != 1:
        raise wrong_value(OPERATION, name, was, "contiguous in its last dimension")
    row_axis = 2 if tensor.dim() == 4 else 0
    if tensor.shape[row_axis] > 1 and strides[row_axis] == 0:
        raise wrong_value(OPERATION, name, was, "of a stride between its rows that is not 0")
    for size, stride in zip(tensor.shape[:-1], strides[:-1], strict=True):
        if size > 1 and (stride % STEP or stride >= LARGEST_STRIDE):
            allowed = f"of strides that are multiples of {STEP} elements (16 bytes), below 2^39"
            raise wrong_value(OPERATION, name, was, allowed)


def _check_scores(arguments: Arguments, checked: Checked) -> None:
    bias, slopes = arguments.bias, arguments.alibi_slopes
    if bias is not None:
        check_dtype(OPERATION, "bias", bias, (arguments.q.dtype, torch.float32))
        if checked.packed:
            raise wrong_value(OPERATION, "bias", "given with cu_seqlens_q", "None with it")
        sizes = zip(reversed(bias.shape), reversed(checked.score_shape), strict=False)
        if bias.dim() > 4 or not all(size in (1, wanted) for size, wanted in sizes):
            raise wrong_value(
                OPERATION,
                "bias",
                describe(bias),
                f"broadcastable to (B, H, Nq, Nk), that is {checked.score_shape}",
            )
    if slopes is not None:
        check_dtype(OPERATION, "alibi_slopes", slopes, (torch.float32,))
        batch, heads = checked.batch, checked.heads
        if tuple(slopes.shape) not in ((heads,), (batch, heads)):
            raise wrong_value(
                OPERATION,
                "alibi_slopes",
                describe(slopes),
                f"of shape (H,) or (B, H), that is ({heads},) or ({batch}, {heads})",
            )


def check_out(out: torch.Tensor, checked: Checked) -> None:
    """ValueError unless the output can be written to `out`."""
    if tuple(out.shape) != checked.shape:
        raise wrong_value(OPERATION, "out", describe(out), f"of shape {checked.shape}")
    if out.numel() and out.stride(-1) != 1:
        was = f"of strides {tuple(out.stride())}"
        raise wrong_value(OPERATION, "out", was, "contiguous in its last dimension")
    if out.requires_grad and torch.is_grad_enabled():
        raise wrong_value(
            OPERATION, "out", "a tensor that requires grad", "one that does not (or use no_grad)"
        )


def refuse_gradients(arguments: Arguments) -> None:
    """NotImplementedError for a call whose result autograd would have to differentiate."""
    if not torch.is_grad_enabled():
        return
    for name, tensor in arguments.tensors():
        # What is no tensor is named by `check`.
        if name != "out" and isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            raise NotImplementedError(
                f"{OPERATION}: {name} requires grad, and there is no backward kernel yet; call it "
                "under torch.no_grad(), or with detached tensors"
            )


def new_outputs(arguments: Arguments, checked: Checked) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory for the output and the log-sum-exp, or no elements for the latter if it is not wanted.
    The log-sum-exp is dense in its own shape."""
    q = arguments.q
    shape = checked.lse_shape if arguments.return_lse else (0,)
    lse = torch.empty(shape, dtype=torch.float32, device=q.device)
    out = arguments.out
    return (new_output(q, checked, q.device) if out is None else out), lse


def new_output(q: torch.Tensor, checked: Checked, device: torch.device) -> torch.Tensor:
    """Dense memory for the output, as (B, Nq, H, Dv) where q's heads lie closer than its rows, else
    as (B, H, Nq, Dv); packed, as (Tq, H, Dv)."""
    if turns_output(q, checked):
        shape = turned_shape(checked.shape)
        return torch.empty(shape, dtype=q.dtype, device=device).transpose(1, 2)
    return torch.empty(checked.shape, dtype=q.dtype, device=device)


def turns_output(q: torch.Tensor, checked: Checked) -> bool:
    """Whether a new output lies in memory with its rows before its heads."""
    return not checked.packed and q.stride(1) < q.stride(2)


def turned_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """(B, Nq, H, Dv) of (B, H, Nq, Dv)."""
    batch, heads, rows, dimension = shape
    return batch, rows, heads, dimension
