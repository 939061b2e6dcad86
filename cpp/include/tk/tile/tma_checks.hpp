// What both architectures ask of TMA's operations: dtypes that reductions take, and the stretches
// of memory and the boxes of a copy.
#pragma once
#include "tk/tile/tma_box.hpp"

TK_NAMESPACE_BEGIN

enum class tma_reduction { add, min, max };

// PTX ISA, "cp.reduce.async.bulk": half and bf16 have all three, float the sum alone.
template <shared_object S, tma_reduction Operation>
TK_HOST_DEVICE constexpr void check_tma_reduction() {
    using T = typename S::dtype;
    static_assert(element_16bit<T> || (std::is_same_v<T, float> && Operation == tma_reduction::add),
                  "store_add_async takes tiles of bf16, half and float, store_min_async and "
                  "store_max_async of bf16 and half: the tile's dtype is another");
}

// The number of boxes that a copy of S takes.
template <shared_object S, class G>
TK_HOST_DEVICE constexpr int tma_num_boxes() {
    if constexpr (G::template copies_in_one_box<S>) {
        return 1;
    } else if constexpr (shared_tile<S>) {
        return S::panels;
    } else {
        return tma_box<S>::boxes;
    }
}

// f(destination or source of a box, its column, row and panel relative to the copy's corner) for
// the boxes of part `share.part` of an object, or of all of it unless `Shared`; the number of parts
// is a power of two.
template <bool Shared, class G, shared_tile S, class F>
TK_DEVICE void tma_for_boxes(S& tile, const multicast& share, F&& f) {
    const int log_parts = Shared ? detail::log2_of(share.parts) : 0;
    if constexpr (S::panels == 1) {
        const int first = Shared ? share.part * (S::rows >> log_parts) : 0;
        f(tile.panel_address(0, first), 0, first, 0);
    } else {
        const bool by_panel = ((S::panels >> log_parts) << log_parts) == S::panels;
        const int panels = by_panel ? S::panels >> log_parts : S::panels;
        const int panel_0 = by_panel ? share.part * panels : 0;
        const int row_0 = by_panel ? 0 : share.part * (S::rows >> log_parts);
        if constexpr (G::template copies_in_one_box<std::remove_const_t<S>>) {
            f(tile.panel_address(panel_0, row_0), 0, row_0, panel_0);
        } else {
            TK_NO_UNROLL
            for (int panel = panel_0; panel < panel_0 + panels; ++panel) {
                f(tile.panel_address(panel, row_0), panel * S::panel_cols, row_0, 0);
            }
        }
    }
}
template <bool Shared, class G, shared_vector V, class F>
TK_DEVICE void tma_for_boxes(V& vector, const multicast& share, F&& f) {
    using box = tma_box<std::remove_const_t<V>>;
    const int log_parts = Shared ? detail::log2_of(share.parts) : 0;
    const int count = box::boxes >> log_parts, first = Shared ? share.part * count : 0;
    TK_NO_UNROLL
    for (int i = first; i < first + count; ++i) f(&vector.data[i * box::cols], i * box::cols, 0, 0);
}

// f(destination, source, bytes) for each stretch of memory that two tiles, or vectors, of a size
// have: the whole, or panel by panel of parts of tiles.
template <class D, class S, class F>
TK_HOST_DEVICE void tma_for_stretches(D& dst, S& src, F&& f) {
    static_assert(std::is_same_v<tma_key<std::remove_const_t<D>>, tma_key<std::remove_const_t<S>>>,
                  "a copy to another block needs a destination and a source of the same dtype, "
                  "size and swizzle: they differ");
    static_assert(S::bytes % 16 == 0,
                  "a copy to another block takes tiles and vectors of a multiple of 16 bytes: the "
                  "vector's length is not one");
    if constexpr (shared_vector<S>) {
        f(&dst.data[0], &src.data[0], S::bytes);
    } else if constexpr (whole_shared_tile<S> && whole_shared_tile<D>) {
        f(dst.panel_address(0, 0), src.panel_address(0, 0), S::bytes);
    } else {
        (void)sizeof(tma_box<std::remove_const_t<S>>),
            (void)sizeof(tma_box<std::remove_const_t<D>>);
        TK_NO_UNROLL
        for (int panel = 0; panel < S::panels; ++panel) {
            f(dst.panel_address(panel, 0), src.panel_address(panel, 0), S::bytes / S::panels);
        }
    }
}

TK_NAMESPACE_END
