"""tk.rotary: what users call, and the choice between the two ways to run it.

A plain eager call goes straight to the library; everything that torch has to see (torch.compile,
modes, transforms, tracing, subclasses) goes through its dispatcher.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.compiler import is_compiling
from torch.overrides import handle_torch_function, has_torch_function

from tk.ops.plain_calls import is_plain
from tk.ops.rotary_arguments import (
    OPERATION,
    Arguments,
    check,
    refuse_table_gradients,
    split_positions,
)
from tk.ops.rotary_eager import run
from tk.ops.rotary_function import differentiable_rotary
from tk.ops.rotary_op import rotary_inplace_op, rotary_op

__all__ = ["rotary"]

_grad_enabled = torch.is_grad_enabled


def rotary(
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    interleaved: bool = False,
    positions: torch.Tensor | int | None = None,
    inplace: bool = False,
    rotary_dim: int | None = None,
    cu_seqlens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rotary position embedding of q and k, in one kernel, computed in fp32.

    Each pair (x, y) of a row's first rotary_dim columns becomes (x cos - y sin, y cos + x sin),
    with cos and sin of the token's position; the other columns are copied. Where sin is 0, cos
    alone counts, so that a position of cos 1 and sin 0 keeps its bits.

    CUDA tensors run on their device's current stream, CPU tensors run the same kernel source on the
    host. Nothing is copied or cast: strides say how each tensor is read, and autocast is ignored.
    The results are the same bits at every call.

    Args:
        q: (B, H, N, D), or packed (T, H, D), bf16, fp16 or fp32, of any strides. Full speed needs
            rows of whole 16-byte units: address and strides multiples of 16 bytes, contiguous in
            the last axis, rotary_dim a multiple of 32 bytes. (B, N, H, D) memory is
            `t.transpose(1, 2)`.
        k: the same, of q's dtype, with any number of heads; or None.
        cos: (rows, rotary_dim / 2), fp32 or q's dtype, of any strides.
        sin: of cos's shape and dtype.
        interleaved: pairs are columns 2 i and 2 i + 1; by default i and i + rotary_dim / 2.
        positions: the row of cos and sin of each token, int32 or int64: (N,) or (B, N), packed
            (T,); or an int >= 0, the row of the first token, the others following; None is 0.
            Numbers on a GPU are not read before the launch, and so not checked: a token whose
            position has no row becomes NaN.
        inplace: whether q and k themselves are rotated, and returned; columns from rotary_dim on
            are not touched. Their elements do not share memory. Differentiable in eager calls.
        rotary_dim: how many columns to rotate, even, from 2 to D; default: twice cos's columns.
        cu_seqlens: ends of packed sequences, as tk.attention takes them: (sequences + 1,) int32,
            contiguous. Positions are counted in each sequence anew. On a CPU the numbers are
            checked.

    Returns:
        (q, k) rotated, of their shapes and dtype; k is None if it was. A new tensor lies in memory
        as (B, N, H, D) where its heads lie closer than its rows, else as (B, H, N, D).

    The gradient of q and k is the incoming one rotated back, by the same kernel with the sine
    negated. cos and sin are not differentiated.

    Raises:
        TypeError: an argument is no tensor, int or bool as above.
        ValueError: a rank, shape, dtype, device, stride or value is not as above; the text names
            the argument, what it was and what is allowed. Raised before anything runs.
        NotImplementedError: cos or sin requires grad; or q or k does, and is to be rotated in place
            under torch.compile, a mode or a transform.
        RuntimeError: the CUDA kernels are not in this build, or the launch failed.

    Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021,
    equation 34; pairs of halves as in GPT-NeoX.
    """
    tensor, offset = split_positions(positions)
    arguments = Arguments(
        q, k, cos, sin, tensor, cu_seqlens, interleaved, offset, rotary_dim, False, inplace
    )
    if not is_compiling():
        given = (q, k, cos, sin, tensor, cu_seqlens)
        if is_plain(given):
            if _grad_enabled() and any(getattr(each, "requires_grad", False) for each in given):
                check(arguments)
                refuse_table_gradients(arguments)
                return differentiable_rotary(*arguments)
            return run(arguments)
        if has_torch_function(given):
            overriding: Any = handle_torch_function
            found: tuple[torch.Tensor, torch.Tensor | None] = overriding(
                rotary,
                given,
                q,
                k,
                cos,
                sin,
                interleaved=interleaved,
                positions=positions,
                inplace=inplace,
                rotary_dim=rotary_dim,
                cu_seqlens=cu_seqlens,
            )
            return found
        check(arguments)
    options = {"interleaved": interleaved, "offset": offset, "rotary_dim": rotary_dim}
    if inplace:
        if _grad_enabled() and (q.requires_grad or (k is not None and k.requires_grad)):
            raise NotImplementedError(
                f"{OPERATION}: q or k requires grad, and inplace is differentiable in eager calls "
                "on plain tensors alone; leave inplace out, or use torch.no_grad()"
            )
        rotary_inplace_op(q, k, cos, sin, tensor, cu_seqlens, **options)
        return q, k
    q_out, k_out = rotary_op(q, k, cos, sin, tensor, cu_seqlens, **options)
    return q_out, None if k is None else k_out
