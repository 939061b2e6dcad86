// Semaphores on the host (PTX ISA, "mbarrier"): the barrier objects behind them, their
// initialisation, and waits.
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

namespace machine {

// The barrier of a semaphore that was initialised in that block, or nullptr.
inline barrier* initialised(const semaphore& sem, const block_context& block) {
    const uint64_t index = sem.value & 0xffffffff;
    if (sem.value >> 32 != block_context::semaphore_mark ||
        index >= block_context::max_semaphores) {
        return nullptr;
    }
    return block.semaphores[index].load(std::memory_order_relaxed);
}

// The barrier behind a semaphore of the calling warp's block, or the one at the same place in
// another block of the cluster.
inline barrier& barrier_of(const semaphore& sem, block_context& target) {
    block_context& own = *self().block;
    if (!own.contains(&sem, sizeof(sem))) fail("a semaphore is not in the block's shared memory");
    const auto* there = reinterpret_cast<const semaphore*>(target.memory + own.offset_of(&sem));
    barrier* const at = initialised(*there, target);
    if (at == nullptr) {
        fail("the semaphore at byte " + std::to_string(own.offset_of(&sem)) + " of block " +
             std::to_string(target.index) + " is used before init_semaphores");
    }
    barrier& found = *at;
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

inline void require_bytes(const barrier& at, int bytes) {
    if (bytes < 0)
        fail("at " + at.name() + ": it is to expect " + std::to_string(bytes) + " bytes");
}

// A phase is named by its parity (PTX ISA, "mbarrier.test_wait": phaseParity is 0 or 1).
inline void require_parity(const barrier& at, int phase) {
    if (phase != 0 && phase != 1) {
        fail("waits for phase " + std::to_string(phase) + " of " + at.name() +
             ", which must be 0 or 1: the parity of the phases so far");
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

// Whether a phase is complete, as `is_done` of its barrier says.
inline bool ask(semaphore& sem, int phase, bool (barrier::*is_done)(agent_clock&, uint64_t)) {
    warp_context& warp = self();
    barrier& at = barrier_of(sem);
    require_parity(at, phase);
    if (warp.cluster->progress.failed()) throw launch_aborted{};
    const uint64_t phases = at.phases_for(phase);
    const bool done = (at.*is_done)(warp.clock, phases);
    if (done) at.observe_phases(phases);
    warp.waits_for_phases.store(phases, std::memory_order_relaxed);
    warp.waits_for.store(done ? nullptr : &at, std::memory_order_relaxed);
    return done;
}

inline void init_numbered(semaphore* sems, int count, int arrivals, const char* name, int first) {
    warp_context& warp = self();
    block_context& block = *warp.block;
    if (!block.contains(sems, int64_t(sizeof(semaphore)) * count)) {
        fail("init_semaphores: " + std::string(name) + " is not in the shared memory");
    }
    if (arrivals < 1 || arrivals >= 1 << 20) {
        fail("init_semaphores: " + std::to_string(arrivals) + " arrivals at " + name);
    }
    for (int i = 0; i < count; ++i) {
        if (const barrier* live = initialised(sems[i], block)) {
            fail("init_semaphores: " + live->name() +
                 " is initialised already (invalidate_semaphore)");
        }
        const int number = block.num_semaphores.fetch_add(1, std::memory_order_relaxed);
        if (number >= block_context::max_semaphores) {
            fail("init_semaphores: more than 256 semaphores in a block");
        }
        auto* made = new barrier(warp.cluster->progress, name, first + i, arrivals,
                                 warp.cluster->agents.fetch_add(1));
        made->set_initialised(warp.clock);
        block.semaphores[size_t(number)].store(made, std::memory_order_relaxed);
        sems[i].value = block_context::semaphore_mark << 32 | uint64_t(number);
        warp.unfenced_semaphores.push_back(made);
    }
}
}  // namespace machine

// Called by one warp, for up to 32 in a row; visible to the block (and the cluster) after
// `fence_semaphore_init` and `cluster::sync`. The name is for messages.
inline void init_semaphores(semaphore* sems, int count, int arrivals,
                            const char* name = "semaphore",
                            const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("init_semaphores", where)) return;
    if (count < 0 || count > 32) {
        machine::fail("init_semaphores: " + std::to_string(count) + " semaphores at once");
    }
    machine::init_numbered(sems, count, arrivals, name, 0);
}
// Number `index` of several: warps that each prepare one are done sooner than one for all.
inline void init_semaphore_at(semaphore* sems, int index, int arrivals,
                              const char* name = "semaphore",
                              const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("init_semaphore_at", where)) return;
    machine::init_numbered(sems + index, 1, arrivals, name, index);
}

// One of them.
inline void init_semaphore(semaphore& sem, int arrivals, const char* name = "semaphore",
                           const std::source_location where = std::source_location::current()) {
    init_semaphores(&sem, 1, arrivals, name, where);
}

// Makes the memory of a semaphore free for other uses. By one warp, when nobody waits for it and
// nothing will arrive at it any more.
inline void invalidate_semaphore(semaphore& sem) {
    machine::barrier& at = machine::barrier_of(sem);
    if (at.is_in_use()) {
        machine::fail("invalidate_semaphore: " + at.name() + " is in use (" + at.describe() + ")");
    }
    std::erase(machine::self().unfenced_semaphores, &at);
    machine::poison(&sem, sizeof(sem));
}

// Orders the initialisations before arrivals from other blocks and from TMA.
inline void fence_semaphore_init(
    const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("fence_semaphore_init", where)) return;
    for (machine::barrier* each : machine::self().unfenced_semaphores) each->set_fenced();
    machine::self().unfenced_semaphores.clear();
    machine::publish(&machine::self().cluster->fences);
}

// Whether the phase is complete: at once, or after a while in which the hardware lets the thread
// sleep.
inline bool test_wait(semaphore& sem, int phase,
                      const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("test_wait", where)) return true;
    return machine::ask(sem, phase, &machine::barrier::test);
}
inline bool try_wait(semaphore& sem, int phase,
                     const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("try_wait", where)) return true;
    return machine::ask(sem, phase, &machine::barrier::try_wait);
}

inline void wait(semaphore& sem, int phase,
                 const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("wait", where)) return;
    machine::delay();
    machine::barrier& at = machine::barrier_of(sem);
    machine::require_parity(at, phase);
    machine::wait_for(at, at.phases_for(phase));
}

TK_NAMESPACE_END
