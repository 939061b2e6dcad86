// What lanes have together: on the host a warp is one thread and has everything.
#pragma once
#include "tk/tile/register_tile.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// Lanes that share an index across (the 4 of one lane / 4), along (the 8 of one lane % 4), or all.
enum class lanes_of { group, place, warp };

template <lanes_of Lanes, class F>
float combine_lanes(float value, F&&) {
    return value;
}
template <register_vector V, class F>
float combine_vector(float value, F&&) {
    return value;
}
inline bool any_lane(bool value) { return value; }

}  // namespace detail

TK_NAMESPACE_END
