"""Attention with all of its options, and the joining of partial results, as PyTorch formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch

__all__ = ["attention", "attention_merge", "visible_keys"]


def visible_keys(
    queries: int,
    keys: int,
    *,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    device: torch.device | str | None = None,
) -> torch.Tensor:
    """(queries, keys) bool: whether query i sees key j, aligned at the bottom right.

    With shift = keys - queries: j <= i + shift when causal, and with a window (left, right)
    i + shift - left <= j <= i + shift + right, where -1 is no limit.
    """
    distance = _distance(queries, keys, device)
    seen = torch.ones_like(distance, dtype=torch.bool)
    if causal:
        seen &= distance <= 0
    if window is not None and window[0] >= 0:
        seen &= distance >= -window[0]
    if window is not None and window[1] >= 0:
        seen &= distance <= window[1]
    return seen


def _distance(queries: int, keys: int, device: torch.device | str | None) -> torch.Tensor:
    """j - (i + shift): how far key j lies beyond query i's own."""
    i = torch.arange(queries, device=device)[:, None]
    return torch.arange(keys, device=device) - (i + keys - queries)


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
    cu_seqlens_q: torch.Tensor | Sequence[int] | None = None,
    cu_seqlens_k: torch.Tensor | Sequence[int] | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    compute_dtype: torch.dtype = torch.float64,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(score) @ v and, with `return_lse`, ln(sum(exp(score))) over the keys that are seen.

    Shapes and options as `tk.attention`; any real dtypes and
    devices that PyTorch takes. A score is scale * q_i . k_j, then softcap * tanh(. / softcap), less
    alibi_slope * |i + shift - j|, plus the bias; keys that are not seen take no part. All of it is
    in `compute_dtype`; the output is rounded once, to `out_dtype`, or left so when that is None.
    Rows that see no key give 0 and -inf.
    Differentiable; scores are kept whole, queries x keys a head.
    """

    def of_one(
        rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor], slopes: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return _padded(*rows, bias, slopes, causal, scale, window, softcap, compute_dtype)

    if cu_seqlens_q is None or cu_seqlens_k is None:
        out, lse = of_one((q, k, v), alibi_slopes)
    else:
        none = q.new_zeros(0, q.shape[1], v.shape[2], dtype=compute_dtype)
        outs, lses = [none], [none.sum(-1)]
        both = zip(_sequences(cu_seqlens_q), _sequences(cu_seqlens_k), strict=True)
        for number, (queries, keys) in enumerate(both):
            rows = _heads_first(q[queries]), _heads_first(k[keys]), _heads_first(v[keys])
            by_batch = alibi_slopes is not None and alibi_slopes.dim() == 2
            slopes = alibi_slopes[number] if alibi_slopes is not None and by_batch else alibi_slopes
            out, lse = of_one(rows, slopes)
            outs.append(out[0].transpose(0, 1))
            lses.append(lse[0].transpose(0, 1))
        out, lse = torch.cat(outs), torch.cat(lses)
    out = out if out_dtype is None else out.to(out_dtype)
    return (out, lse) if return_lse else out


def _sequences(cumulative: torch.Tensor | Sequence[int]) -> list[slice]:
    """The rows of each sequence."""
    return [slice(first, end) for first, end in pairwise(int(number) for number in cumulative)]


def _heads_first(rows: torch.Tensor) -> torch.Tensor:
    """(1, heads, rows, dimension) of a sequence's (rows, heads, dimension)."""
    return rows.transpose(0, 1)[None]


def _padded(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    alibi_slopes: torch.Tensor | None,
    causal: bool,
    scale: float | None,
    window: tuple[int, int] | None,
    softcap: float | None,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output and log-sum-exp of (batch, heads, rows, dimension) tensors."""
    group = q.shape[1] // max(k.shape[1], 1)
    q, k, v = (tensor.to(dtype) for tensor in (q, k, v))
    k, v = (tensor.repeat_interleave(group, dim=1) for tensor in (k, v))
    scores = (1 / math.sqrt(q.shape[-1]) if scale is None else scale) * (q @ k.mT)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if alibi_slopes is not None:
        slopes = alibi_slopes.to(dtype)[..., None, None]
        scores = scores - slopes * _distance(q.shape[2], k.shape[2], q.device).abs().to(dtype)
    if bias is not None:
        scores = scores + bias.to(dtype)
    seen = visible_keys(q.shape[2], k.shape[2], causal=causal, window=window, device=q.device)
    scores = scores.masked_fill(~seen, -math.inf)
    lse = torch.logsumexp(scores, dim=-1)
    reference = lse.masked_fill(lse == -math.inf, 0.0)  # rows without a key: exp(-inf) = 0
    weights = torch.exp(scores - reference[..., None])
    return weights @ v, lse


def attention_merge(
    outs: torch.Tensor | Sequence[torch.Tensor], lses: torch.Tensor | Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result over all keys of results over parts of them, in float64: (out, lse).

    outs: (parts, ..., D) or so many tensors (..., D); lses: the same without D. lse = ln(sum of
    exp(lses)), out = sum of exp(lses - lse) * outs; where all lses are -inf, 0 and -inf.
    """
    many = torch.stack(list(outs)).double()
    each = torch.stack(list(lses)).double()
    lse = torch.logsumexp(each, dim=0)
    weights = torch.exp(each - lse.masked_fill(lse == -math.inf, 0.0))
    return (weights[..., None] * many).sum(0), lse
