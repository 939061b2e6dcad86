// Shared tiles: a CuTe layout with the swizzle that WGMMA and TMA understand, the memory for it,
// and parts of it; complex pairs and arrays of them.
#pragma once
#include <cute/atom/mma_traits_sm90_gmma.hpp>

#include "tk/tile/sv.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// The layout atoms of GMMA with the columns contiguous: 8 rows of 128, 64 or 32 bytes, or of 16
// without a swizzle.
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
template <class T>
struct swizzle_atom<T, 0> {
    using rows_first = cute::GMMA::Layout_K_INTER_Atom<T>;
    using cols_first = cute::GMMA::Layout_MN_INTER_Atom<T>;
};

constexpr int swizzle_bytes_for(int row_bytes) {
    return row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : row_bytes % 32 == 0 ? 32 : 0;
}
constexpr int panel_bytes_for(int swizzle_bytes) { return swizzle_bytes == 0 ? 16 : swizzle_bytes; }

}  // namespace detail

// The widest swizzle that the row of a tile allows.
inline constexpr int swizzle_auto = -1;

template <class S, int Rows, int Cols>
struct st_subtile;

// A Rows x Cols tile in shared memory. It is stored in panels as wide as the swizzle (128 bytes
// where the row allows; 16 without one): panel after panel, each Rows x panel_cols with its columns
// contiguous. That is the K-major operand of WGMMA as it stands, the MN-major operand by
// `tensor_t()`, and one TMA box a panel.
template <element T, int Rows, int Cols, int Swizzle = swizzle_auto>
struct alignas(1024) st {
    using dtype = T;
    static constexpr int rows = Rows;
    static constexpr int cols = Cols;
    static constexpr int row_bytes = Cols * int(sizeof(T));
    static constexpr int swizzle_bytes =
        Swizzle == swizzle_auto ? detail::swizzle_bytes_for(row_bytes) : Swizzle;
    static_assert(Rows % 8 == 0, "st: rows must be a multiple of 8, the height of a swizzle atom");
    static_assert(Swizzle == swizzle_auto || Swizzle == 0 || Swizzle == 32 || Swizzle == 64 ||
                      Swizzle == 128,
                  "st: the swizzle must be 0, 32, 64 or 128 bytes, or swizzle_auto");
    static_assert(row_bytes % detail::panel_bytes_for(swizzle_bytes) == 0,
                  "st: a row must be a multiple of the swizzle's bytes (of 16 without one)");
    static constexpr int panel_cols = detail::panel_bytes_for(swizzle_bytes) / int(sizeof(T));
    static constexpr int panels = Cols / panel_cols;
    static constexpr int bytes = Rows * row_bytes;
    // A value for each column, and for each row.
    using row_vec = sv<T, Cols>;
    using col_vec = sv<T, Rows>;

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
    // Unsigned, since a division by a power of two is a shift then.
    TK_HOST_DEVICE static int offset(int row, int col) {
        return int(
            cute::as_position_independent_swizzle_layout(layout{})(uint32_t(row), uint32_t(col)));
    }
    TK_HOST_DEVICE int index(int row, int col) const { return offset(row, col); }
    TK_HOST_DEVICE T* panel_address(int panel, int row = 0) {
        return data + (panel * Rows + row) * panel_cols;
    }
    TK_HOST_DEVICE const T* panel_address(int panel, int row = 0) const {
        return data + (panel * Rows + row) * panel_cols;
    }

    // The PartRows x PartCols part at (row, col), in units of the part; not a copy.
    template <int PartRows, int PartCols>
    TK_HOST_DEVICE auto subtile(int row, int col) {
        return st_subtile<st, PartRows, PartCols>(*this, row * PartRows, col * PartCols);
    }
    template <int PartRows, int PartCols>
    TK_HOST_DEVICE auto subtile(int row, int col) const {
        return st_subtile<const st, PartRows, PartCols>(*this, row * PartRows, col * PartCols);
    }
};

template <int Rows, int Cols, int Swizzle = swizzle_auto>
using st_bf = st<bf16, Rows, Cols, Swizzle>;
template <int Rows, int Cols, int Swizzle = swizzle_auto>
using st_hf = st<half, Rows, Cols, Swizzle>;
template <int Rows, int Cols, int Swizzle = swizzle_auto>
using st_fl = st<float, Rows, Cols, Swizzle>;
template <int Rows, int Cols, int Swizzle = swizzle_auto>
using st_e4m3 = st<e4m3, Rows, Cols, Swizzle>;
template <int Rows, int Cols, int Swizzle = swizzle_auto>
using st_e5m2 = st<e5m2, Rows, Cols, Swizzle>;

template <class S>
concept shared_tile = requires(S& tile) {
    typename S::dtype;
    S::panel_cols;
    S::swizzle_bytes;
    { tile.index(0, 0) } -> std::same_as<int>;
    tile.panel_address(0, 0);
};
// A tile that is all of its memory, and so can be the target type of a descriptor.
template <class S>
concept whole_shared_tile = shared_tile<S> && requires { typename S::layout_t; };

// A part of a shared tile, without a copy: an operand of the tensor cores where it keeps the
// swizzle atoms' 8 rows, and a target of TMA where it also has whole panels.
template <class S, int Rows, int Cols>
struct st_subtile {
    using whole = std::remove_const_t<S>;
    using dtype = typename whole::dtype;
    static constexpr int rows = Rows;
    static constexpr int cols = Cols;
    static constexpr int swizzle_bytes = whole::swizzle_bytes;
    static constexpr int panel_cols = whole::panel_cols;
    static constexpr int panels = (Cols + panel_cols - 1) / panel_cols;
    static constexpr int bytes = Rows * Cols * int(sizeof(dtype));
    static constexpr bool is_operand = Rows % 8 == 0 && Cols * int(sizeof(dtype)) % 16 == 0;
    static constexpr bool is_tma_target = Rows % 8 == 0 && Cols % panel_cols == 0;
    using row_vec = sv<dtype, Cols>;
    using col_vec = sv<dtype, Rows>;
    static_assert(whole::rows % Rows == 0 && whole::cols % Cols == 0,
                  "subtile: the part must divide the tile");

    using pointer = std::conditional_t<std::is_const_v<S>, const dtype*, dtype*>;
    S& of;
    pointer data;  // of the whole tile
    int row_0, col_0;

    TK_HOST_DEVICE st_subtile(S& tile, int row, int col)
        : of(tile), data(tile.data), row_0(row), col_0(col) {}

    TK_HOST_DEVICE int index(int row, int col) const {
        return whole::offset(row_0 + row, col_0 + col);
    }
    TK_HOST_DEVICE pointer panel_address(int panel, int row = 0) const {
        return of.panel_address(col_0 / panel_cols + panel, row_0 + row);
    }
    TK_HOST_DEVICE auto tensor() const {  // (ROWS,COLS)
        require_operand();
        return cute::local_tile(of.tensor(), cute::Shape<cute::Int<Rows>, cute::Int<Cols>>{},
                                cute::make_coord(row_0 / Rows, col_0 / Cols));
    }
    TK_HOST_DEVICE auto tensor_t() const {  // (COLS,ROWS)
        require_operand();
        return cute::local_tile(of.tensor_t(), cute::Shape<cute::Int<Cols>, cute::Int<Rows>>{},
                                cute::make_coord(col_0 / Cols, row_0 / Rows));
    }

  private:
    static TK_HOST_DEVICE void require_operand() {
        static_assert(is_operand,
                      "subtile: as a CuTe tensor or an operand of mma a part must have a multiple "
                      "of 8 rows, and of 16 bytes of columns");
    }
};

// The part of a tile at (row, col), in units of the part, as a tile of its own. The part must be
// one in memory: whole panels with all their rows, or full-width rows of a one-panel tile.
template <int Rows, int Cols, whole_shared_tile S>
TK_HOST_DEVICE auto& subtile_inplace(S& tile, int row, int col) {
    constexpr bool row_slice = Cols == S::cols && S::panels == 1;
    constexpr bool panel_slice = Rows == S::rows && Cols % S::panel_cols == 0;
    static_assert(row_slice || panel_slice,
                  "subtile_inplace: the part must be whole panels, or rows of a one-panel tile; "
                  "tile.subtile<Rows, Cols>(row, col) takes others");
    static_assert(S::rows % Rows == 0 && S::cols % Cols == 0,
                  "subtile_inplace: the part must divide the tile");
    using part = st<typename S::dtype, Rows, Cols, S::swizzle_bytes>;
    static_assert(Rows * S::panel_cols * int(sizeof(typename S::dtype)) % 1024 == 0 ||
                      (Rows == S::rows && Cols == S::cols),
                  "subtile_inplace: the part must be a multiple of 1024 bytes");
    using result = std::conditional_t<std::is_const_v<S>, const part, part>;
    return reinterpret_cast<result*>(&tile)[row_slice ? row : col];
}

// The shared tile that a CuTe tensor with its layout lies in: `S::tensor()`, backwards.
template <whole_shared_tile S, class Tensor>
TK_HOST_DEVICE S& shared_tile_of(Tensor&& tensor) {
    using own = decltype(std::declval<S&>().tensor());
    static_assert(
        std::is_same_v<std::remove_cvref_t<decltype(tensor.layout())>,
                       std::remove_cvref_t<decltype(std::declval<own&>().layout())>> &&
            std::is_same_v<typename std::remove_cvref_t<Tensor>::value_type, typename S::dtype>,
        "shared_tile_of: the tensor must have the tile's layout and dtype");
    return *reinterpret_cast<S*>(cute::raw_pointer_cast(tensor.data()));
}

// Several tiles, each at a multiple of its alignment (so a tile of 256 bytes takes 1024) and
// `Padding` bytes after the end of the one before.
template <class S, int Count, int Padding = 0>
struct st_array {
    static_assert(Padding % int(alignof(S)) == 0,
                  "st_array: the padding must keep the alignment of the tile");
    struct alignas(alignof(S)) slot {
        S tile;
        char padding[Padding == 0 ? 1 : Padding];
    };
    std::conditional_t<Padding == 0, S, slot> slots[Count];
    TK_HOST_DEVICE S& operator[](int i) {
        if constexpr (Padding == 0) {
            return slots[i];
        } else {
            return slots[i].tile;
        }
    }
};

// A complex shared tile: two real ones.
template <element T, int Rows, int Cols, int Swizzle = swizzle_auto>
struct cst {
    using component = st<T, Rows, Cols, Swizzle>;
    using dtype = T;
    static constexpr int rows = Rows;
    static constexpr int cols = Cols;
    static constexpr int bytes = 2 * component::bytes;
    component real, imag;
};
template <int Rows, int Cols, int Swizzle = swizzle_auto>
using cst_bf = cst<bf16, Rows, Cols, Swizzle>;
template <int Rows, int Cols, int Swizzle = swizzle_auto>
using cst_fl = cst<float, Rows, Cols, Swizzle>;

TK_NAMESPACE_END
