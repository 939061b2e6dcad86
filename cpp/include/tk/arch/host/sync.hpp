// Synchronisation on the host: who a warp is, semaphores (mbarrier), named barriers, clusters,
// proxy fences. Every operation takes the line it was called from, for `machine::sabotage`.
#pragma once
#include <source_location>

#include "tk/arch/host/context.hpp"
#include "tk/arch/host/sabotage.hpp"
#include "tk/tile/register_tile.hpp"

TK_NAMESPACE_BEGIN

// As large as an mbarrier; names one of the block's barrier objects once initialised.
struct semaphore {
    uint64_t value;
};

namespace detail {
inline int warp_index() { return machine::self().index; }
}  // namespace detail

// --- The block and its place in the grid ---

// The dynamic shared memory of the block, aligned to 1024 bytes.
inline char* shared_memory() { return machine::self().block->memory; }

namespace machine {

// The barrier behind a semaphore of the calling warp's block, or the one at the same place in
// another block of the cluster.
inline barrier& barrier_of(const semaphore& sem, block_context& target) {
    block_context& own = *self().block;
    if (!own.contains(&sem, sizeof(sem))) fail("a semaphore is not in the block's shared memory");
    const auto* there = reinterpret_cast<const semaphore*>(target.memory + own.offset_of(&sem));
    const uint64_t value = there->value;
    const uint64_t index = value & 0xffffffff;
    if (value >> 32 != block_context::semaphore_mark || index >= block_context::max_semaphores ||
        target.semaphores[index].load(std::memory_order_relaxed) == nullptr) {
        fail("the semaphore at byte " + std::to_string(own.offset_of(&sem)) + " of block " +
             std::to_string(target.index) + " is used before init_semaphores");
    }
    barrier& found = *target.semaphores[index].load(std::memory_order_relaxed);
    if (!found.is_known_to(self().clock)) {
        fail(found.name() + " of block " + std::to_string(target.index) +
             " is used by a warp that nothing tells of its initialisation (cluster::sync)");
    }
    return found;
}
inline barrier& barrier_of(const semaphore& sem) { return barrier_of(sem, *self().block); }

// Other blocks and TMA see an initialised semaphore only after `fence_semaphore_init`.
inline void require_fenced(const barrier& at) {
    if (!at.fenced()) {
        fail(at.name() + " is used from another block or by TMA without fence_semaphore_init");
    }
}

inline void delay() {
    const int most = settings().max_delay_microseconds.load(std::memory_order_relaxed);
    if (most == 0) return;
    static thread_local uint64_t state = reinterpret_cast<uintptr_t>(&state);
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    if (state >> 60 != 0) return;  // one in sixteen
    timespec time{0, long(state >> 32 & 0xffff) % (most * 1000L + 1)};
    nanosleep(&time, nullptr);
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
    machine::warp_context& warp = machine::self();
    machine::barrier& all = *warp.cluster->all_warps;
    ++warp.clock.lane_meetings;
    const uint64_t phases = all.phase() + 1;  // it cannot pass without this arrival
    machine::publish(&warp.cluster->exits);
    machine::require(all, all.arrive(warp.clock));
    machine::wait_for(all, phases);
    machine::observe(&warp.cluster->fences);
}

// One arrival of the calling warp at the same semaphore of every block in `mask`.
inline void arrive(semaphore& sem, uint32_t mask,
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
        machine::require(at, at.arrive(machine::self().clock));
    }
}

}  // namespace cluster

// --- Semaphores (PTX ISA, "mbarrier") ---

// Called by one warp, for up to 32 in a row; visible to the block (and the cluster) after
// `fence_semaphore_init` and `cluster::sync`. The name is for messages.
inline void init_semaphores(semaphore* sems, int count, int arrivals,
                            const char* name = "semaphore",
                            const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("init_semaphores", where)) return;
    machine::warp_context& warp = machine::self();
    machine::block_context& block = *warp.block;
    if (count < 0 || count > 32) {
        machine::fail("init_semaphores: " + std::to_string(count) + " semaphores at once");
    }
    if (!block.contains(sems, int64_t(sizeof(semaphore)) * count)) {
        machine::fail("init_semaphores: " + std::string(name) + " is not in the shared memory");
    }
    if (arrivals < 1 || arrivals >= 1 << 20) {
        machine::fail("init_semaphores: " + std::to_string(arrivals) + " arrivals at " + name);
    }
    for (int i = 0; i < count; ++i) {
        const int number = block.num_semaphores.fetch_add(1, std::memory_order_relaxed);
        if (number >= machine::block_context::max_semaphores) {
            machine::fail("init_semaphores: more than 256 semaphores in a block");
        }
        auto* made = new machine::barrier(warp.cluster->progress, name, i, arrivals,
                                          warp.cluster->agents.fetch_add(1));
        made->set_initialised(warp.clock);
        block.semaphores[size_t(number)].store(made, std::memory_order_relaxed);
        sems[i].value = machine::block_context::semaphore_mark << 32 | uint64_t(number);
        warp.unfenced_semaphores.push_back(made);
    }
}

// Orders the initialisations before arrivals from other blocks and from TMA.
inline void fence_semaphore_init(
    const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("fence_semaphore_init", where)) return;
    for (machine::barrier* each : machine::self().unfenced_semaphores) each->set_fenced();
    machine::self().unfenced_semaphores.clear();
    machine::publish(&machine::self().cluster->fences);
}

inline bool try_wait(semaphore& sem, int phase,
                     const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("try_wait", where)) return true;
    machine::warp_context& warp = machine::self();
    machine::barrier& at = machine::barrier_of(sem);
    if (warp.cluster->progress.failed()) throw machine::launch_aborted{};
    const uint64_t phases = at.phases_for(phase);
    const bool done = at.try_wait(warp.clock, phases);
    if (done) at.observe_phases(phases);
    warp.waits_for_phases.store(phases, std::memory_order_relaxed);
    warp.waits_for.store(done ? nullptr : &at, std::memory_order_relaxed);
    return done;
}

inline void wait(semaphore& sem, int phase,
                 const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("wait", where)) return;
    machine::delay();
    machine::barrier& at = machine::barrier_of(sem);
    machine::wait_for(at, at.phases_for(phase));
}

namespace detail {

template <int Warps>
struct sync_ops {
    static int laneid() { return warpid() * 32; }
    static int groupid() { return warp_index() / Warps; }
    // The index of the calling warp in its group.
    static int warpid() { return warp_index() % Warps; }

    // Barrier of the group's warps; `id` is one of the block's 16 named barriers, 0 left alone. A
    // warp needs none: there it is the lanes that meet.
    static void sync(int id = 0,
                     const std::source_location where = std::source_location::current()) {
        if (machine::sabotage::drops(Warps == 1 ? "warp::sync" : "group::sync", where)) return;
        meet(id);
    }

    // A turn that one group passes to another of its size, over a named barrier: `pass_turn` does
    // not wait, `await_turn` does.
    static void pass_turn(int id,
                          const std::source_location where = std::source_location::current()) {
        if (machine::sabotage::drops("pass_turn", where)) return;
        uint64_t phase = 0;
        arrive_named(id, Warps * 2, turn, phase);
    }
    static void await_turn(int id,
                           const std::source_location where = std::source_location::current()) {
        if (machine::sabotage::drops("await_turn", where)) return;
        uint64_t phase = 0;
        machine::barrier& at = arrive_named(id, Warps * 2, turn, phase);
        machine::wait_for(at, phase + 1);
    }

    // One arrival of every warp of the group.
    static void arrive(semaphore& sem,
                       const std::source_location where = std::source_location::current()) {
        if (machine::sabotage::drops("arrive", where)) return;
        machine::delay();
        ++machine::self().clock.lane_meetings;
        machine::barrier& at = machine::barrier_of(sem);
        at.publish_arrival();
        machine::require(at, at.arrive(machine::self().clock));
    }

    // One arrival of the calling warp, which also makes the phase wait for `bytes` of TMA loads.
    static void expect_bytes(semaphore& sem, int bytes,
                             const std::source_location where = std::source_location::current()) {
        static_assert(Warps == 1, "expect_bytes is an operation of one warp");
        if (machine::sabotage::drops("expect_bytes", where)) return;
        machine::barrier& at = machine::barrier_of(sem);
        machine::require_fenced(at);
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

  private:
    static constexpr int turn = -2;  // two groups meet, on purpose

    static machine::barrier& arrive_named(int id, int warps, int group, uint64_t& phase) {
        machine::delay();
        if (id < 1 || id > 15) {
            machine::fail("named barrier " + std::to_string(id) + " is not one of 1 to 15");
        }
        machine::warp_context& warp = machine::self();
        ++warp.clock.lane_meetings;
        machine::barrier& at = warp.block->named[size_t(id)];
        at.publish_arrival();
        machine::require(at, at.meet(warp.clock, warps, group, phase));
        return at;
    }
    static void meet(int id) {
        if constexpr (Warps == 1) {
            ++machine::self().clock.lane_meetings;
        } else {
            uint64_t phase = 0;
            machine::barrier& at = arrive_named(id, Warps, groupid(), phase);
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

// --- Registers (PTX ISA, "setmaxnreg"): only counted; `block_context::check_registers` ---

template <int Registers>
void increase_registers() {
    static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256,
                  "increase_registers: a multiple of 8 from 24 to 256");
    machine::self().block->registers[size_t(detail::warp_index() / 4)] = Registers;
}
template <int Registers>
void decrease_registers() {
    static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256,
                  "decrease_registers: a multiple of 8 from 24 to 256");
    machine::self().block->registers[size_t(detail::warp_index() / 4)] = Registers;
}

TK_NAMESPACE_END
