// Changes of a register tile's layout: on the host every layout is the same array.
#pragma once
#include "tk/tile/register_tile.hpp"

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

}  // namespace detail

TK_NAMESPACE_END
