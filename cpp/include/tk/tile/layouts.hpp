// Copies between register tiles and vectors: conversion of dtypes and of layouts, transposition.
#pragma once
#include "tk/tile/maps.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/relayout.hpp"
#else
#include "tk/arch/host/relayout.hpp"
#endif

TK_NAMESPACE_BEGIN

namespace detail {

template <class A, class B>
constexpr bool same_shape = A::rows == B::rows && A::cols == B::cols;
template <class A, class B>
constexpr bool transposed_shape = A::rows == B::cols && A::cols == B::rows;

template <int Warps>
struct layout_ops {
    // dst = src, rounded to dst's dtype. Between fp32 and 16-bit tiles nothing moves, so that an
    // accumulator becomes the left operand of the next product where it lies; from and to 8-bit
    // elements it costs two shuffles for four of them.
    template <register_tile D, register_tile A>
    static TK_DEVICE void copy(D& dst, const A& src) {
        static_assert(same_shape<D, A> && D::layout == A::layout,
                      "copy: the tiles must have one shape and one register layout (swap_layout "
                      "changes the layout)");
        if constexpr (same_places<D, A>) {
            map_ops<Warps>::map(dst, src, [](float x) { return x; });
        } else {
            exchange_neighbours(dst, src);
        }
    }
    // Between vectors of one length, of any layouts but units, which have theirs alone.
    template <register_vector D, register_vector A>
    static TK_DEVICE void copy(D& dst, const A& src) {
        static_assert(D::length == A::length, "copy: the vectors must have one length");
        if constexpr (same_places<D, A>) {
            map_ops<Warps>::map(dst, src, [](float x) { return x; });
        } else {
            static_assert(D::layout != vector_layout::units && A::layout != vector_layout::units,
                          "copy: a vector of units is copied to and from vectors of units alone");
            rearrange(dst, src);
        }
    }
    template <in_registers D>
    static TK_DEVICE void copy(D& dst, float value) {
        map_ops<Warps>::fill(dst, value);
    }

    // dst = src in the other register layout; one `movmatrix` for two 16-bit elements, and
    // for four 8-bit ones with two shuffles.
    template <register_tile D, register_tile A>
    static TK_DEVICE void swap_layout(D& dst, const A& src) {
        static_assert(same_shape<D, A> && D::layout != A::layout,
                      "swap_layout: the tiles must have one shape, and different layouts");
        static_assert(std::is_same_v<typename D::dtype, typename A::dtype>,
                      "swap_layout: the tiles must have one dtype");
        exchange_layout(dst, src);
    }
    // dst = src transposed. Into the other layout nothing moves.
    template <register_tile D, register_tile A>
    static TK_DEVICE void transpose(D& dst, const A& src) {
        static_assert(transposed_shape<D, A>,
                      "transpose: dst must have src's columns as rows and its rows as columns");
        static_assert(std::is_same_v<typename D::dtype, typename A::dtype>,
                      "transpose: the tiles must have one dtype");
        static_assert(Warps == 1, "transpose is an operation of one warp, on its own tile");
        if constexpr (D::layout != A::layout) {
            relabel(dst, src);
        } else {
            rt<typename A::dtype, A::rows, A::cols, A::is_row ? col_layout : row_layout> swapped;
            swap_layout(swapped, src);
            relabel(dst, swapped);
        }
    }
    template <register_tile R>
    static TK_DEVICE void transpose_inplace(R& tile) {
        static_assert(R::rows == R::cols, "transpose_inplace: the tile must be square");
        const R before = tile;
        transpose(tile, before);
    }
};

}  // namespace detail

TK_NAMESPACE_END
