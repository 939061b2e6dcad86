// The scopes of collective operations: a warp, a warpgroup of four, or any number of warps.
#pragma once
#include "tk/tile/maps.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/memory.hpp"
#include "tk/arch/sm90/mma.hpp"
#include "tk/arch/sm90/tma.hpp"
#else
#include "tk/arch/host/memory.hpp"
#include "tk/arch/host/mma.hpp"
#include "tk/arch/host/tma.hpp"
#endif

TK_NAMESPACE_BEGIN

// Every operation is called by all warps of the group together, with the same arguments.
template <int Warps>
struct group : detail::sync_ops<Warps>,
               detail::map_ops<Warps>,
               detail::memory_ops<Warps>,
               detail::mma_ops<Warps> {};

using warp = group<1>;
using warpgroup = group<4>;

TK_NAMESPACE_END
