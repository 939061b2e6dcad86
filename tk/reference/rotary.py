"""Rotary position embedding as a PyTorch formula."""

from __future__ import annotations

import torch

__all__ = ["rotary"]


def rotary(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    interleaved: bool = False,
    positions: torch.Tensor | int | None = None,
    cu_seqlens: torch.Tensor | None = None,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """x' = x cos - y sin and y' = y cos + x sin for each pair of columns (x, y) of a row.

    Args:
        x: (B, H, N, D), or packed (T, H, D).
        cos, sin: (rows, rotary_dim / 2); columns from rotary_dim on are copied.
        interleaved: pairs are columns 2 i and 2 i + 1, not i and i + rotary_dim / 2.
        positions: rows of the table, (N,), (B, N) or (T,); or that of a sequence's first token.
        cu_seqlens: (sequences + 1,): tokens are counted within sequences.
        dtype: in which to compute.

    Returns:
        The shape of x, in `dtype`.
    """
    packed = x.dim() == 3
    tokens = x.shape[0] if packed else x.shape[2]
    if isinstance(positions, torch.Tensor):
        places = positions.long()
    else:
        places = torch.arange(tokens, device=x.device) + (positions or 0)
        if cu_seqlens is not None:
            lengths = cu_seqlens.diff().long()
            places = places - cu_seqlens[:-1].long().repeat_interleave(lengths)
    c, s = (table.to(dtype)[places] for table in (cos, sin))  # (…, tokens, half)
    if packed or c.dim() == 3:
        c, s = c[:, None], s[:, None]
    half = cos.shape[-1]
    rotated, rest = x.to(dtype)[..., : 2 * half], x.to(dtype)[..., 2 * half :]
    if interleaved:
        first, second = rotated[..., 0::2], rotated[..., 1::2]
    else:
        first, second = rotated[..., :half], rotated[..., half:]
    pair = first * c - second * s, second * c + first * s
    turned = torch.stack(pair, dim=-1).flatten(-2) if interleaved else torch.cat(pair, dim=-1)
    return torch.cat([turned, rest], dim=-1)
