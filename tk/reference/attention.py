"""Attention with all of its options, and the joining of partial results, as PyTorch formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence

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

    Shapes and options as `tk.attention`; any real dtypes and devices that PyTorch takes. A score is
    scale * q_i . k_j, then softcap * tanh(. / softcap), less alibi_slope * |i + shift - j|, plus the
    bias; keys that are not seen take no part. All of it is in `compute_dtype`; the output is rounded
    once, to `out_dtype`, or left so when that is None. Rows that see no key give 0 and -inf.
    Differentiable; scores are kept whole, queries x keys a head.
    """
    options = (causal, scale, window, softcap, compute_dtype)
    if cu_seqlens_q is None or cu_seqlens_k is None:
        out, lse = _padded(q, k, v, bias, alibi_slopes, *options)
    else:
        parts = [
            _padded(
                *(t[first:last].transpose(0, 1)[None] for t, (first, last) in zip((q, k, v), ends)),
                None,
                _of_sequence(alibi_slopes, sequence),
                *options,
            )
            for sequence, ends in enumerate(
                (query, key, key)
                for query, key in zip(_ends(cu_seqlens_q), _ends(cu_seqlens_k), strict=True)
            )
        ]
        none = q.new_zeros(0, q.shape[1], v.shape[2], dtype=compute_dtype)
        out = torch.cat([none, *(o[0].transpose(0, 1) for o, _ in parts)])
        lse = torch.cat([none.sum(-1), *(s[0].transpose(0, 1) for _, s in parts)])
    out = out if out_dtype is None else out.to(out_dtype)
    return (out, lse) if return_lse else out


def _ends(cumulative: torch.Tensor | Sequence[int]) -> list[tuple[int, int]]:
    """(first row, end) of each sequence."""
    numbers = [int(number) for number in cumulative]
    return list(zip(numbers[:-1], numbers[1:], strict=True))


def _of_sequence(slopes: torch.Tensor | None, sequence: int) -> torch.Tensor | None:
    return slopes if slopes is None or slopes.dim() == 1 else slopes[sequence]


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
