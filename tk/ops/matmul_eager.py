"""tk.matmul without the dispatcher: looks the call up, prepares it when it is new, and runs it."""

from __future__ import annotations

import torch
from torch.autograd.graph import increment_version

from tk import runtime
from tk.cache import BoundedCache
from tk.errors import wrong_value
from tk.ops.arguments import DTYPE_CODES, refuse_inference
from tk.ops.matmul_arguments import ACTIVATIONS, OPERATION, Checked, check
from tk.ops.matmul_call import Epilogue, PreparedMatmul
from tk.ops.matmul_layout import layout_of
from tk.ops.matmul_plan import check_plan, plan_for
from tk.ops.overlap import Operand, refuse_self_overlap
from tk.schedulers import Plan

__all__ = ["prepare", "prepared_calls", "run"]

prepared_calls: BoundedCache[PreparedMatmul] = BoundedCache(4096)
"""Prepared products by shapes, strides, dtypes, devices, alignment and options."""


def run(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str | None,
    alpha: float,
    c: torch.Tensor | None,
    beta: float,
    out: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    plan: Plan | None,
) -> torch.Tensor:
    """The product of plain tensors, nothing recorded for autograd; alpha and beta are floats."""
    alpha, beta = alpha + 0.0, beta + 0.0  # -0.0 is 0.0: they are equal as keys
    try:
        a_address = a.data_ptr()
        b_address = b.data_ptr()
        if not (a_address and b_address) and (a._is_zerotensor() or b._is_zerotensor()):
            zeros = a.clone(), b.clone()  # tensors of zeros that have no memory
            return run(*zeros, bias, activation, alpha, c, beta, out, out_dtype, plan)
        if not (a_address and b_address):
            _refuse_freed(a=a, b=b)
        key = (
            a.shape,
            a.stride(),
            b.shape,
            b.stride(),
            a.dtype,
            b.dtype,
            a.device,
            b.device,
            not (a_address | b_address) & 15,
            activation,
            alpha,
            beta,
            out_dtype,
            None if bias is None else _key(bias),
            None if c is None else _key(c),
            None if out is None else _key(out),
            None if plan is None else id(plan),
        )
        prepared = prepared_calls.get(key)
    except (TypeError, RuntimeError):  # no strides, no address, no hash: says what is wrong
        check(a, b, bias, activation, alpha, c, beta, out, out_dtype)
        raise
    if prepared is None and a.is_meta:
        return _on_meta(a, b, bias, activation, alpha, c, beta, out, out_dtype)
    if prepared is None and a.ndim > 1 and a.shape[-1] == 0:
        check(a, b, bias, activation, alpha, c, beta, out, out_dtype)
        if plan is not None:  # of no use for a sum of nothing, but checked as any other
            prepare(a, b, bias, activation, alpha, c, beta, out, out_dtype, plan)
        return run(*_one_zero(a, b), bias, activation, alpha, c, beta, out, out_dtype, None)
    if prepared is None:
        made = prepare(a, b, bias, activation, alpha, c, beta, out, out_dtype, plan)
        prepared = prepared_calls.get_or_make(key, lambda: made)
    if c is not None and c._is_zerotensor():
        c = c.clone()
    if bias is not None and bias._is_zerotensor():
        bias = bias.clone()
    c_address = 0 if c is None else c.data_ptr()
    bias_address = 0 if bias is None else bias.data_ptr()
    if (c is not None and not c_address) or (bias is not None and not bias_address):
        _refuse_freed(c=c, bias=bias)
    if out is None:
        out = prepared.allocate()
        prepared.launch(a_address, b_address, c_address, bias_address, out.data_ptr())
        return out
    address = out.data_ptr()
    if not address:
        _refuse_freed(out=out)
    refuse_inference(OPERATION, out)
    prepared.refuse_overlap((a_address, b_address, bias_address, c_address), address)
    prepared.launch(a_address, b_address, c_address, bias_address, address)
    increment_version(out)
    return out


def _refuse_freed(**tensors: torch.Tensor | None) -> None:
    """ValueError for a tensor that has elements and no memory: zeros without storage, or storage
    that was freed. (Tensors of zeros are given memory before, where they are only read.)"""
    for name, tensor in tensors.items():
        if tensor is None or tensor.is_meta or not tensor.numel() or tensor.data_ptr():
            continue
        raise wrong_value(OPERATION, name, "a tensor whose memory was freed", "one with memory")


def _one_zero(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Operands over a K of 1 with the same product as these over a K of 0: sums of one zero."""
    zero = a.new_zeros(())
    return zero.expand(*a.shape[:-1], 1), zero.expand(*b.shape[:-2], 1, b.shape[-1])


def _on_meta(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str | None,
    alpha: float,
    c: torch.Tensor | None,
    beta: float,
    out: torch.Tensor | None,
    out_dtype: torch.dtype | None,
) -> torch.Tensor:
    checked = check(a, b, bias, activation, alpha, c, beta, out, out_dtype)
    if out is not None:
        return out
    return torch.empty(checked.shape, dtype=checked.out_dtype, device=a.device)


def _key(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def prepare(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str | None,
    alpha: float,
    c: torch.Tensor | None,
    beta: float,
    out: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    plan: Plan | None,
) -> PreparedMatmul:
    """Checks the arguments, plans the product and binds it to the library of a's device."""
    checked = check(a, b, bias, activation, alpha, c, beta, out, out_dtype)
    out_strides = _dense(checked.shape) if out is None else out.stride()
    if out is not None:
        refuse_self_overlap(OPERATION, checked.shape, out_strides)
    aligned = not (a.data_ptr() | b.data_ptr()) & 15
    layout = layout_of(checked, a, b, bias, c, out_strides, aligned)
    backend = runtime.backend(a.device)
    if plan is not None:
        layout = check_plan(plan, layout, a.dtype, checked.out_dtype, backend)
        used: Plan | None = plan
    elif layout.empty:
        used = None
    else:
        used, layout = plan_for(layout, a.dtype, checked.out_dtype, backend)
    return PreparedMatmul(
        backend,
        a.device,
        layout,
        None if layout.empty else used,
        Epilogue(
            activation=ACTIVATIONS[activation],
            alpha=alpha,
            beta=beta,
            c_dtype=DTYPE_CODES[checked.out_dtype if c is None else c.dtype],
            bias_dtype=DTYPE_CODES[checked.out_dtype if bias is None else bias.dtype],
            out_dtype=DTYPE_CODES[checked.out_dtype],
        ),
        [Operand.of(name, t) for name, t in (("a", a), ("b", b), ("bias", bias), ("c", c))],
        _out_operand(checked, out_strides),
        checked.out_dtype,
        request=plan,
    )


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(size, 1))
    return tuple(strides)


def _out_operand(checked: Checked, strides: tuple[int, ...]) -> Operand:
    return Operand("out", checked.shape, strides, checked.out_dtype.itemsize)
