// Register tiles and vectors on the host: a warp is one thread and holds all of its tile, row by
// row, whatever its layout. What was never written is NaN.
#pragma once
#include <cstring>

#include "tk/tile/lane_places.hpp"

TK_NAMESPACE_BEGIN

template <element T, int Length, vector_layout Layout = vector_layout::naive>
struct rv {
    using dtype = T;
    static constexpr int length = Length;
    static constexpr vector_layout layout = Layout;
    static_assert(detail::is_register_vector<Length, Layout>());
    static constexpr int elements = Length;

    alignas(32) T data[elements];

    rv() { std::memset(static_cast<void*>(data), 0xff, sizeof(data)); }

    auto tensor() {  // (LENGTH)
        return cute::make_tensor(cute::make_rmem_ptr(data), cute::Int<Length>{});
    }
    auto tensor() const {  // (LENGTH)
        return cute::make_tensor(cute::make_rmem_ptr(data), cute::Int<Length>{});
    }
    static int position(int index) { return index; }
    static bool is_owner() { return true; }
    // f(index into data, element of the vector) for all of them.
    template <class F>
    static void for_each(F&& f) {
        for (int i = 0; i < Length; ++i) f(i, i);
    }
};

// A warp's Rows x Cols part of a tile. In a warpgroup, 16-row block i of warp w holds rows
// 64 i + 16 w to 64 i + 16 w + 15 of the warpgroup's tile, as WGMMA deals them out.
template <element T, int Rows, int Cols, register_layout Layout = row_layout>
struct rt {
    using dtype = T;
    static constexpr int rows = Rows;
    static constexpr int cols = Cols;
    static constexpr register_layout layout = Layout;
    static constexpr bool is_row = Layout == row_layout;
    static_assert(detail::is_register_tile<T, Rows, Cols, Layout>());
    static constexpr int row_blocks = Rows / (is_row ? 16 : 4 * detail::neighbours<T>);
    static constexpr int col_blocks = Cols / (is_row ? 4 * detail::neighbours<T> : 16);
    static constexpr int elements = Rows * Cols;

    // A value for each column, and for each row.
    using row_vec = rv<T, Cols, is_row ? detail::aligned_to<T> : vector_layout::orthogonal>;
    using col_vec = rv<T, Rows, is_row ? vector_layout::orthogonal : detail::aligned_to<T>>;

    alignas(32) T data[elements];

    rt() { std::memset(static_cast<void*>(data), 0xff, sizeof(data)); }

    auto tensor() {  // (ROWS,COLS)
        return cute::make_tensor(cute::make_rmem_ptr(data), tensor_layout{});
    }
    auto tensor() const {  // (ROWS,COLS)
        return cute::make_tensor(cute::make_rmem_ptr(data), tensor_layout{});
    }
    using tensor_layout = cute::Layout<cute::Shape<cute::Int<Rows>, cute::Int<Cols>>,
                                       cute::Stride<cute::Int<Cols>, cute::_1>>;

    // The place of the first element, and f(index into data, rows and columns from there) for all.
    static detail::place first_place() { return {0, 0}; }
    template <class F>
    static void for_each_step(F&& f) {
        for (int i = 0; i < elements; ++i) f(i, i / Cols, i % Cols);
    }
    // f(index into data, row and column in the warp's tile, index into a row_vec's data, index into
    // a col_vec's) for every element.
    template <class F>
    static void for_each(F&& f) {
        for (int row = 0; row < Rows; ++row) {
            for (int col = 0; col < Cols; ++col) f(row * Cols + col, row, col, col, row);
        }
    }
};

// The Rows x Cols part of a register tile at (row, col), in units of the part.
template <int Rows, int Cols, class Tile>
auto subtile(const Tile& tile, int row, int col) {
    static_assert(Tile::rows % Rows == 0 && Tile::cols % Cols == 0,
                  "subtile: the part must divide the tile");
    rt<typename Tile::dtype, Rows, Cols, Tile::layout> result;
    for (int r = 0; r < Rows; ++r) {
        for (int c = 0; c < Cols; ++c) {
            result.data[r * Cols + c] = tile.data[(row * Rows + r) * Tile::cols + col * Cols + c];
        }
    }
    return result;
}

TK_NAMESPACE_END
