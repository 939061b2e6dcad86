// Two neighbouring elements of a register tile, rounded, and back.
#pragma once
#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <element T>
void store_pair(T* to, float first, float second) {
    to[0] = convert<T>(first), to[1] = convert<T>(second);
}

template <element T>
void load_pair(float& first, float& second, const T* from) {
    first = convert<float>(from[0]), second = convert<float>(from[1]);
}

}  // namespace detail

TK_NAMESPACE_END
