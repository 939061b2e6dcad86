// Register tiles and vectors on sm90: each lane holds the elements that the WGMMA accumulator (and
// mma.m16n8) gives it (PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16").
#pragma once
#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

namespace detail {
TK_DEVICE int lane() { return int(threadIdx.x) & 31; }
}  // namespace detail

// A warp's Rows x Cols part of a tile. In a warpgroup, 16-row block i of warp w holds rows
// 64 i + 16 w to 64 i + 16 w + 15 of the warpgroup's tile, as WGMMA deals them out.
template <element T, int Rows, int Cols>
struct rt {
    using dtype = T;
    static constexpr int rows = Rows;
    static constexpr int cols = Cols;
    static_assert(Rows % 16 == 0, "rt: rows must be a multiple of 16");
    static_assert(Cols % 8 == 0, "rt: columns must be a multiple of 8");
    static constexpr int row_blocks = Rows / 16;
    static constexpr int col_blocks = Cols / 8;

    static constexpr int elements = Rows * Cols / 32;  // of one lane

    T data[elements];

    // The accumulator of WGMMA: ((2 columns, 2 rows 8 apart, N/8), 64-row blocks, 1).
    TK_DEVICE auto tensor() {  // (MMA,MMA_M,MMA_N)
        return cute::make_tensor(
            cute::make_rmem_ptr(data),
            cute::Layout<cute::Shape<cute::Shape<cute::_2, cute::_2, cute::Int<col_blocks>>,
                                     cute::Int<row_blocks>, cute::_1>>{});
    }

    static TK_DEVICE constexpr int index(int row_block, int col_block, int upper, int odd) {
        return ((row_block * col_blocks + col_block) * 2 + upper) * 2 + odd;
    }
};

// The Rows x Cols part of a register tile at (row, col), in units of the part; both known at
// compile time once the caller's loops are unrolled, so that nothing moves.
template <int Rows, int Cols, class Tile>
TK_DEVICE rt<typename Tile::dtype, Rows, Cols> subtile(const Tile& tile, int row, int col) {
    static_assert(Tile::rows % Rows == 0 && Tile::cols % Cols == 0,
                  "subtile: the part must divide the tile");
    using part = rt<typename Tile::dtype, Rows, Cols>;
    part result;
    TK_UNROLL
    for (int i = 0; i < part::row_blocks; ++i) {
        TK_UNROLL
        for (int j = 0; j < part::col_blocks; ++j) {
            TK_UNROLL
            for (int e = 0; e < 4; ++e) {
                result.data[part::index(i, j, e / 2, e % 2)] = tile.data[Tile::index(
                    row * part::row_blocks + i, col * part::col_blocks + j, e / 2, e % 2)];
            }
        }
    }
    return result;
}

template <int Rows, int Cols>
using rt_fl = rt<float, Rows, Cols>;
template <int Rows, int Cols>
using rt_bf = rt<bf16, Rows, Cols>;

TK_NAMESPACE_END
