"""tk.attention and tk.plan_attention: what users call, and the choice between the two ways to run
it.

A plain eager call goes straight to the library; everything that torch has to see (torch.compile,
modes, transforms, tracing, subclasses) goes through its dispatcher.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.compiler import is_compiling
from torch.overrides import handle_torch_function, has_torch_function

from tk.errors import wrong_value
from tk.ops.attention_arguments import OPERATION, Arguments, check, refuse_gradients
from tk.ops.attention_eager import prepare, run
from tk.ops.attention_op import attention_op, attention_out_op
from tk.ops.plain_calls import is_plain
from tk.ops.plan_text import plan_to_text
from tk.schedulers import Plan

__all__ = ["attention", "plan_attention"]

_grad_enabled = torch.is_grad_enabled


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] | None = None,
    softcap: float | None = None,
    return_lse: bool = False,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    plan: Plan | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(score(scale * q k^T)) v, in one kernel, scores and sums in fp32.

    CUDA tensors run on their device's current stream, CPU tensors run the same kernel source on the
    host. Nothing is copied or cast: strides say how each tensor is read, and autocast is ignored.
    The results are the same bits at every call.

    Query i and key j are aligned at the bottom right, as in PyTorch's `causal_lower_right`: the
    last query's own key is the last key. With p = i + Nk - Nq, key j is seen when j <= p (causal)
    and when p - left <= j <= p + right (window). A score is scale * q_i . k_j, then
    softcap * tanh(score / softcap), less alibi_slope * |p - j|, plus the bias.

    Args:
        q: (B, H, Nq, D), bf16 or fp16. D: a multiple of 8 up to 256, at full speed 64 and 128.
            Contiguous in the last axis; the other strides, of k and v too, are multiples of 16
            bytes, as is the address; those of B and H may be 0. (B, N, H, D) memory is
            `t.transpose(1, 2)`.
        k: (B, Hkv, Nk, D), of q's dtype and device. Query head h reads key head h // (H / Hkv).
        v: (B, Hkv, Nk, Dv), the same. Dv may differ from D where a kernel was compiled for it.
        causal: whether a query sees no key beyond its own.
        scale: a finite number; default: 1 / sqrt(D).
        window: (left, right), keys that are seen on either side of a query's own; -1 is unlimited.
        softcap: a number above 0 that scores are pressed below, or None.
        return_lse: whether to return ln(sum of exp(score)) over the keys that are seen, too.
        cu_seqlens_q: packed sequences of different lengths, with cu_seqlens_k: q is (Tq, H, D), k
            (Tk, Hkv, D), v (Tk, Hkv, Dv), and sequence b has rows cu_seqlens[b] to
            cu_seqlens[b + 1], end excluded. (sequences + 1,) int32, contiguous, on q's device: from
            0, never falling, to all rows; lengths of 0 are allowed. Numbers on a GPU are not read
            before the launch, and so not checked; rows beyond the last stay unwritten.
        cu_seqlens_k: the same of the keys.
        bias: broadcastable to (B, H, Nq, Nk), in q's dtype or fp32, of any strides; added to the
            scores. Not with cu_seqlens.
        alibi_slopes: (H,) or (B, H), fp32; B is the number of sequences if they are packed.
        out: where to write: of the output's shape and q's dtype, contiguous in the last axis, its
            elements not overlapping, in memory apart from all inputs.
        plan: how to run it, from `plan_attention`, `tk.schedulers.plan_attention` or `Plan.load`;
            default: the scheduler's choice.

    Returns:
        out (B, H, Nq, Dv), in memory as (B, Nq, H, Dv) where q's heads lie closer than its rows;
        packed (Tq, H, Dv). With return_lse (out, lse): lse (B, H, Nq), packed (Tq, H), in fp32,
        natural logarithm; `attention_merge` joins such pairs. Queries that see no key get 0 and
        -inf. When B, H or Nq is 0 nothing runs.

    Raises:
        TypeError: an argument is no tensor, number or tuple as above.
        ValueError: a rank, shape, dtype, device, stride, value or plan is not as above, or this
            build has no kernel for the dimensions; the text names the argument, what it was and
            what is allowed. Raised before anything runs.
        NotImplementedError: a gradient would be needed; there is no backward kernel yet.
        RuntimeError: the CUDA kernels are not in this build, or the launch failed.

    Source: Vaswani et al., "Attention Is All You Need", 2017, equation 1; Press et al., "Train
    Short, Test Long", 2022 (alibi); Gemma Team, "Gemma 2", 2024, section 2 (softcap).
    """
    arguments = Arguments(
        q,
        k,
        v,
        causal,
        scale,
        window,
        softcap,
        return_lse,
        cu_seqlens_q,
        cu_seqlens_k,
        bias,
        alibi_slopes,
        out,
    )
    if not is_compiling():
        tensors = (q, k, v, cu_seqlens_q, cu_seqlens_k, bias, alibi_slopes, out)
        if is_plain(tensors):
            if _grad_enabled() and _requires_grad(tensors):
                refuse_gradients(arguments)
            both = run(arguments, plan)
            return both if return_lse else both[0]  # type: ignore[return-value]
        if has_torch_function(tensors):
            overriding: Any = handle_torch_function
            options = arguments._asdict()
            for name in ("q", "k", "v"):
                del options[name]
            found: torch.Tensor = overriding(attention, tensors, q, k, v, **options, plan=plan)
            return found
        check(arguments)
    refuse_gradients(arguments)
    given = (q, k, v, cu_seqlens_q, cu_seqlens_k, bias, alibi_slopes)
    options = {
        "causal": causal,
        "scale": scale,
        "window": None if window is None else list(window),
        "softcap": softcap,
        "return_lse": return_lse,
        "plan": None if plan is None else plan_to_text(OPERATION, plan),
    }
    if out is None:
        result, lse = attention_op(*given, **options)
    else:
        result, lse = out, attention_out_op(out, *given, **options)
    return (result, lse) if return_lse else result


def _requires_grad(tensors: tuple[object, ...]) -> bool:
    return any(getattr(each, "requires_grad", False) for each in tensors)


def plan_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] | None = None,
    softcap: float | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
) -> Plan:
    """The plan that `attention` with these arguments uses; the same checks, and nothing runs.

    Raises:
        TypeError, ValueError: as `attention`, and ValueError for an output that is empty or 0 for
            want of keys, which has no plan.
    """
    arguments = Arguments(
        q,
        k,
        v,
        causal,
        scale,
        window,
        softcap,
        False,
        cu_seqlens_q,
        cu_seqlens_k,
        bias,
        alibi_slopes,
        out,
    )
    prepared = prepare(arguments, check(arguments), None)
    if prepared.plan is None:
        raise wrong_value(OPERATION, "the output", "empty, or of no keys", "of something to plan")
    return prepared.plan
