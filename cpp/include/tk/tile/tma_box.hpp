// How a shared tile or vector is cut into the boxes that TMA copies, and where each of them lies.
#pragma once
#include <bit>

#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

template <class S>
concept shared_object = shared_tile<S> || shared_vector<S>;

// In a gl's list of tiles: the copies of S take one instruction each, whatever the number of its
// panels. The tensor is then described with its columns cut into panels, so that it must have a
// multiple of S::panel_cols columns, and copies start at one.
template <class S>
struct one_box {
    static_assert(whole_shared_tile<S>, "one_box: its argument must be a shared tile `st`");
    using tile = S;
};

namespace detail {

TK_HOST_DEVICE constexpr bool is_power_of_2(int x) { return x > 0 && (x & (x - 1)) == 0; }

// Of a power of 2.
TK_HOST_DEVICE constexpr int log2_of(int x) {
#if defined(__CUDA_ARCH__)
    return 31 - __clz(x);
#else
    return std::countr_zero(unsigned(x));
#endif
}

// The type that stands for all objects with the same boxes, as a descriptor knows them: a tile for
// its parts of that size too, however its swizzle was chosen.
template <class S>
struct tma_key {
    using type = S;  // of a vector
};
template <shared_tile S>
struct tma_key<S> {
    using type = st<typename S::dtype, S::rows, S::cols, S::swizzle_bytes>;
};
template <class S>
struct tma_key<one_box<S>> {
    using type = one_box<typename tma_key<S>::type>;
};

}  // namespace detail

// The type whose descriptor copies of S take. A part of a tile must be whole panels of a multiple
// of 8 rows.
template <class S>
using tma_key = typename detail::tma_key<S>::type;

// How one copy is shared by the blocks of a cluster: each block loads part `part` of `parts` and
// multicasts it to the blocks in `mask`. `parts` is a power of two.
struct multicast {
    int parts = 1;
    int part = 0;
    uint16_t mask = 1;
};

// The box of one TMA copy of S when `parts` blocks share it. Of a tile: whole panels where they can
// be dealt out, otherwise rows of every panel.
template <class S>
struct tma_box;

template <shared_tile S>
struct tma_box<S> {
    using object = S;
    static_assert(
        [] {
            if constexpr (whole_shared_tile<S>) {
                return true;
            } else {
                return S::is_tma_target;
            }
        }(),
        "TMA copies parts of a tile that are whole panels of a multiple of 8 rows: the part is "
        "not");
    static constexpr bool all_panels = false;  // in one box
    static constexpr int cols = S::panel_cols;
    static constexpr int swizzle_bytes = S::swizzle_bytes;
    TK_HOST_DEVICE static constexpr bool by_panel(int parts) { return S::panels % parts == 0; }
    TK_HOST_DEVICE static constexpr int rows(int parts) {
        return by_panel(parts) ? S::rows : S::rows / parts;
    }
    TK_HOST_DEVICE static constexpr int panels(int parts) {
        return by_panel(parts) ? S::panels / parts : S::panels;
    }
    TK_HOST_DEVICE static constexpr bool legal(int parts) {
        return detail::is_power_of_2(parts) && (by_panel(parts) || S::rows % (8 * parts) == 0);
    }
};

// Rows of several panels are no box: there is room between them.
template <whole_shared_tile S>
struct tma_box<one_box<S>> : tma_box<S> {
    static constexpr bool all_panels = true;
    TK_HOST_DEVICE static constexpr bool legal(int parts) {
        return tma_box<S>::legal(parts) && (S::panels == 1 || tma_box<S>::by_panel(parts));
    }
};

// Of a vector: a row of at most 256 columns, the most that a box may have. Boxes after the first
// start at a multiple of 128 bytes of shared memory, as TMA needs.
template <shared_vector V>
struct tma_box<V> {
    using object = V;
    static constexpr bool all_panels = false;
    static constexpr int swizzle_bytes = 0;
    static_assert(V::bytes % 16 == 0,
                  "TMA copies vectors of a multiple of 16 bytes: the vector's length is not one");
    static constexpr int boxes = [] {
        for (int count = 1; count <= V::length; ++count) {
            const int size = V::length / count;
            const bool aligned = count == 1 || size * int(sizeof(typename V::dtype)) % 128 == 0;
            if (V::length % count == 0 && size <= 256 && aligned) return count;
        }
        return 0;
    }();
    static_assert(boxes != 0,
                  "TMA copies vectors of up to 256 elements, or of equal parts of up to 256 that "
                  "are multiples of 128 bytes: the vector's length is neither");
    static constexpr int cols = V::length / (boxes == 0 ? 1 : boxes);
    TK_HOST_DEVICE static constexpr int rows(int) { return 1; }
    TK_HOST_DEVICE static constexpr int panels(int) { return 1; }
    TK_HOST_DEVICE static constexpr bool legal(int parts) {
        return detail::is_power_of_2(parts) && boxes % parts == 0;
    }
};

TK_NAMESPACE_END
