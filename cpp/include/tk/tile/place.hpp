// Where a warp's rows lie in the tile of its group.
#pragma once
#include "tk/tile/register_tile.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/sync.hpp"
#else
#include "tk/arch/host/sync.hpp"
#endif

TK_NAMESPACE_BEGIN

// The scopes of collective operations (group.hpp).
template <int Warps>
struct group;

namespace detail {

// The row of the group's tile that is row `row` of the calling warp's part: 16-row block i of warp
// w is block Warps i + w, as WGMMA deals them out. Lanes may ask for themselves: `own_warp` is no
// operation of the warp, as `warp_index` is.
template <int Warps>
TK_DEVICE int group_row(int row) {
    if constexpr (Warps == 1) {
        return row;
    } else {
        return dealt_rows<Warps>(row) + own_warp() % Warps * 16;
    }
}

}  // namespace detail

TK_NAMESPACE_END
