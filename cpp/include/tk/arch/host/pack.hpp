// Two neighbouring elements of a register tile, rounded.
#pragma once
#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <element T>
void store_pair(T* to, float first, float second) {
    to[0] = convert<T>(first), to[1] = convert<T>(second);
}

}  // namespace detail

TK_NAMESPACE_END
