// Synchronisation on the host: who a warp is, clusters, named barriers, arrivals, proxy fences,
// dependent launches. Every operation takes the line it was called from, for `machine::sabotage`.
#pragma once
#include <utility>

#include "tk/arch/host/semaphore.hpp"
#include "tk/tile/register_tile.hpp"

TK_NAMESPACE_BEGIN

namespace detail {
inline int warp_index() { return machine::self().index; }
inline int own_warp() { return warp_index(); }
}  // namespace detail

// --- The block and its place in the grid ---

// The dynamic shared memory of the block, aligned to 1024 bytes.
inline char* shared_memory() { return machine::self().block->memory; }

namespace machine {

// Both halves of a barrier of the cluster.
inline void arrive_in_cluster() {
    warp_context& warp = self();
    barrier& all = *warp.cluster->all_warps;
    if (warp.cluster_phases != 0) fail("arrives twice at the cluster's barrier without a wait");
    ++warp.clock.lane_meetings;
    warp.cluster_phases = all.phase() + 1;  // it cannot pass without this arrival
    publish(&warp.cluster->exits);
    require(all, all.arrive(warp.clock));
}
inline void wait_in_cluster() {
    warp_context& warp = self();
    if (warp.cluster_phases == 0) fail("cluster::wait_all without cluster::arrive_all");
    wait_for(*warp.cluster->all_warps, std::exchange(warp.cluster_phases, 0));
    observe(&warp.cluster->fences);
}

// Who meets at a named barrier, if not the warps of one group: any of the block's, or two groups
// of which one passes its turn to the other.
constexpr int any_warps = -3, turn = -2;

inline barrier& arrive_named(int id, int warps, int group, uint64_t& phase) {
    delay();
    if (id < 1 || id > 15) {
        fail("named barrier " + std::to_string(id) + " is not one of 1 to 15");
    }
    warp_context& warp = self();
    if (warps < 1 || warps > int(warp.block->warps.size())) {
        fail("named barrier " + std::to_string(id) + " of " + std::to_string(warps) +
             " warps, in a block of " + std::to_string(warp.block->warps.size()));
    }
    ++warp.clock.lane_meetings;
    barrier& at = warp.block->named[size_t(id)];
    at.publish_arrival();
    require(at, at.meet(warp.clock, warps, group, phase));
    return at;
}

}  // namespace machine

namespace cluster {

inline int rank() { return machine::self().block->rank; }
// The cluster's place in the grid, and the number of clusters.
inline int index() { return machine::self().cluster->index; }
inline int count() { return machine::self().cluster->count; }

// Every thread of every block of the cluster. It orders semaphore initialisations that were fenced
// (`fence_semaphore_init`), and nothing else.
inline void sync(const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("cluster::sync", where)) return;
    machine::arrive_in_cluster();
    machine::wait_in_cluster();
}

// The same in two halves, which every thread calls in turn, with work of its own in between. After
// `arrive_all` and `wait_all` a thread sees all that the others wrote before they arrived;
// `arrive_all_relaxed` orders what `sync` orders.
inline void arrive_all(const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("cluster::arrive_all", where)) return;
    machine::self().cluster->all_warps->publish_arrival();
    machine::arrive_in_cluster();
}
inline void arrive_all_relaxed(const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("cluster::arrive_all_relaxed", where)) return;
    machine::arrive_in_cluster();
}
inline void wait_all(const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("cluster::wait_all", where)) return;
    machine::wait_in_cluster();
}

// `count` arrivals of the calling warp at the same semaphore of every block in `mask`. No memory of
// this warp's is released to the other blocks: what it tells them is that its asynchronous reads
// are done.
inline void arrive(semaphore& sem, uint32_t mask, int count,
                   const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("cluster::arrive", where)) return;
    machine::delay();
    auto& blocks = machine::self().cluster->blocks;
    if (mask >> blocks.size() != 0) machine::fail("cluster::arrive: a block is not of the cluster");
    for (machine::block_context& block : blocks) {
        if ((mask >> block.rank & 1u) == 0) continue;
        const bool remote = &block != machine::self().block;
        if (remote && block.running_warps.load(std::memory_order_relaxed) == 0) {
            machine::fail("cluster::arrive: block " + std::to_string(block.index) +
                          " has exited (cluster::sync)");
        }
        machine::barrier& at = machine::barrier_of(sem, block);
        if (remote) {
            machine::require_fenced(at);
            block.accesses.note_remote_arrival(machine::self().clock);
        }
        at.publish_arrival();
        machine::require(at, at.arrive(machine::self().clock, count));
    }
}
// One arrival.
inline void arrive(semaphore& sem, uint32_t mask,
                   const std::source_location where = std::source_location::current()) {
    arrive(sem, mask, 1, where);
}

}  // namespace cluster

// --- Named barriers of any of the block's warps ---

namespace named_barrier {
// Barrier `id` (1 to 15) of any `warps` warps of the block, each of which calls one of these:
// `sync` waits for the others, `arrive` does not.
inline void sync(int id, int warps,
                 const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("named_barrier::sync", where)) return;
    uint64_t phase = 0;
    machine::barrier& at = machine::arrive_named(id, warps, machine::any_warps, phase);
    machine::wait_for(at, phase + 1);
}
inline void arrive(int id, int warps,
                   const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("named_barrier::arrive", where)) return;
    uint64_t phase = 0;
    machine::arrive_named(id, warps, machine::any_warps, phase);
}
}  // namespace named_barrier

namespace detail {

template <int Warps>
struct sync_ops {
    static int laneid() { return warpid() * 32; }
    static int groupid() { return warp_index() / Warps; }
    // The index of the calling warp in its group.
    static int warpid() { return warp_index() % Warps; }

    // Barrier of the group's warps; `id` is one of the block's 16 named barriers, 0 left alone. A
    // warp needs none: there it is the lanes that meet.
    static void sync(const std::source_location where = std::source_location::current())
        requires(Warps == 1)
    {
        sync(0, where);
    }
    static void sync(int id, const std::source_location where = std::source_location::current()) {
        if (machine::sabotage::drops(Warps == 1 ? "warp::sync" : "group::sync", where)) return;
        meet(id);
    }

    // The half of `sync` that does not wait, for the warps of the group that need not: the barrier
    // is complete when each warp of the group has called one of the two.
    static void arrive(int id, const std::source_location where = std::source_location::current()) {
        static_assert(Warps > 1, "arrive(id) is an operation of a group of several warps");
        if (machine::sabotage::drops("group::arrive", where)) return;
        uint64_t phase = 0;
        machine::arrive_named(id, Warps, groupid(), phase);
    }

    // True for one lane of the warp: here for the warp.
    static bool elect() {
        static_assert(Warps == 1, "elect is an operation of one warp");
        return true;
    }

    // A turn that one group passes to another of its size, over a named barrier: `pass_turn` does
    // not wait, `await_turn` does.
    static void pass_turn(int id,
                          const std::source_location where = std::source_location::current()) {
        if (machine::sabotage::drops("pass_turn", where)) return;
        uint64_t phase = 0;
        machine::arrive_named(id, Warps * 2, machine::turn, phase);
    }
    static void await_turn(int id,
                           const std::source_location where = std::source_location::current()) {
        if (machine::sabotage::drops("await_turn", where)) return;
        uint64_t phase = 0;
        machine::barrier& at = machine::arrive_named(id, Warps * 2, machine::turn, phase);
        machine::wait_for(at, phase + 1);
    }

    // One arrival of every warp of the group, or `count` of each.
    static void arrive(semaphore& sem,
                       const std::source_location where = std::source_location::current()) {
        arrive(sem, 1, where);
    }
    static void arrive(semaphore& sem, int count,
                       const std::source_location where = std::source_location::current()) {
        if (machine::sabotage::drops("arrive", where)) return;
        machine::delay();
        ++machine::self().clock.lane_meetings;
        machine::barrier& at = machine::barrier_of(sem);
        at.publish_arrival();
        machine::require(at, at.arrive(machine::self().clock, count));
    }

    // Makes the phase wait for `bytes` more of TMA loads, without an arrival.
    static void add_expected_bytes(
        semaphore& sem, int bytes,
        const std::source_location where = std::source_location::current()) {
        static_assert(Warps == 1, "add_expected_bytes is an operation of one warp");
        if (machine::sabotage::drops("add_expected_bytes", where)) return;
        machine::barrier& at = machine::barrier_of(sem);
        machine::require_fenced(at);
        machine::require_bytes(at, bytes);
        machine::require(at, at.expect(bytes));
    }

    // One arrival of the calling warp, which also makes the phase wait for `bytes` of TMA loads.
    static void expect_bytes(semaphore& sem, int bytes,
                             const std::source_location where = std::source_location::current()) {
        static_assert(Warps == 1, "expect_bytes is an operation of one warp");
        if (machine::sabotage::drops("expect_bytes", where)) return;
        machine::barrier& at = machine::barrier_of(sem);
        machine::require_fenced(at);
        machine::require_bytes(at, bytes);
        at.publish_arrival();
        machine::require(at, at.arrive_and_expect(machine::self().clock, bytes));
    }

    // Whether the group is the last of `count` groups, over the grid, to come to this counter. All
    // that the others wrote to global memory before is then visible. The counter ends at 0 again.
    // `vote` is a word of shared memory of this group's own.
    static bool arrive_last(int* counter, int count, int* vote, int barrier_id,
                            const std::source_location where = std::source_location::current()) {
        if (machine::sabotage::drops("arrive_last", where)) return false;
        meet(barrier_id);
        if (warpid() == 0) {
            const int before = std::atomic_ref<int>(*counter).fetch_add(1);
            *vote = before == count - 1;
            if (*vote != 0) std::atomic_ref<int>(*counter).store(0);
        }
        meet(barrier_id);
        return *vote != 0;
    }

    // The next of 0, 1, ..., count - 1 over the grid, for lane 0; `broadcast` gives it to all. The
    // counter ends at 0 again once all are drawn.
    static int draw(int* counter, int count) {
        static_assert(Warps == 1, "draw is an operation of one warp");
        const std::atomic_ref<int> next(*counter);
        int drawn = next.load(std::memory_order_relaxed);
        while (!next.compare_exchange_weak(drawn, drawn == count - 1 ? 0 : drawn + 1,
                                           std::memory_order_relaxed)) {
        }
        return drawn;
    }
    static int broadcast(int value) {
        static_assert(Warps == 1, "broadcast is an operation of one warp");
        return value;
    }

    // Of `count` parts that follow one another, part i of size_of(i) places, 0 or more: the one
    // that `place` lies in, and the places before it; `count` and all places if it lies beyond.
    template <class F>
    static located locate(int count, F&& size_of, int place) {
        static_assert(Warps == 1, "locate is an operation of one warp");
        int before = 0;
        for (int i = 0; i < count; ++i) {
            const int size = size_of(i);
            if (place < before + size) return {i, before};
            before += size;
        }
        return {count, before};
    }

  private:
    static void meet(int id) {
        if constexpr (Warps == 1) {
            ++machine::self().clock.lane_meetings;
        } else {
            uint64_t phase = 0;
            machine::barrier& at = machine::arrive_named(id, Warps, groupid(), phase);
            machine::wait_for(at, phase + 1);
        }
    }
};

}  // namespace detail

// --- Proxy fence (PTX ISA, "fence.proxy.async") ---

// Between ordinary stores to shared memory and an asynchronous read of them (TMA store, WGMMA):
// by every writing thread, before the barrier that tells the reader.
inline void fence_async_proxy(const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("fence_async_proxy", where)) return;
    machine::warp_context& warp = machine::self();
    warp.block->accesses.fence(warp.clock);
}

// --- Programmatic dependent launch (PTX ISA, "griddepcontrol"; `launch_config::programmatic`) ---

// The kernel after this one in the stream may start, once every block has said so or exited. Here
// it starts after this one whatever is said.
inline void launch_dependents() { machine::self(); }
// Until the kernel before this one has ended, and what it wrote is visible. By every thread that
// needs that, or that tells others. Here it has ended already: a read that comes too early is not
// seen, but a block of a programmatic launch that never waits is.
inline void wait_dependency(const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("wait_dependency", where)) return;
    machine::self().block->waited_for_dependency.store(true, std::memory_order_relaxed);
}

// --- Registers (PTX ISA, "setmaxnreg"): only counted; `block_context::check_registers` ---

namespace machine {
inline void ask_registers(int count) {
    warp_context& warp = self();
    warp.block->registers[size_t(warp.index / 4)] = count;
    warp.registers_asked = warp.registers_asked * 1024 + uint64_t(count);
}
}  // namespace machine

template <int Registers>
void increase_registers() {
    static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256,
                  "increase_registers: a multiple of 8 from 24 to 256");
    machine::ask_registers(Registers);
}
template <int Registers>
void decrease_registers() {
    static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256,
                  "decrease_registers: a multiple of 8 from 24 to 256");
    machine::ask_registers(Registers);
}

TK_NAMESPACE_END
