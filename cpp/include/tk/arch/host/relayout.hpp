// Changes of a register tile's layout: on the host every layout is the same array.
#pragma once
#include "tk/tile/register_tile.hpp"
#include "tk/tile/vectors.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <register_tile D, register_tile A>
void exchange_neighbours(D& dst, const A& src) {
    for (int i = 0; i < D::elements; ++i) dst.data[i] = convert<typename D::dtype>(src.data[i]);
}
template <register_vector D, register_vector A>
void rearrange(D& dst, const A& src) {
    for (int i = 0; i < D::length; ++i) dst.data[i] = convert<typename D::dtype>(src.data[i]);
}
template <register_tile D, register_tile A>
void exchange_layout(D& dst, const A& src) {
    for (int i = 0; i < D::elements; ++i) dst.data[i] = src.data[i];
}
template <register_tile D, register_tile A>
void relabel(D& dst, const A& src) {
    for (int row = 0; row < D::rows; ++row) {
        for (int col = 0; col < D::cols; ++col) {
            dst.data[row * D::cols + col] = src.data[col * A::cols + row];
        }
    }
}

// f(index into a col_vec's data, column, 8 elements T) for every 8 neighbouring columns of a row.
template <element_16bit T, register_tile R, class F>
void for_each_eight(const R& src, F&& f) {
    static_assert(R::is_row && R::cols % 32 == 0,
                  "for_each_eight: a row layout, and a multiple of 32 columns");
    for (int row = 0; row < R::rows; ++row) {
        for (int col = 0; col < R::cols; col += 8) {
            eight<T> values;
            for (int i = 0; i < 8; ++i)
                values.data[i] = convert<T>(src.data[row * R::cols + col + i]);
            f(row, col, values);
        }
    }
}

}  // namespace detail

TK_NAMESPACE_END
