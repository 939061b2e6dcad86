// What the lanes of a warp have together: reductions by shuffles, and elements that move between
// lanes.
#pragma once
#include "tk/tile/register_tile.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// Lanes that share an index across (the 4 of one lane / 4), along (the 8 of one lane % 4), or all.
enum class lanes_of { group, place, warp };

// f over the lanes' values; every lane gets it.
template <lanes_of Lanes, class F>
TK_DEVICE float combine_lanes(float value, F&& f) {
    constexpr int first = Lanes == lanes_of::place ? 4 : 1;
    constexpr int last = Lanes == lanes_of::group ? 2 : 16;
    TK_UNROLL
    for (int mask = last; mask >= first; mask /= 2) {
        value = f(value, __shfl_xor_sync(0xffffffff, value, mask));
    }
    return value;
}

// f over what the lanes have of a vector, each element once.
template <register_vector V, class F>
TK_DEVICE float combine_vector(float value, F&& f) {
    if constexpr (V::layout == vector_layout::aligned || V::layout == vector_layout::aligned_4) {
        return combine_lanes<lanes_of::group>(value, f);
    } else if constexpr (V::layout == vector_layout::orthogonal) {
        return combine_lanes<lanes_of::place>(value, f);
    } else if constexpr (V::length >= 32) {
        return combine_lanes<lanes_of::warp>(value, f);
    } else {  // lanes from Length on have nothing
        float result = __shfl_sync(0xffffffff, value, 0);
        TK_UNROLL
        for (int lane = 1; lane < V::length; ++lane) {
            result = f(result, __shfl_sync(0xffffffff, value, lane));
        }
        return result;
    }
}

TK_DEVICE bool any_lane(bool value) { return __any_sync(0xffffffff, value); }

}  // namespace detail

TK_NAMESPACE_END
