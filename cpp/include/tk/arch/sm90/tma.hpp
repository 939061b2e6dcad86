// Tensor memory accelerator on sm90: descriptors, loads that complete on a semaphore, multicast
// over a cluster, and stores in bulk groups (PTX ISA, "cp.async.bulk.tensor").
#pragma once
#include <cuda.h>

#include "tk/arch/sm90/sync.hpp"
#include "tk/tile/gl.hpp"

TK_NAMESPACE_BEGIN

using tma_descriptor = CUtensorMap;

// A global tensor that is copied in tiles of type S.
template <class T, shared_tile S>
using gl = gl_tma<T, S, tma_descriptor>;

namespace tma {

namespace detail {

// The policies that `createpolicy.fractional` gives for a whole tensor, as CUTLASS has them
// (cute/arch/copy_sm90_desc.hpp, TMA::CacheHintSm90).
TK_DEVICE uint64_t cache_policy(eviction keep) {
    return keep == eviction::first ? 0x12F0000000000000ull : 0x1000000000000000ull;
}

template <bool Multicast>
TK_DEVICE void load_box(void* destination, const tma_descriptor& descriptor, int col, int row,
                        int batch, semaphore& bar, uint16_t mask, uint64_t policy) {
    const uint32_t to = tk::sm90::detail::shared_address(destination);
    const uint32_t barrier = tk::sm90::detail::shared_address(&bar);
    if constexpr (Multicast) {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
            ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(to),
            "l"(&descriptor), "r"(barrier), "r"(col), "r"(row), "r"(batch), "h"(mask), "l"(policy)
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
            ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
            "l"(&descriptor), "r"(barrier), "r"(col), "r"(row), "r"(batch), "l"(policy)
            : "memory");
    }
}

// The boxes of this block's part of a tile; the number of parts is a power of two.
template <bool Multicast, class T, shared_tile S>
TK_DEVICE void load_part(S& dst, const gl<T, S>& src, coord at, semaphore& bar,
                         const multicast& share) {
    const int batch = src.batch_coord(at.batch);
    const uint64_t policy = cache_policy(src.keep);
    const int log_parts = Multicast ? 31 - __clz(share.parts) : 0;
    if constexpr (S::panels == 1) {
        const int first = Multicast ? share.part * (S::rows >> log_parts) : 0;
        load_box<Multicast>(dst.data + first * S::panel_cols, src.descriptor, at.col,
                            at.row + first, batch, bar, share.mask, policy);
    } else {
        const bool by_panel = ((S::panels >> log_parts) << log_parts) == S::panels;
        const int panels = by_panel ? S::panels >> log_parts : S::panels;
        const int panel_0 = by_panel ? share.part * panels : 0;
        const int row_0 = by_panel ? 0 : share.part * (S::rows >> log_parts);
        TK_NO_UNROLL
        for (int panel = panel_0; panel < panel_0 + panels; ++panel) {
            load_box<Multicast>(dst.data + (panel * S::rows + row_0) * S::panel_cols,
                                src.descriptor, at.col + panel * S::panel_cols, at.row + row_0,
                                batch, bar, share.mask, policy);
        }
    }
}

}  // namespace detail

template <class... Tensors>
TK_DEVICE void prefetch_descriptors(const Tensors&... tensors) {
    const auto prefetch = [](const tma_descriptor& descriptor) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&descriptor) : "memory");
    };
    (prefetch(tensors.descriptor), ...);
}

// Loads the tile at `at`; elements outside the tensor become 0. Completes S::bytes on `bar`. By
// one warp.
template <class T, shared_tile S>
TK_DEVICE void load_async(S& dst, const gl<T, S>& src, coord at, semaphore& bar) {
    if (tk::sm90::detail::lane() == 0) detail::load_part<false>(dst, src, at, bar, multicast{});
}

namespace cluster {
// The same, each block of the cluster loading one part for all in the mask; every block in the
// mask gets S::bytes on its own `bar`.
template <class T, shared_tile S>
TK_DEVICE void load_async(S& dst, const gl<T, S>& src, coord at, semaphore& bar,
                          const multicast& share) {
    if (tk::sm90::detail::lane() == 0) {
        if (share.parts == 1) {
            detail::load_part<false>(dst, src, at, bar, multicast{});
        } else {
            detail::load_part<true>(dst, src, at, bar, share);
        }
    }
}
}  // namespace cluster

// Stores a tile, clipped to the tensor, as a bulk group of its own. By one warp, and always the
// same one: the waits below count the groups of the calling warp.
template <class T, shared_tile S>
TK_DEVICE void store_async(const gl<T, S>& dst, const S& src, coord at) {
    if (tk::sm90::detail::lane() == 0) {
        TK_UNROLL
        for (int panel = 0; panel < S::panels; ++panel) {
            asm volatile(
                "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::
                    "l"(&dst.descriptor),
                "r"(tk::sm90::detail::shared_address(src.data + panel * S::rows * S::panel_cols)),
                "r"(at.col + panel * S::panel_cols), "r"(at.row), "r"(dst.batch_coord(at.batch))
                : "memory");
        }
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
}

// Until at most `InFlight` of this warp's stores have still to read their tile.
template <int InFlight = 0>
TK_DEVICE void store_async_read_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(InFlight) : "memory");
    __syncwarp();
}

// Until at most `InFlight` of this warp's stores are incomplete.
template <int InFlight = 0>
TK_DEVICE void store_async_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(InFlight) : "memory");
    __syncwarp();
}

}  // namespace tma

TK_NAMESPACE_END
