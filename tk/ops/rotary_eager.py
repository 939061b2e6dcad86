"""tk.rotary without the dispatcher: looks the call up, prepares it when it is new, runs it."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise

import torch
from torch.autograd.graph import increment_version

from tk.cache import BoundedCache
from tk.errors import describe, wrong_value
from tk.ops.rotary_arguments import OPERATION, Arguments, Checked, check, new_output
from tk.ops.rotary_call import PreparedRotary

__all__ = ["prepared_calls", "run"]

prepared_calls: BoundedCache[PreparedRotary] = BoundedCache(4096)
"""Prepared calls by shapes, strides, dtypes, devices and options."""

_ALIGNMENT = 16  # bytes of a vector


def run(arguments: Arguments) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The rotated q and k, which are q and k themselves in place, of plain tensors; nothing is
    recorded for autograd."""
    try:
        at = _addresses(arguments)
        key = _key(arguments, at)
        prepared = prepared_calls.get(key)
    except (TypeError, RuntimeError, AttributeError):  # no strides, no hash: `check` says what
        check(arguments)
        raise
    if prepared is None:
        checked = check(arguments)
        if arguments.q.is_meta:
            return _outputs_of_meta(arguments)
        made = PreparedRotary(arguments, checked, _is_aligned(at))
        prepared = prepared_calls.get_or_make(key, lambda: made)
    if not arguments.q.is_cuda:
        _check_values(arguments, prepared.checked)
    if arguments.inplace:
        _refuse_inference(arguments)
        prepared.refuse_overlap(arguments)
    q, k = (arguments.q, arguments.k) if arguments.inplace else prepared.allocate()
    if prepared.plan is None:
        return q, k
    if not (at[0] and at[2] and at[3] and (at[1] or k is None)):
        _refuse_no_memory(arguments, at)
    prepared.launch(*at, q.data_ptr(), 0 if k is None else k.data_ptr())
    if arguments.inplace:
        increment_version(q)
        if k is not None:
            increment_version(k)
    return q, k


def _outputs_of_meta(arguments: Arguments) -> tuple[torch.Tensor, torch.Tensor | None]:
    q, k = arguments.q, arguments.k
    if arguments.inplace:
        return q, k
    return new_output(q), None if k is None else new_output(k)


def _addresses(arguments: Arguments) -> tuple[int, int, int, int, int, int]:
    """Of q, k, cos, sin, positions and cu_seqlens; 0 for what is not given."""
    q, k, cos, sin, positions, lengths = arguments[:6]
    return (
        q.data_ptr(),
        0 if k is None else k.data_ptr(),
        cos.data_ptr(),
        sin.data_ptr(),
        0 if positions is None else positions.data_ptr(),
        0 if lengths is None else lengths.data_ptr(),
    )


def _is_aligned(at: tuple[int, ...]) -> bool:
    q, k, cos, sin = at[:4]
    return (q | k | cos | sin) % _ALIGNMENT == 0


def _key(arguments: Arguments, at: tuple[int, ...]) -> Hashable:
    """What a prepared call is known by. The types of numbers are part of it: True is 1 as a key."""
    q, k, cos, sin, positions, lengths, *options = arguments
    return (
        q.shape,
        q.stride(),
        q.dtype,
        q.device,
        _part(k),
        cos.shape,
        cos.stride(),
        cos.dtype,
        cos.device,
        _part(sin),
        _part(positions),
        _part(lengths),
        *options,
        *map(type, options),
        _is_aligned(at),
    )


def _part(tensor: torch.Tensor | None) -> Hashable:
    if tensor is None:
        return None
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def _check_values(arguments: Arguments, checked: Checked) -> None:
    """ValueError for positions and lengths on a CPU that are not as they must be."""
    rows = arguments.cos.shape[0]
    positions, lengths = arguments.positions, arguments.cu_seqlens
    if positions is not None and positions.numel():
        least, most = (int(bound) for bound in positions.aminmax())
        if least < 0 or most >= rows:
            was = f"of values from {least} to {most}"
            raise wrong_value(
                OPERATION, "positions", was, f"from 0 to {rows - 1}, rows of cos and sin"
            )
    if lengths is not None:
        numbers = lengths.tolist()
        each = [end - first for first, end in pairwise(numbers)]
        if numbers[0] != 0 or numbers[-1] != checked.rows or min(each, default=0) < 0:
            shown = str(numbers) if len(numbers) <= 8 else f"{str(numbers[:8])[:-1]}, ...]"
            allowed = f"numbers that begin with 0, end with {checked.rows}, never fall"
            raise wrong_value(OPERATION, "cu_seqlens", shown, allowed)
        longest = max(each, default=0)
        if longest and longest + arguments.offset > rows:
            raise wrong_value(
                OPERATION,
                "cos",
                describe(arguments.cos),
                f"of at least {longest + arguments.offset} rows, one for each position",
            )


def _refuse_inference(arguments: Arguments) -> None:
    """ValueError for tensors of inference mode outside of it, which torch lets nobody write."""
    if torch.is_inference_mode_enabled():
        return
    for name in ("q", "k"):
        tensor = getattr(arguments, name)
        if tensor is not None and tensor.is_inference():
            raise wrong_value(
                OPERATION,
                name,
                "a tensor of inference mode outside of it, with inplace",
                "an ordinary tensor",
            )


def _refuse_no_memory(arguments: Arguments, at: tuple[int, ...]) -> None:
    """ValueError for memory that was freed or never given."""
    for name, address in zip(Arguments._fields, at, strict=False):
        tensor = getattr(arguments, name)
        if not address and tensor is not None and tensor.numel():
            raise wrong_value(OPERATION, name, "a tensor without memory", "one with memory")
