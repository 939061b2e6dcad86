// The scopes of collective operations: a warp, a warpgroup of four, or any number of warps.
#pragma once
#include "tk/tile/complex_ops.hpp"
#include "tk/tile/global_copy.hpp"
#include "tk/tile/layouts.hpp"
#include "tk/tile/masks.hpp"
#include "tk/tile/reductions.hpp"
#include "tk/tile/row_copy.hpp"
#include "tk/tile/shared_ops.hpp"
#include "tk/tile/unit_ops.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/memory.hpp"
#include "tk/arch/sm90/mma.hpp"
#include "tk/arch/sm90/register_copy.hpp"
#include "tk/arch/sm90/tma.hpp"
#else
#include "tk/arch/host/memory.hpp"
#include "tk/arch/host/mma.hpp"
#include "tk/arch/host/register_copy.hpp"
#include "tk/arch/host/tma.hpp"
#endif

TK_NAMESPACE_BEGIN

// Every operation is called by all warps of the group together, with the same arguments.
template <int Warps>
struct group : detail::sync_ops<Warps>,
               detail::map_ops<Warps>,
               detail::reduction_ops<Warps>,
               detail::mask_ops<Warps>,
               detail::layout_ops<Warps>,
               detail::register_copy_ops<Warps>,
               detail::shared_ops<Warps>,
               detail::global_copy_ops<Warps>,
               detail::row_copy_ops<Warps>,
               detail::unit_ops<Warps>,
               detail::complex_ops<Warps>,
               detail::memory_ops<Warps>,
               detail::mma_ops<Warps> {
    // One name, whatever it is applied to.
    using detail::map_ops<Warps>::map, detail::shared_ops<Warps>::map;
    using detail::map_ops<Warps>::map_row, detail::shared_ops<Warps>::map_row;
    using detail::map_ops<Warps>::map_col, detail::shared_ops<Warps>::map_col;
    using detail::map_ops<Warps>::broadcast_row, detail::shared_ops<Warps>::broadcast_row;
    using detail::map_ops<Warps>::broadcast_col, detail::shared_ops<Warps>::broadcast_col;
    using detail::map_ops<Warps>::apply, detail::shared_ops<Warps>::apply;
    using detail::map_ops<Warps>::fill, detail::shared_ops<Warps>::fill;
    using detail::map_ops<Warps>::max, detail::reduction_ops<Warps>::max;
    using detail::map_ops<Warps>::min, detail::reduction_ops<Warps>::min;
    using detail::map_ops<Warps>::zero, detail::complex_ops<Warps>::zero;
    using detail::map_ops<Warps>::add, detail::complex_ops<Warps>::add;
    using detail::map_ops<Warps>::sub, detail::complex_ops<Warps>::sub;
    using detail::map_ops<Warps>::mul, detail::complex_ops<Warps>::mul;
    using detail::layout_ops<Warps>::copy, detail::shared_ops<Warps>::copy,
        detail::complex_ops<Warps>::copy;
    using detail::register_copy_ops<Warps>::load, detail::shared_ops<Warps>::load,
        detail::global_copy_ops<Warps>::load, detail::complex_ops<Warps>::load;
    using detail::register_copy_ops<Warps>::store, detail::shared_ops<Warps>::store,
        detail::global_copy_ops<Warps>::store, detail::complex_ops<Warps>::store;
};

using warp = group<1>;
using warpgroup = group<4>;

TK_NAMESPACE_END
