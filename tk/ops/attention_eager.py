"""tk.attention without the dispatcher: looks the call up, prepares it when it is new, runs it."""

from __future__ import annotations

from collections.abc import Hashable
from math import inf

import torch
from torch.autograd.graph import increment_version

from tk import runtime
from tk.cache import BoundedCache
from tk.errors import wrong_value
from tk.ops.arguments import refuse_inference
from tk.ops.attention_arguments import (
    OPERATION,
    Arguments,
    Checked,
    check,
    check_out,
    new_output,
    new_outputs,
)
from tk.ops.attention_call import PreparedAttention
from tk.ops.attention_layout import layout_of, longest_lengths
from tk.ops.attention_plan import check_plan, plan_for
from tk.ops.overlap import Operand, refuse_self_overlap
from tk.schedulers import Plan

__all__ = ["prepare", "prepared_calls", "run"]

prepared_calls: BoundedCache[PreparedAttention] = BoundedCache(4096)
"""Prepared calls by shapes, strides, dtypes, devices, options and lengths."""

_ALIGNMENT = 16  # bytes; of what TMA loads


def run(arguments: Arguments, plan: Plan | None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The output, and the log-sum-exp if it is wanted, of plain tensors; nothing is recorded for
    autograd."""
    try:
        key = _key(arguments, plan)
        prepared = prepared_calls.get(key)
    except (TypeError, RuntimeError, AttributeError):  # no strides, no hash: `check` says what
        check(arguments)
        raise
    if prepared is None:
        checked = check(arguments)
        if arguments.q.is_meta:
            return new_outputs(arguments, checked)
        made = prepare(arguments, checked, plan)
        prepared = prepared_calls.get_or_make(key, lambda: made)
    q, k, v = arguments.q.data_ptr(), arguments.k.data_ptr(), arguments.v.data_ptr()
    if (q | k | v) % _ALIGNMENT or not (q and k and v):
        _check_addresses(arguments)
    cu_seqlens_q = cu_seqlens_k = slopes = bias = 0
    if arguments.cu_seqlens_q is not None and arguments.cu_seqlens_k is not None:
        cu_seqlens_q = _address("cu_seqlens_q", arguments.cu_seqlens_q)
        cu_seqlens_k = _address("cu_seqlens_k", arguments.cu_seqlens_k)
    if arguments.alibi_slopes is not None:
        slopes = _address("alibi_slopes", arguments.alibi_slopes)
    if arguments.bias is not None:
        bias = _address("bias", arguments.bias)
    out = arguments.out
    if out is None:
        out = prepared.allocate()
    else:
        _refuse_unusable(out, arguments, prepared)
    lse = prepared.allocate_lse() if arguments.return_lse else None
    if not prepared.launches:
        if not prepared.layout.empty:  # no key to see
            out.zero_()
            lse = None if lse is None else lse.fill_(-inf)
        return out, lse
    at = 0 if lse is None else lse.data_ptr()
    prepared.launch(*(q, k, v, out.data_ptr(), at), cu_seqlens_q, cu_seqlens_k, slopes, bias)
    if arguments.out is not None:
        increment_version(arguments.out)
    return out, lse


def _key(arguments: Arguments, plan: Plan | None) -> Hashable:
    """What a prepared call is known by.

    Lengths on a CPU are part of it: they are checked, and the longest decides the plan. So are the
    types of numbers: True is 1 as a key. TypeError, RuntimeError or AttributeError for arguments
    that are not of the right kinds.
    """
    q, k, v, causal, scale, window, softcap, return_lse, first, second, bias, slopes, out = (
        arguments
    )
    optional = (first, second, bias, slopes, out)
    given = not (first is second is bias is slopes is out is None)
    lengths = first is not None and not first.is_cuda
    return (
        q.shape,
        q.stride(),
        k.shape,
        k.stride(),
        v.shape,
        v.stride(),
        q.dtype,
        k.dtype,
        v.dtype,
        q.device,
        k.device,
        v.device,
        causal,
        causal.__class__,
        scale,
        scale.__class__,
        softcap,
        softcap.__class__,
        return_lse,
        return_lse.__class__,
        None if window is None else (window.__class__, *window, *map(type, window)),
        (*map(_part, optional),) if given else None,
        None if plan is None else id(plan),
        _values(arguments) if lengths else None,
    )


def _part(tensor: torch.Tensor | None) -> Hashable:
    if tensor is None:
        return None
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def _values(arguments: Arguments) -> Hashable:
    both = arguments.cu_seqlens_q, arguments.cu_seqlens_k
    return tuple(
        tuple(tensor.tolist()) if tensor is not None and tensor.device.type == "cpu" else None
        for tensor in both
    )


def _address(name: str, tensor: torch.Tensor) -> int:
    """Where it is, 0 for no elements. ValueError for memory that was freed or never given."""
    if not tensor.numel():
        return 0
    address = tensor.data_ptr()
    if not address:
        raise wrong_value(OPERATION, name, "a tensor without memory", "one with memory")
    return address


def _check_addresses(arguments: Arguments) -> None:
    """ValueError for q, k or v without memory, or where TMA cannot load it."""
    for name, tensor in arguments.tensors():
        if name in ("q", "k", "v") and _address(name, tensor) % _ALIGNMENT:
            was = f"at address {tensor.data_ptr():#x}"
            raise wrong_value(OPERATION, name, was, "at a multiple of 16 bytes")


def _refuse_unusable(out: torch.Tensor, arguments: Arguments, prepared: PreparedAttention) -> None:
    """ValueError for an output that cannot be written, by what a prepared call does not know."""
    refuse_inference(OPERATION, out)
    if out.requires_grad:
        check_out(out, prepared.checked)
    inputs = [_address(name, each) for name, each in arguments.tensors() if name != "out"]
    prepared.refuse_overlap(_address("out", out), inputs)


def prepare(arguments: Arguments, checked: Checked, plan: Plan | None) -> PreparedAttention:
    """Plans arguments that passed `check` and binds them to the library of q's device."""
    lengths = (checked.query_rows, checked.key_rows)
    if checked.packed:
        lengths = longest_lengths(arguments, checked)
    out = arguments.out
    if out is None:
        out = new_output(arguments.q, checked, torch.device("meta"))
    else:
        refuse_self_overlap(OPERATION, out.shape, out.stride())
    layout = layout_of(arguments, checked, out.stride(), lengths)
    backend = runtime.backend(arguments.q.device)
    used: Plan | None = None
    if plan is not None:
        check_plan(plan, layout.problem, backend)
        used = plan
    elif not (layout.empty or layout.keyless):
        used = plan_for(layout.problem, backend)
    operands = [Operand.of(name, t) for name, t in arguments.tensors() if name != "out"]
    return PreparedAttention(
        backend,
        checked,
        layout,
        used,
        [operand for operand in operands if operand is not None],
        Operand("out", tuple(out.shape), out.stride(), out.element_size()),
        arguments.q,
        plan,
    )
