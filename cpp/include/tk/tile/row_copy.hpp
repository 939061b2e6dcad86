// Copies of rows that lie anywhere: for each row of a tile a function says where in global memory
// it is, as rows of several heads or sequences have no common stride.
#pragma once
#include "tk/tile/shared_ops.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// Whether `Count` elements from each of these addresses are a vector; null is anything.
template <int Count, int Rows, class T>
TK_DEVICE bool are_aligned(T* const (&rows)[Rows]) {
    uintptr_t bits = 0;
    TK_UNROLL
    for (int i = 0; i < Rows; ++i) bits |= reinterpret_cast<uintptr_t>(rows[i]);
    return bits % (Count * sizeof(T)) == 0;
}

template <int Warps>
struct row_copy_ops {
    // The columns below `cols` of row r of the group's tile go to the elements from to(r) on, null
    // for nowhere; converted. `cols` is even.
    template <register_tile R, class F>
    static TK_DEVICE void scatter_rows(F&& to, const R& src, int cols) {
        static_assert(R::is_row, "scatter_rows: the tile must have the row layout");
        using V = typename R::col_vec;
        using T = std::remove_pointer_t<decltype(to(0))>;
        T* rows[V::elements];
        V::for_each([&](int i, int place) { rows[i] = to(group_row<Warps>(place)); });
        if constexpr (sizeof(T) == 2 && sizeof(typename R::dtype) >= 2 && R::cols % 32 == 0) {
            if (!any_lane(cols % 8 != 0 || !are_aligned<8>(rows))) {
                for_each_eight<T>(src, [&](int of_row, int col, const eight<T>& values) {
                    if (rows[of_row] == nullptr || col >= cols) return;
                    *reinterpret_cast<eight<T>*>(rows[of_row] + col) = values;
                });
                return;
            }
        }
        const bool aligned = are_aligned<2>(rows);
        R::for_each([&](int i, int, int col, int, int of_row) {
            if (i % 2 != 0 || rows[of_row] == nullptr || col >= cols) return;
            T* const at = rows[of_row] + col;
            if (aligned) {
                write_vector(at, {convert<float>(src.data[i]), convert<float>(src.data[i + 1])});
            } else {
                at[0] = convert<T>(src.data[i]), at[1] = convert<T>(src.data[i + 1]);
            }
        });
    }
    // Row r of the shared tile becomes the `cols` elements from from(r) on, and 0 beyond them; all
    // 0 if that is null. `cols` is a multiple of 8. Ordinary loads and stores: the reader of an
    // asynchronous proxy needs `fence_async_proxy`.
    template <shared_tile S, class F>
    static TK_DEVICE void gather_rows(S& dst, F&& from, int cols) {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(from(0))>>;
        static_assert(std::is_same_v<T, typename S::dtype> && sizeof(T) == 2,
                      "gather_rows: the rows must have the tile's dtype, one of 16 bits");
        static_assert(S::cols % 8 == 0, "gather_rows: the tile must have a multiple of 8 columns");
        note_tile<Warps>(dst, true, "gather_rows");
        deal<Warps, 8, S::rows, S::cols>(false, [&](int row, int col) {
            eight<T> read{};
            const T* const at = from(row);
            if (at != nullptr && col < cols) {
                if (reinterpret_cast<uintptr_t>(at + col) % 16 == 0) {
                    read = *reinterpret_cast<const eight<T>*>(at + col);
                } else {
                    TK_UNROLL
                    for (int i = 0; i < 8; ++i) read.data[i] = at[col + i];
                }
            }
            *reinterpret_cast<eight<T>*>(dst.data + dst.index(row, col)) = read;
        });
    }
    // The value of row r of the group's tile goes to to(r), null for nowhere; comes from from(r).
    template <register_vector V, class F>
    static TK_DEVICE void scatter_row_values(F&& to, const V& src) {
        if (!V::is_owner()) return;
        V::for_each([&](int i, int place) {
            auto* const at = to(group_row<Warps>(place));
            if (at != nullptr) *at = convert<std::remove_pointer_t<decltype(at)>>(src.data[i]);
        });
    }
    template <register_vector V, class F>
    static TK_DEVICE void gather_row_values(V& dst, F&& from) {
        V::for_each([&](int i, int place) {
            dst.data[i] = convert<typename V::dtype>(*from(group_row<Warps>(place)));
        });
    }
};

}  // namespace detail

TK_NAMESPACE_END
