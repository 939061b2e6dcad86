// Tensor memory accelerator on sm90: loads that complete on a semaphore, multicast over a cluster,
// prefetches, and stores and reductions in bulk groups (PTX ISA, "cp.async.bulk.tensor").
//
// The column of a copy is a multiple of 16 bytes, of whatever swizzle, and a store starts at no
// negative coordinate: measured on an H200, anything else is an illegal instruction. The host
// architecture refuses it.
#pragma once
#include "tk/arch/sm90/tma_instructions.hpp"
#include "tk/tile/gl.hpp"
#include "tk/tile/tma_checks.hpp"

TK_NAMESPACE_BEGIN

namespace tma {

namespace detail {

using tk::sm90::detail::lane;

TK_DEVICE uint64_t cache_policy(eviction keep) { return uint64_t(uint32_t(keep)) << 32; }

// The coordinates of a box, for `f`.
template <class S, class G, class F>
TK_DEVICE void at_coords(const G& tensor, coord at, int col, int row, int panel, F&& f) {
    at.col += col, at.row += row;
    tensor.template visit_coords<S>(at, panel, f);
}

template <bool Multicast, class S, class G>
TK_DEVICE void load_part(S& dst, const G& src, const coord& at, semaphore& bar,
                         const multicast& share, eviction keep) {
    const tma_descriptor& map = src.template descriptor<S>();
    const uint64_t policy = cache_policy(keep);
    tma_for_boxes<Multicast, G>(dst, share, [&](auto* to, int col, int row, int panel) {
        at_coords<S>(src, at, col, row, panel, [&](auto... c) {
            if constexpr (Multicast) {
                cute::SM90_TMA_LOAD_MULTICAST::copy(&map, &bar.value, share.mask, policy, to, c...);
            } else {
                cute::SM90_TMA_LOAD::copy(&map, &bar.value, policy, to, c...);
            }
        });
    });
}

// The boxes of a store by Instruction, as a bulk group.
template <class Instruction, class S, class G>
TK_DEVICE void store_boxes(const G& dst, const S& src, const coord& at) {
    if (lane() != 0) return;
    const tma_descriptor& map = dst.template descriptor<S>();
    const auto store = [&](const auto* from, int col, int row, int panel) {
        at_coords<S>(dst, at, col, row, panel,
                     [&](auto... c) { Instruction::copy(&map, from, c...); });
    };
    if constexpr (shared_tile<S> && !G::template copies_in_one_box<S>) {
        TK_UNROLL
        for (int panel = 0; panel < S::panels; ++panel) {
            store(src.panel_address(panel, 0), panel * S::panel_cols, 0, 0);
        }
    } else {
        tma_for_boxes<false, G>(src, multicast{}, store);
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

}  // namespace detail

// The descriptors of these tensors, into the cache they are read from. By one warp.
template <global_tensor... Tensors>
TK_DEVICE void prefetch_descriptors(const Tensors&... tensors) {
    const auto prefetch = [](const tma_descriptor& map) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
    };
    (tensors.for_each_descriptor(prefetch), ...);
}

// Loads the tile or vector at `at`; elements outside the tensor become 0. Completes S::bytes on
// `bar`. By one warp. The second-level cache is asked to keep it as the tensor says, or `keep`.
template <class S, global_tensor G>
TK_DEVICE void load_async(S&& dst, const G& src, coord at, semaphore& bar, eviction keep) {
    if (detail::lane() == 0) detail::load_part<false>(dst, src, at, bar, multicast{}, keep);
}
template <class S, global_tensor G>
TK_DEVICE void load_async(S&& dst, const G& src, coord at, semaphore& bar) {
    load_async(dst, src, at, bar, src.keep);
}

// Brings what a load of S at `at` will read into the second-level cache. By one warp.
template <shared_object S, global_tensor G>
TK_DEVICE void prefetch(const G& src, coord at) {
    if (detail::lane() != 0) return;
    const tma_descriptor& map = src.template descriptor<S>();
    const int boxes = tma_num_boxes<S, G>();
    TK_NO_UNROLL
    for (int i = 0; i < boxes; ++i) {
        detail::at_coords<S>(src, at, i * tma_box<S>::cols, 0, 0,
                             [&](auto... c) { cute::SM90_TMA_LOAD::PREFETCH::copy(&map, c...); });
    }
}

namespace cluster {

// The same as load_async, each block of the cluster loading one part for all in the mask; every
// block in the mask gets S::bytes on its own `bar`.
template <class S, global_tensor G>
TK_DEVICE void load_async(S&& dst, const G& src, coord at, semaphore& bar, const multicast& share,
                          eviction keep) {
    if (detail::lane() == 0) {
        if (share.parts == 1) {
            detail::load_part<false>(dst, src, at, bar, multicast{}, keep);
        } else {
            detail::load_part<true>(dst, src, at, bar, share, keep);
        }
    }
}
template <class S, global_tensor G>
TK_DEVICE void load_async(S&& dst, const G& src, coord at, semaphore& bar, const multicast& share) {
    load_async(dst, src, at, bar, share, src.keep);
}

// Copies a tile or vector of this block to `dst` of block `rank` of the cluster (which is given as
// this block's own `dst`, at the same place), completing S::bytes on `bar` there. By one warp.
// Once that phase is complete there, `src` has been read. A block must not exit before.
template <class D, shared_object S>
TK_DEVICE void store_async(D&& dst, const S& src, int rank, semaphore& bar) {
    if (detail::lane() != 0) return;
    tma_for_stretches(dst, src, [&](auto* to, const auto* from, int bytes) {
        tk::sm90::detail::copy_to_block(to, from, bytes, rank, bar);
    });
}

}  // namespace cluster

// Stores a tile or vector, clipped to the tensor, as a bulk group of its own. The tensor has a
// multiple of 16 bytes of columns: TMA writes whole units, and would write beside it. By one warp,
// and always the same one: the waits below count the groups of the calling warp.
template <shared_object S, global_tensor G>
TK_DEVICE void store_async(const G& dst, const S& src, coord at) {
    detail::store_boxes<cute::SM90_TMA_STORE>(dst, src, at);
}

// The same, but what is in the tensor becomes its sum, minimum or maximum with the tile's elements,
// each element in one step: stores of other warps and blocks may meet. Sums round to nearest even.
template <shared_object S, global_tensor G>
TK_DEVICE void store_add_async(const G& dst, const S& src, coord at) {
    check_tma_reduction<S, tma_reduction::add>();
    detail::store_boxes<cute::SM90_TMA_REDUCE_ADD>(dst, src, at);
}
template <shared_object S, global_tensor G>
TK_DEVICE void store_min_async(const G& dst, const S& src, coord at) {
    check_tma_reduction<S, tma_reduction::min>();
    detail::store_boxes<tk::sm90::detail::tma_reduce_min>(dst, src, at);
}
template <shared_object S, global_tensor G>
TK_DEVICE void store_max_async(const G& dst, const S& src, coord at) {
    check_tma_reduction<S, tma_reduction::max>();
    detail::store_boxes<tk::sm90::detail::tma_reduce_max>(dst, src, at);
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
