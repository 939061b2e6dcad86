// Shared tiles: a CuTe layout with the swizzle that WGMMA and TMA understand, and the memory for
// it.
#pragma once
#include <cute/atom/mma_traits_sm90_gmma.hpp>

#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// The swizzle atoms of GMMA with the columns contiguous: 8 rows of 128, 64 or 32 bytes.
template <class T, int Bytes>
struct swizzle_atom;
template <class T>
struct swizzle_atom<T, 128> {
    using rows_first = cute::GMMA::Layout_K_SW128_Atom<T>;
    using cols_first = cute::GMMA::Layout_MN_SW128_Atom<T>;
};
template <class T>
struct swizzle_atom<T, 64> {
    using rows_first = cute::GMMA::Layout_K_SW64_Atom<T>;
    using cols_first = cute::GMMA::Layout_MN_SW64_Atom<T>;
};
template <class T>
struct swizzle_atom<T, 32> {
    using rows_first = cute::GMMA::Layout_K_SW32_Atom<T>;
    using cols_first = cute::GMMA::Layout_MN_SW32_Atom<T>;
};

constexpr int swizzle_bytes_for(int row_bytes) {
    return row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : row_bytes % 32 == 0 ? 32 : 0;
}

}  // namespace detail

// A Rows x Cols tile in shared memory. It is stored in panels as wide as the swizzle (128 bytes
// where the row allows): panel after panel, each Rows x panel_cols with its columns contiguous.
// That is the K-major operand of WGMMA as it stands, the MN-major operand by `tensor_t()`, and one
// TMA box a panel.
template <element T, int Rows, int Cols>
struct alignas(1024) st {
    using dtype = T;
    static constexpr int rows = Rows;
    static constexpr int cols = Cols;
    static constexpr int swizzle_bytes = detail::swizzle_bytes_for(Cols * int(sizeof(T)));
    static_assert(Rows % 8 == 0, "st: rows must be a multiple of 8, the height of a swizzle atom");
    static_assert(swizzle_bytes != 0, "st: a row must be a multiple of 32 bytes");
    static constexpr int panel_cols = swizzle_bytes / int(sizeof(T));
    static constexpr int panels = Cols / panel_cols;
    static constexpr int bytes = Rows * Cols * int(sizeof(T));

    using atom = detail::swizzle_atom<T, swizzle_bytes>;
    using layout = decltype(cute::tile_to_shape(typename atom::rows_first{},
                                                cute::Shape<cute::Int<Rows>, cute::Int<Cols>>{}));
    using layout_t = decltype(cute::tile_to_shape(typename atom::cols_first{},
                                                  cute::Shape<cute::Int<Cols>, cute::Int<Rows>>{},
                                                  cute::Step<cute::_2, cute::_1>{}));

    T data[Rows * Cols];

    TK_HOST_DEVICE auto tensor() {  // (ROWS,COLS)
        return cute::make_tensor(cute::make_smem_ptr(data), layout{});
    }
    TK_HOST_DEVICE auto tensor() const {  // (ROWS,COLS)
        return cute::make_tensor(cute::make_smem_ptr(data), layout{});
    }
    TK_HOST_DEVICE auto tensor_t() const {  // (COLS,ROWS)
        return cute::make_tensor(cute::make_smem_ptr(data), layout_t{});
    }

    // Index into `data` of element (row, col). CuTe's layout swizzles addresses; the position
    // independent one swizzles the index, and both agree because a tile is aligned to 1024 bytes.
    TK_HOST_DEVICE static int offset(int row, int col) {
        return int(cute::as_position_independent_swizzle_layout(layout{})(row, col));
    }
};

template <int Rows, int Cols>
using st_bf = st<bf16, Rows, Cols>;
template <int Rows, int Cols>
using st_fl = st<float, Rows, Cols>;

template <class S>
concept shared_tile = requires {
    typename S::dtype;
    typename S::layout_t;
    S::panel_cols;
};

// The part of a tile at (row, col), in units of the part, without a copy. The part must be a tile
// of its own in memory: whole panels with all their rows, or full-width rows of a one-panel tile.
template <int Rows, int Cols, shared_tile S>
TK_HOST_DEVICE auto& subtile_inplace(S& tile, int row, int col) {
    constexpr bool row_slice = Cols == S::cols && S::panels == 1;
    constexpr bool panel_slice = Rows == S::rows && Cols % S::panel_cols == 0;
    static_assert(row_slice || panel_slice,
                  "subtile_inplace: the part must be whole panels, or rows of a one-panel tile");
    static_assert(S::rows % Rows == 0 && S::cols % Cols == 0,
                  "subtile_inplace: the part must divide the tile");
    using part = st<typename S::dtype, Rows, Cols>;
    static_assert(part::swizzle_bytes == S::swizzle_bytes,
                  "subtile_inplace: the part must have the swizzle of the tile");
    using result = std::conditional_t<std::is_const_v<S>, const part, part>;
    return reinterpret_cast<result*>(&tile)[row_slice ? row : col];
}

TK_NAMESPACE_END
