"""A matrix product in Triton: the rival that a user of Triton would write.

One block computes one tile of the output; blocks take tiles in bands of rows, so that neighbours
share operands in the L2; tile, depth of the pipeline and warps are tuned by Triton on every shape.
Importing this module needs Triton.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Rows, columns and depth of a tile, stages, warps.
_TILES = (
    (128, 256, 64, 3, 8),
    (256, 128, 64, 3, 8),
    (128, 128, 64, 4, 8),
    (128, 128, 64, 4, 4),
    (64, 256, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 128, 4, 4),
    (16, 128, 128, 4, 4),
    (16, 64, 256, 3, 4),
)
BAND = 8  # rows of tiles


@triton.jit  # type: ignore[misc,untyped-decorator,unused-ignore]
def product_kernel(  # type: ignore[no-untyped-def]
    a,
    b,
    out,
    m,
    n,
    k,
    a_row,
    a_column,
    b_row,
    b_column,
    out_row,
    out_column,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    BAND_M: tl.constexpr,
):
    """One tile of out (m, n) = a (m, k) @ b (k, n); strides in elements."""
    tiles_m = tl.cdiv(m, TILE_M)
    tiles_n = tl.cdiv(n, TILE_N)
    index = tl.program_id(0)
    band = index // (BAND_M * tiles_n)
    rows_of_band = tl.minimum(tiles_m - band * BAND_M, BAND_M)
    in_band = index % (BAND_M * tiles_n)
    tile_m = band * BAND_M + in_band % rows_of_band
    tile_n = in_band // rows_of_band

    rows = (tile_m * TILE_M + tl.arange(0, TILE_M)).to(tl.int64)
    columns = (tile_n * TILE_N + tl.arange(0, TILE_N)).to(tl.int64)
    depth = tl.arange(0, TILE_K).to(tl.int64)
    a_tile = a + rows[:, None] * a_row + depth[None, :] * a_column
    b_tile = b + depth[:, None] * b_row + columns[None, :] * b_column
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for start in range(0, k, TILE_K):
        inside = start + depth < k
        a_part = tl.load(a_tile, mask=(rows[:, None] < m) & inside[None, :], other=0.0)
        b_part = tl.load(b_tile, mask=inside[:, None] & (columns[None, :] < n), other=0.0)
        total = tl.dot(a_part, b_part, total)
        a_tile += TILE_K * a_column
        b_tile += TILE_K * b_row
    place = out + rows[:, None] * out_row + columns[None, :] * out_column
    inside_out = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(place, total.to(out.dtype.element_ty), mask=inside_out)


def _config(tile: tuple[int, int, int, int, int]) -> Any:
    rows, columns, depth, stages, warps = tile
    sizes = {"TILE_M": rows, "TILE_N": columns, "TILE_K": depth, "BAND_M": BAND}
    return triton.Config(sizes, num_stages=stages, num_warps=warps)


_tuned: Any = triton.autotune(
    configs=[_config(tile) for tile in _TILES],
    key=["m", "n", "k", "a_row", "a_column", "b_row", "b_column"],
)(product_kernel)


def matmul(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Writes a (M, K) @ b (K, N) to out (M, N), CUDA tensors of any strides; the first call of a
    shape tunes it."""
    m, n, k = a.shape[0], b.shape[1], a.shape[1]

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(m, meta["TILE_M"]) * triton.cdiv(n, meta["TILE_N"]),)

    _tuned[grid](*arguments(a, b, out, (m, n, k)))


def arguments(
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, sizes: tuple[int, int, int]
) -> tuple[Any, ...]:
    """What the kernel takes before its constants."""
    strides = (*a.stride(), *b.stride(), *out.stride())
    return (a, b, out, *sizes, *strides)
