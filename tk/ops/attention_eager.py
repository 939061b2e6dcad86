"""tk.attention without the dispatcher: looks the call up, prepares it when it is new, runs it."""

from __future__ import annotations

from collections.abc import Hashable
from math import inf

import torch
from torch.autograd.graph import increment_version

from tk import runtime
from tk.cache import BoundedCache
from tk.errors import wrong_value
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
from tk.ops.overlap import Operand, overlaps_itself
from tk.schedulers import Plan

__all__ = ["prepare", "prepared_calls", "run"]

prepared_calls: BoundedCache[PreparedAttention] = BoundedCache(4096)
"""Prepared calls by shapes, strides, dtypes, devices, options and lengths."""

_ALIGNMENT = 16  # bytes; of what TMA loads


def run(arguments: Arguments, plan: Plan | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The output and the log-sum-exp (no elements if it is not wanted) of plain tensors, nothing
    recorded for autograd."""
    key = _key(arguments, plan)
    prepared = None if key is None else prepared_calls.get(key)
    if prepared is None:
        checked = check(arguments)
        if arguments.q.is_meta:
            return new_outputs(arguments, checked)
        made = prepare(arguments, checked, plan)
        prepared = made if key is None else prepared_calls.get_or_make(key, lambda: made)
    given = {name: _address(name, tensor) for name, tensor in arguments.tensors()}
    for name in ("q", "k", "v"):
        if given[name] % _ALIGNMENT:
            raise wrong_value(
                OPERATION, name, f"at address {given[name]:#x}", "at a multiple of 16 bytes"
            )
    _refuse_unusable_out(arguments.out, prepared, given)
    out, lse = new_outputs(arguments, prepared.checked)
    if prepared.layout.empty:
        return out, lse
    if prepared.layout.keyless:
        out.zero_()
        lse.fill_(-inf)
        return out, lse
    prepared.launch(
        given["q"],
        given["k"],
        given["v"],
        out.data_ptr(),
        lse.data_ptr(),
        given.get("cu_seqlens_q", 0),
        given.get("cu_seqlens_k", 0),
        given.get("alibi_slopes", 0),
        given.get("bias", 0),
    )
    if arguments.out is not None:
        increment_version(arguments.out)
    return out, lse


def _key(arguments: Arguments, plan: Plan | None) -> Hashable:
    """What a prepared call is known by, None when the arguments are not even of the right kinds.

    Lengths on a CPU are part of it: they are checked, and the longest decides the plan.
    """
    q, k, v, causal, scale, window, softcap, return_lse, *optional = arguments
    try:
        lengths = arguments.cu_seqlens_q is not None and not arguments.cu_seqlens_q.is_cuda
        options = causal, scale, softcap, return_lse, None if window is None else tuple(window)
        key = (
            q.shape,
            q.stride(),
            k.shape,
            k.stride(),
            v.shape,
            v.stride(),
            *(q.dtype, k.dtype, v.dtype),
            *(q.device, k.device, v.device),
            options,
            tuple(map(type, options)),  # True is 1 as a key
            *(None if each is None else _part(each) for each in optional),
            None if plan is None else id(plan),
            _values(arguments) if lengths else None,
        )
        hash(key)
    except (TypeError, RuntimeError, AttributeError):
        return None
    return key


def _part(tensor: torch.Tensor) -> Hashable:
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


def _refuse_unusable_out(
    out: torch.Tensor | None, prepared: PreparedAttention, given: dict[str, int]
) -> None:
    if out is None:
        return
    if out.is_inference() and not torch.is_inference_mode_enabled():
        raise wrong_value(
            OPERATION, "out", "a tensor of inference mode outside of it", "an ordinary tensor"
        )
    if out.requires_grad:
        check_out(out, prepared.checked)
    address = given["out"]
    inputs = [each for name, each in given.items() if name != "out"]
    prepared.refuse_overlap(address, inputs)


def prepare(arguments: Arguments, checked: Checked, plan: Plan | None) -> PreparedAttention:
    """Plans arguments that passed `check` and binds them to the library of q's device."""
    lengths = (checked.query_rows, checked.key_rows)
    if checked.packed:
        lengths = longest_lengths(arguments, checked)
    q, meta = arguments.q, torch.device("meta")
    out = new_output(q, checked, meta) if arguments.out is None else arguments.out
    if arguments.out is not None and overlaps_itself(out.shape, out.stride()):
        raise wrong_value(
            OPERATION,
            "out",
            f"of strides {tuple(out.stride())}, by which elements share memory",
            "of strides that give each element its own",
        )
    layout = layout_of(arguments, checked, out.stride(), lengths)
    backend = runtime.backend(q.device)
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
        plan,
    )
