// Register tiles and vectors on sm90: each lane holds the elements that the tensor cores give it.
#pragma once
#include "tk/tile/lane_places.hpp"

TK_NAMESPACE_BEGIN

namespace detail {
TK_DEVICE int lane() { return int(threadIdx.x) & 31; }
}  // namespace detail

template <element T, int Length, vector_layout Layout = vector_layout::naive>
struct rv {
    using dtype = T;
    static constexpr int length = Length;
    static constexpr vector_layout layout = Layout;
    static_assert(detail::is_register_vector<Length, Layout>());
    static constexpr int elements = detail::vector_elements<Layout>(Length);

    alignas(4) T data[elements];

    TK_DEVICE auto tensor() {  // (ELEMENTS)
        return cute::make_tensor(cute::make_rmem_ptr(data), cute::Int<elements>{});
    }
    TK_DEVICE auto tensor() const {  // (ELEMENTS)
        return cute::make_tensor(cute::make_rmem_ptr(data), cute::Int<elements>{});
    }
    // Which element of the vector data[index] of the calling lane is; of a naive vector also one
    // from Length on, which stands for nothing.
    static TK_DEVICE int position(int index) {
        return detail::vector_place<Layout>(detail::lane(), index, elements);
    }
    // Whether the calling lane is the first of those that hold the same.
    static TK_DEVICE bool is_owner() {
        return Layout == vector_layout::naive || Layout == vector_layout::units ||
               (Layout == vector_layout::orthogonal ? detail::lane() % 4 == 0 : detail::lane() < 4);
    }
    // f(index into data, element of the vector) for all that the calling lane holds.
    template <class F>
    static TK_DEVICE void for_each(F&& f) {
        TK_UNROLL
        for (int i = 0; i < elements; ++i) {
            if (Layout != vector_layout::naive || Length % 32 == 0 || position(i) < Length) {
                f(i, position(i));
            }
        }
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
    static constexpr int neighbours = detail::neighbours<T>;
    // Blocks of 16 across the lanes' groups, of 8 (or 16) along the lanes of a group.
    static constexpr int blocks_across = (is_row ? Rows : Cols) / 16;
    static constexpr int blocks_along = (is_row ? Cols : Rows) / (4 * neighbours);
    static constexpr int row_blocks = is_row ? blocks_across : blocks_along;
    static constexpr int col_blocks = is_row ? blocks_along : blocks_across;
    static constexpr int elements = Rows * Cols / 32;  // of one lane

    // A value for each column, and for each row.
    using row_vec = rv<T, Cols, is_row ? detail::aligned_to<T> : vector_layout::orthogonal>;
    using col_vec = rv<T, Rows, is_row ? vector_layout::orthogonal : detail::aligned_to<T>>;

    alignas(4) T data[elements];

    // The fragment that the tensor cores' atoms take: ((neighbours, 2 halves of 16 across, blocks
    // along), blocks across, 1).
    TK_DEVICE auto tensor() {  // (MMA,MMA_M,MMA_N)
        return cute::make_tensor(cute::make_rmem_ptr(data), fragment_layout{});
    }
    TK_DEVICE auto tensor() const {
        return cute::make_tensor(cute::make_rmem_ptr(data), fragment_layout{});
    }
    using fragment_layout = cute::Layout<
        cute::Shape<cute::Shape<cute::Int<neighbours>, cute::_2, cute::Int<blocks_along>>,
                    cute::Int<blocks_across>, cute::_1>>;

    // (lane, index into data) -> row + Rows * col, as CuTe's atoms state their layouts.
    static TK_HOST_DEVICE constexpr auto thread_value_layout() {
        constexpr int across = is_row ? 1 : Rows, along = is_row ? Rows : 1;
        using cute::Int;
        return cute::Layout<
            cute::Shape<
                cute::Shape<cute::_4, cute::_8>,
                cute::Shape<Int<neighbours>, cute::_2, Int<blocks_along>, Int<blocks_across>>>,
            cute::Stride<cute::Stride<Int<neighbours * along>, Int<across>>,
                         cute::Stride<Int<along>, Int<8 * across>, Int<4 * neighbours * along>,
                                      Int<16 * across>>>>{};
    }

    static TK_DEVICE constexpr int index(int across, int along, int upper, int neighbour) {
        return ((across * blocks_along + along) * 2 + upper) * neighbours + neighbour;
    }

    // The place in the warp's tile of the calling lane's first element, and f(index into data, rows
    // and columns from there) for all that it holds: what does not depend on the lane.
    static TK_DEVICE detail::place first_place() {
        return detail::fragment_place<is_row, neighbours>(detail::lane(), 0, 0, 0, 0);
    }
    template <class F>
    static TK_DEVICE void for_each_step(F&& f) {
        TK_UNROLL
        for (int e = 0; e < elements; ++e) {
            constexpr int of_block = 2 * neighbours;
            const auto at = detail::fragment_place<is_row, neighbours>(
                0, e / of_block / blocks_along, e / of_block % blocks_along, e / neighbours % 2,
                e % neighbours);
            f(e, at.row, at.col);
        }
    }
    // f(index into data, row and column in the warp's tile, index into a row_vec's data, index into
    // a col_vec's) for every element that the calling lane holds.
    template <class F>
    static TK_DEVICE void for_each(F&& f) {
        TK_UNROLL
        for (int i = 0; i < blocks_across; ++i) {
            TK_UNROLL
            for (int j = 0; j < blocks_along; ++j) {
                TK_UNROLL
                for (int upper = 0; upper < 2; ++upper) {
                    TK_UNROLL
                    for (int n = 0; n < neighbours; ++n) {
                        const auto at = detail::fragment_place<is_row, neighbours>(detail::lane(),
                                                                                   i, j, upper, n);
                        const int of_across = i * 2 + upper, of_along = j * neighbours + n;
                        f(index(i, j, upper, n), at.row, at.col, is_row ? of_along : of_across,
                          is_row ? of_across : of_along);
                    }
                }
            }
        }
    }
};

// The Rows x Cols part of a register tile at (row, col), in units of the part; both known at
// compile time once the caller's loops are unrolled, so that nothing moves.
template <int Rows, int Cols, class Tile>
TK_DEVICE auto subtile(const Tile& tile, int row, int col) {
    static_assert(Tile::rows % Rows == 0 && Tile::cols % Cols == 0,
                  "subtile: the part must divide the tile");
    using part = rt<typename Tile::dtype, Rows, Cols, Tile::layout>;
    const int across = (Tile::is_row ? row : col) * part::blocks_across;
    const int along = (Tile::is_row ? col : row) * part::blocks_along;
    part result;
    TK_UNROLL
    for (int i = 0; i < part::blocks_across; ++i) {
        TK_UNROLL
        for (int j = 0; j < part::blocks_along; ++j) {
            TK_UNROLL
            for (int e = 0; e < 2 * part::neighbours; ++e) {
                result.data[part::index(i, j, 0, e)] =
                    tile.data[Tile::index(across + i, along + j, 0, e)];
            }
        }
    }
    return result;
}

TK_NAMESPACE_END
