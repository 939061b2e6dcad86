// Tensor memory accelerator on the host: loads that another thread carries out later and that
// complete on a semaphore, multicast over a cluster, and stores and reductions that read their tile
// as late as they may (PTX ISA, "cp.async.bulk.tensor").
#pragma once
#include "tk/arch/host/tma_machine.hpp"
#include "tk/tile/tma_checks.hpp"

TK_NAMESPACE_BEGIN

namespace tma {

// The descriptors of these tensors, into the cache they are read from. By one warp.
template <global_tensor... Tensors>
void prefetch_descriptors(const Tensors&...) {}

// Loads the tile or vector at `at`; elements outside the tensor become 0. Completes S::bytes on
// `bar`. By one warp. The second-level cache is asked to keep it as the tensor says, or `keep`.
template <class S, global_tensor G>
void load_async(S&& dst, const G& src, coord at, semaphore& bar, eviction) {
    machine::load_part(dst, src, at, bar, multicast{});
}
template <class S, global_tensor G>
void load_async(S&& dst, const G& src, coord at, semaphore& bar) {
    machine::load_part(dst, src, at, bar, multicast{});
}

// Brings what a load of S at `at` will read into the second-level cache. By one warp.
template <shared_object S, global_tensor G>
void prefetch(const G& src, coord at) {
    machine::require_copy<S>(src, at, multicast{});
}

namespace cluster {

// The same as load_async, each block of the cluster loading one part for all in the mask; every
// block in the mask gets S::bytes on its own `bar`.
template <class S, global_tensor G>
void load_async(S&& dst, const G& src, coord at, semaphore& bar, const multicast& share, eviction) {
    machine::load_part(dst, src, at, bar, share);
}
template <class S, global_tensor G>
void load_async(S&& dst, const G& src, coord at, semaphore& bar, const multicast& share) {
    machine::load_part(dst, src, at, bar, share);
}

// Copies a tile or vector of this block to `dst` of block `rank` of the cluster (which is given as
// this block's own `dst`, at the same place), completing S::bytes on `bar` there. By one warp.
// Once that phase is complete there, `src` has been read. A block must not exit before.
template <class D, shared_object S>
void store_async(D&& dst, const S& src, int rank, semaphore& bar) {
    tma_for_stretches(dst, src, [&](auto* to, const auto* from, int bytes) {
        machine::issue_cluster_copy(to, from, bytes, rank, bar, &machine::object_name<S>);
    });
}

}  // namespace cluster

// Stores a tile or vector, clipped to the tensor, as a bulk group of its own. The tensor has a
// multiple of 16 bytes of columns: TMA writes whole units, and would write beside it. By one warp,
// and always the same one: the waits below count the groups of the calling warp.
template <shared_object S, global_tensor G>
void store_async(const G& dst, const S& src, coord at) {
    machine::issue_store(dst, src, at, "store_async", nullptr);
}

// The same, but what is in the tensor becomes its sum, minimum or maximum with the tile's elements,
// each element in one step: stores of other warps and blocks may meet. Sums round to nearest even.
template <shared_object S, global_tensor G>
void store_add_async(const G& dst, const S& src, coord at) {
    check_tma_reduction<S, tma_reduction::add>();
    machine::issue_store(dst, src, at, "store_add_async",
                         &machine::combine<tma_reduction::add, typename S::dtype>);
}
template <shared_object S, global_tensor G>
void store_min_async(const G& dst, const S& src, coord at) {
    check_tma_reduction<S, tma_reduction::min>();
    machine::issue_store(dst, src, at, "store_min_async",
                         &machine::combine<tma_reduction::min, typename S::dtype>);
}
template <shared_object S, global_tensor G>
void store_max_async(const G& dst, const S& src, coord at) {
    check_tma_reduction<S, tma_reduction::max>();
    machine::issue_store(dst, src, at, "store_max_async",
                         &machine::combine<tma_reduction::max, typename S::dtype>);
}

// Until at most `InFlight` of this warp's stores have still to read their tile.
template <int InFlight = 0>
void store_async_read_wait(const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("store_async_read_wait", where)) return;
    constexpr size_t most_unwritten = 8;  // what was read is held back, but not without end
    machine::advance_stores(InFlight, InFlight + most_unwritten);
    ++machine::self().clock.lane_meetings;
}

// Until at most `InFlight` of this warp's stores are incomplete.
template <int InFlight = 0>
void store_async_wait(const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("store_async_wait", where)) return;
    machine::advance_stores(InFlight, InFlight);
    ++machine::self().clock.lane_meetings;
}

}  // namespace tma

TK_NAMESPACE_END
