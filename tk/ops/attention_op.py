"""tk::attention and tk::attention_out: the operations that torch's dispatcher and compiler see.

Both run the code of an eager call; what is added is a shape-only (fake) form, and that a gradient
is refused.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from tk.ops.attention_arguments import OPERATION, Arguments, check, new_outputs
from tk.ops.attention_eager import run
from tk.ops.plan_text import plan_from_text

__all__ = ["attention_op", "attention_out_op"]

_DEVICES = ("cpu", "cuda")
_ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, "
    "Tensor? bias=None, Tensor? alibi_slopes=None, *, bool causal=False, float? scale=None, "
    "int[]? window=None, float? softcap=None, bool return_lse=False, str? plan=None"
)


def _arguments(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor | None,
    cu_seqlens_k: torch.Tensor | None,
    bias: torch.Tensor | None,
    alibi_slopes: torch.Tensor | None,
    out: torch.Tensor | None,
    options: dict[str, Any],
) -> Arguments:
    if forward_ad._current_level >= 0:
        raise NotImplementedError(f"{OPERATION} has no forward-mode derivative")
    window = options.get("window")
    return Arguments(
        q,
        k,
        v,
        causal=options.get("causal", False),
        scale=options.get("scale"),
        window=None if window is None else tuple(window),
        softcap=options.get("softcap"),
        return_lse=options.get("return_lse", False),
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        bias=bias,
        alibi_slopes=alibi_slopes,
        out=out,
    )


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    tensors = q, k, v, cu_seqlens_q, cu_seqlens_k, bias, alibi_slopes
    out, lse = run(_arguments(*tensors, None, options), plan_from_text(options.get("plan")))
    return out, _given(lse, q)


def _attention_out(
    out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor:
    tensors = q, k, v, cu_seqlens_q, cu_seqlens_k, bias, alibi_slopes
    _, lse = run(_arguments(*tensors, out, options), plan_from_text(options.get("plan")))
    return _given(lse, q)


def _given(lse: torch.Tensor | None, q: torch.Tensor) -> torch.Tensor:
    """An operation returns a tensor whether there is one or not."""
    return torch.empty(0, dtype=torch.float32, device=q.device) if lse is None else lse


attention_op = torch.library.custom_op(
    "tk::attention",
    _attention,
    mutates_args=(),
    device_types=_DEVICES,
    schema=f"({_ARGUMENTS}) -> (Tensor, Tensor)",
)
"""tk::attention: a new output and the log-sum-exp, which has no elements unless `return_lse`.
`plan` is a plan's text (`tk.ops.plan_text`)."""

attention_out_op = torch.library.custom_op(
    "tk::attention_out",
    _attention_out,
    mutates_args=("out",),
    device_types=_DEVICES,
    schema=f"(Tensor(a!) out, {_ARGUMENTS}) -> Tensor",
)
"""tk::attention_out: writes `out` and returns the log-sum-exp as above."""


@attention_op.register_fake
def _attention_fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    tensors = q, k, v, cu_seqlens_q, cu_seqlens_k, bias, alibi_slopes
    arguments = _arguments(*tensors, None, options)
    return new_outputs(arguments, check(arguments))


@attention_out_op.register_fake
def _attention_out_fake(
    out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    **options: Any,
) -> torch.Tensor:
    tensors = q, k, v, cu_seqlens_q, cu_seqlens_k, bias, alibi_slopes
    arguments = _arguments(*tensors, out, options)
    return new_outputs(arguments, check(arguments))[1]


def _no_gradient(*_: Any, **__: Any) -> None:
    raise NotImplementedError(
        f"{OPERATION} has no backward kernel yet; call it under torch.no_grad(), or with detached "
        "tensors"
    )


# Called as soon as an input requires grad, not only when the gradient is asked for.
attention_op.register_autograd(_no_gradient, setup_context=_no_gradient)
