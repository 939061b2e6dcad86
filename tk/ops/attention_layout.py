"""Sizes, strides and masks of a call of attention as the C interface takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from tk.errors import describe, wrong_value
from tk.ops.arguments import DTYPE_CODES, DTYPE_NAMES
from tk.ops.attention_arguments import OPERATION, Arguments, Checked
from tk.schedulers.attention_problem import MAX_LENGTH, NO_LIMIT, AttentionProblem
from tk.schedulers.problem import MAX_SIZE

__all__ = ["Layout", "layout_of", "longest_lengths"]


@dataclass(frozen=True)
class Layout:
    """Everything that a launch needs but addresses and the plan. Strides are in elements; those of
    rows, heads and batches in this order."""

    problem: AttentionProblem
    causal: bool
    q: tuple[int, ...]
    k: tuple[int, ...]
    v: tuple[int, ...]
    out: tuple[int, ...]
    lse: tuple[int, ...]
    alibi: tuple[int, int]
    bias: tuple[int, ...]  # batch, head, query, key
    bias_dtype: int
    scale: float
    softcap: float

    @property
    def empty(self) -> bool:
        """Whether the output has no element."""
        p = self.problem
        return 0 in (p.batch, p.heads, p.queries, p.total_queries)

    @property
    def keyless(self) -> bool:
        """Whether there is no key at all, so that the output is 0."""
        return 0 in (self.problem.keys, self.problem.total_keys)


def longest_lengths(arguments: Arguments, checked: Checked) -> tuple[int, int]:
    """The longest query and key lengths of packed sequences: of CPU tensors read and checked, of
    others, which would have to be waited for, all rows as a bound. ValueError names what is wrong.
    """
    both = []
    for name, rows in (("cu_seqlens_q", checked.query_rows), ("cu_seqlens_k", checked.key_rows)):
        tensor: torch.Tensor = getattr(arguments, name)
        if tensor.device.type != "cpu":
            both.append(rows)
            continue
        numbers = tensor.tolist()
        lengths = [end - first for first, end in pairwise(numbers)]
        if numbers[0] != 0 or numbers[-1] != rows or min(lengths, default=0) < 0:
            shown = str(numbers) if len(numbers) <= 8 else f"{str(numbers[:8])[:-1]}, ...]"
            raise wrong_value(
                OPERATION, name, shown, f"numbers that begin with 0, end with {rows}, never fall"
            )
        both.append(max(lengths, default=0))
    return both[0], both[1]


def layout_of(
    arguments: Arguments, checked: Checked, out: Sequence[int], lengths: tuple[int, int]
) -> Layout:
    """The layout of arguments that passed `check`, for an output of these strides and the longest
    of these sequences. ValueError for sizes that are too large."""
    for name, tensor, size in (("q", arguments.q, lengths[0]), ("k", arguments.k, lengths[1])):
        if size > MAX_LENGTH or max(tensor.shape) > MAX_SIZE:
            raise wrong_value(OPERATION, name, describe(tensor), f"of at most {MAX_LENGTH} rows")
    left, right = _limits(arguments, checked.packed, *lengths)
    causal = right == 0
    changed = arguments.softcap is not None or not checked.scale > 0
    changed = changed or arguments.bias is not None or arguments.alibi_slopes is not None
    bias, slopes = arguments.bias, arguments.alibi_slopes
    return Layout(
        problem=AttentionProblem(
            batch=checked.batch,
            heads=checked.heads,
            kv_heads=checked.kv_heads,
            queries=lengths[0],
            keys=lengths[1],
            head_dim=checked.head_dim,
            value_dim=checked.value_dim,
            dtype=DTYPE_NAMES[arguments.q.dtype],
            window_left=left,
            window_right=right,
            scores="general" if changed else "plain",
            packed=checked.packed,
            total_queries=checked.query_rows,
            total_keys=checked.key_rows,
        ),
        causal=causal,
        q=_loaded(arguments.q.shape, arguments.q.stride(), checked.packed),
        k=_loaded(arguments.k.shape, arguments.k.stride(), checked.packed),
        v=_loaded(arguments.v.shape, arguments.v.stride(), checked.packed),
        out=_by_row(out, checked.packed),
        lse=_by_row((*_dense(checked.lse_shape), 1), checked.packed),
        alibi=(0, 0) if slopes is None else _alibi(slopes),
        bias=(0, 0, 0, 0) if bias is None else _broadcast(bias),
        bias_dtype=DTYPE_CODES[arguments.q.dtype if bias is None else bias.dtype],
        scale=checked.scale,
        softcap=0.0 if arguments.softcap is None else float(arguments.softcap),
    )


def _limits(arguments: Arguments, packed: bool, queries: int, keys: int) -> tuple[int, int]:
    """(left, right) of the window with the causal mask in it, without limits that never bind: no
    key is further left of a query's own than keys - 1, nor further right than queries - 1."""
    left, right = (NO_LIMIT, NO_LIMIT) if arguments.window is None else arguments.window
    if arguments.causal:
        right = 0
    if left >= keys - 1:
        left = NO_LIMIT
    if right >= queries - 1 and (right > 0 or not packed):
        right = NO_LIMIT
    return left, right


def _by_row(strides: Sequence[int], packed: bool) -> tuple[int, ...]:
    """(row, head, batch) strides of (batch, head, row, …) or packed (row, head, …) ones."""
    if packed:
        return strides[0], strides[1], 0
    return strides[2], strides[1], strides[0]


def _loaded(shape: Sequence[int], strides: Sequence[int], packed: bool) -> tuple[int, ...]:
    """The same of what TMA loads: strides of axes of size 1, which mean nothing, as in dense
    memory, where they are legal."""
    dense = _dense(shape)
    legal = [d if size <= 1 else s for size, s, d in zip(shape, strides, dense, strict=True)]
    return _by_row(legal, packed)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(size, 1))
    return tuple(strides)


def _alibi(slopes: torch.Tensor) -> tuple[int, int]:
    """(batch, head) strides."""
    return (0, slopes.stride(0)) if slopes.dim() == 1 else (slopes.stride(0), slopes.stride(1))


def _broadcast(bias: torch.Tensor) -> tuple[int, ...]:
    """(batch, head, query, key) strides, 0 for axes that are missing or of size 1."""
    own = [0 if n == 1 else s for n, s in zip(bias.shape, bias.stride(), strict=True)]
    return (0,) * (4 - len(own)) + tuple(own)
