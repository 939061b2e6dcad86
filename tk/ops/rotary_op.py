"""tk::rotary and tk::rotary_: the operations that torch's dispatcher, compiler and autograd see.

Both run the code of an eager call; what is added is a shape-only (fake) form and the gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from tk.ops.rotary_arguments import (
    OPERATION,
    Arguments,
    check,
    new_output,
    refuse_table_gradients,
)
from tk.ops.rotary_eager import run

__all__ = ["rotary_inplace_op", "rotary_op"]

_DEVICES = ("cpu", "cuda")
_ARGUMENTS = (
    "Tensor cos, Tensor sin, Tensor? positions=None, Tensor? cu_seqlens=None, *, "
    "bool interleaved=False, SymInt offset=0, SymInt? rotary_dim=None, bool inverse=False"
)


def _arguments(
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    cu_seqlens: torch.Tensor | None,
    options: dict[str, Any],
    *,
    inplace: bool,
) -> Arguments:
    if forward_ad._current_level >= 0:
        raise NotImplementedError(f"{OPERATION} has no forward-mode derivative")
    return Arguments(q, k, cos, sin, positions, cu_seqlens, inplace=inplace, **options)


def _rotary(
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    tensors = q, k, cos, sin, positions, cu_seqlens
    return _both(q, *run(_arguments(*tensors, options, inplace=False)))


def _rotary_inplace(
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    **options: Any,
) -> None:
    tensors = q, k, cos, sin, positions, cu_seqlens
    run(_arguments(*tensors, options, inplace=True))


def _both(
    q: torch.Tensor, q_out: torch.Tensor, k_out: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """An operation returns a tensor whether there is a k or not."""
    return q_out, q.new_empty(0) if k_out is None else k_out


rotary_op = torch.library.custom_op(
    "tk::rotary",
    _rotary,
    mutates_args=(),
    device_types=_DEVICES,
    schema=f"(Tensor q, Tensor? k, {_ARGUMENTS}) -> (Tensor, Tensor)",
)
"""tk::rotary: new tensors; without a k the second has no elements. `inverse` negates the sine."""

rotary_inplace_op = torch.library.custom_op(
    "tk::rotary_",
    _rotary_inplace,
    mutates_args=("q", "k"),
    device_types=_DEVICES,
    schema=f"(Tensor(a!) q, Tensor(b!)? k, {_ARGUMENTS}) -> ()",
)
"""tk::rotary_: writes q and k. It has no gradient."""


@rotary_op.register_fake
def _rotary_fake(
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    check(_arguments(q, k, cos, sin, positions, cu_seqlens, options, inplace=False))
    return _both(q, new_output(q), None if k is None else new_output(k))


@rotary_inplace_op.register_fake
def _rotary_inplace_fake(
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    **options: Any,
) -> None:
    check(_arguments(q, k, cos, sin, positions, cu_seqlens, options, inplace=True))


def _setup_context(
    ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Any
) -> None:
    q, k, *others = inputs
    refuse_table_gradients(Arguments(q, k, *others))
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*others)
    ctx.has_k = k is not None
    ctx.options = dict(keyword_only_inputs)


def _backward(
    ctx: Any, q_grad: torch.Tensor | None, k_grad: torch.Tensor | None
) -> tuple[torch.Tensor | None, ...]:
    """The incoming gradients, rotated back."""
    options = ctx.options | {"inverse": not ctx.options.get("inverse", False)}
    none = (None,) * 4
    if not ctx.has_k:
        k_grad = None
    if q_grad is None:
        if k_grad is None:
            return (None, None, *none)
        return (None, rotary_op(k_grad, None, *ctx.saved_tensors, **options)[0], *none)
    q_out, k_out = rotary_op(q_grad, k_grad, *ctx.saved_tensors, **options)
    return (q_out, None if k_grad is None else k_out, *none)


rotary_op.register_autograd(_backward, setup_context=_setup_context)
