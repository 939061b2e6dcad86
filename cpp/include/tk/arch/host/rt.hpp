// Register tiles and vectors on the host: a warp is one thread and holds all of its tile, row by
// row. What was never written is NaN.
#pragma once
#include <cstring>

#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

// A vector along the columns of a register tile.
template <element T, int Length>
struct row_vec {
    using dtype = T;
    static constexpr int length = Length;
    T data[Length];

    row_vec() { std::memset(static_cast<void*>(data), 0xff, sizeof(data)); }
};

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
    using row_vec_type = row_vec<T, Cols>;

    static constexpr int elements = Rows * Cols;

    alignas(32) T data[elements];

    rt() { std::memset(static_cast<void*>(data), 0xff, sizeof(data)); }

    // Calls f(index into data, row and column in the warp's tile, index into a row_vec's data) for
    // every element that the caller holds.
    template <class F>
    static void for_each(F&& f) {
        for (int row = 0; row < Rows; ++row) {
            for (int col = 0; col < Cols; ++col) f(row * Cols + col, row, col, col);
        }
    }
};

// The Rows x Cols part of a register tile at (row, col), in units of the part.
template <int Rows, int Cols, class Tile>
rt<typename Tile::dtype, Rows, Cols> subtile(const Tile& tile, int row, int col) {
    static_assert(Tile::rows % Rows == 0 && Tile::cols % Cols == 0,
                  "subtile: the part must divide the tile");
    rt<typename Tile::dtype, Rows, Cols> result;
    for (int r = 0; r < Rows; ++r) {
        for (int c = 0; c < Cols; ++c) {
            result.data[r * Cols + c] = tile.data[(row * Rows + r) * Tile::cols + col * Cols + c];
        }
    }
    return result;
}

template <int Rows, int Cols>
using rt_fl = rt<float, Rows, Cols>;
template <int Rows, int Cols>
using rt_bf = rt<bf16, Rows, Cols>;

TK_NAMESPACE_END
