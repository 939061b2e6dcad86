// Synchronisation on sm90: who a thread is, semaphores (mbarrier), named barriers, clusters, proxy
// fences and register reallocation.
#pragma once
#include <cute/arch/cluster_sm90.hpp>

#include "tk/tile/register_tile.hpp"

TK_NAMESPACE_BEGIN

struct semaphore {
    uint64_t value;
};

namespace detail {
TK_DEVICE uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
TK_DEVICE int warp_index() {
    return __shfl_sync(0xffffffff, int(threadIdx.x) >> 5, 0);  // uniform, and known to be
}
TK_DEVICE int own_warp() { return int(threadIdx.x) >> 5; }
}  // namespace detail

// --- The block and its place in the grid ---

// The dynamic shared memory of the block, aligned to 1024 bytes.
TK_DEVICE char* shared_memory() {
    extern __shared__ __align__(1024) char tk_dynamic_shared[];
    return tk_dynamic_shared;
}
namespace cluster {
// The cluster's place in the grid, and the number of clusters.
TK_DEVICE int index() {
    int result;
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(result));
    return result;
}
TK_DEVICE int count() {
    int result;
    asm("mov.u32 %0, %%nclusterid.x;" : "=r"(result));
    return result;
}
TK_DEVICE int rank() { return int(cute::block_rank_in_cluster()); }
// Every thread of every block of the cluster. It orders semaphore initialisations that were fenced
// (`fence_semaphore_init`), and nothing else: no fence through L2.
TK_DEVICE void sync() {
    cute::cluster_arrive_relaxed();
    cute::cluster_wait();
}

// The same in two halves, which every thread calls in turn, with work of its own in between. After
// `arrive_all` and `wait_all` a thread sees all that the others wrote before they arrived;
// `arrive_all_relaxed` orders what `sync` orders.
TK_DEVICE void arrive_all() { cute::cluster_arrive(); }
TK_DEVICE void arrive_all_relaxed() { cute::cluster_arrive_relaxed(); }
TK_DEVICE void wait_all() { cute::cluster_wait(); }

// One arrival of the calling warp at the same semaphore of every block in `mask`. No memory of this
// warp's is released to the other blocks: what it tells them is that its asynchronous reads are
// done. (Release at cluster scope would cost a fence through L2 each time.)
TK_DEVICE void arrive(semaphore& sem, uint32_t mask) {
    const uint32_t lane = uint32_t(detail::lane());
    if ((mask >> lane) & 1u) {
        asm volatile(
            "{\n"
            ".reg .b32 remote;\n"
            "mapa.shared::cluster.u32 remote, %0, %1;\n"
            "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
            "}\n" ::"r"(detail::shared_address(&sem)),
            "r"(lane)
            : "memory");
    }
}
// `count` arrivals at once.
TK_DEVICE void arrive(semaphore& sem, uint32_t mask, int count) {
    const uint32_t lane = uint32_t(detail::lane());
    if ((mask >> lane) & 1u) {
        asm volatile(
            "{\n"
            ".reg .b32 remote;\n"
            "mapa.shared::cluster.u32 remote, %0, %1;\n"
            "mbarrier.arrive.shared::cluster.b64 _, [remote], %2;\n"
            "}\n" ::"r"(detail::shared_address(&sem)),
            "r"(lane), "r"(count)
            : "memory");
    }
}
}  // namespace cluster

// --- Semaphores (PTX ISA, "mbarrier") ---

// Called by one warp, for up to 32 in a row; visible to the block (and the cluster) after
// `fence_semaphore_init` and `cluster::sync`. The name is for the host architecture's messages.
TK_DEVICE void init_semaphores(semaphore* sems, int count, int arrivals, const char* = nullptr) {
    if (detail::lane() < count) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(
                         detail::shared_address(sems + detail::lane())),
                     "r"(arrivals));
    }
}
// One of them.
TK_DEVICE void init_semaphore(semaphore& sem, int arrivals, const char* name = nullptr) {
    init_semaphores(&sem, 1, arrivals, name);
}
// Number `index` of several: the hardware prepares one after the other, so that warps that each
// prepare one are done sooner than one for all.
TK_DEVICE void init_semaphore_at(semaphore* sems, int index, int arrivals,
                                 const char* name = nullptr) {
    init_semaphores(sems + index, 1, arrivals, name);
}
// Makes the memory of a semaphore free for other uses. By one warp, when nobody waits for it and
// nothing will arrive at it any more.
TK_DEVICE void invalidate_semaphore(semaphore& sem) {
    if (detail::lane() == 0) {
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(detail::shared_address(&sem))
                     : "memory");
    }
}
// Orders the initialisations before arrivals from other blocks and from TMA.
TK_DEVICE void fence_semaphore_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Whether the phase is complete: at once, or after a while in which the hardware lets the thread
// sleep.
TK_DEVICE bool test_wait(semaphore& sem, int phase) {
    uint32_t done;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(done)
        : "r"(detail::shared_address(&sem)), "r"(phase)
        : "memory");
    return done != 0;
}
TK_DEVICE bool try_wait(semaphore& sem, int phase) {
    uint32_t done;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(done)
        : "r"(detail::shared_address(&sem)), "r"(phase)
        : "memory");
    return done != 0;
}
TK_DEVICE void wait(semaphore& sem, int phase) {
    while (!try_wait(sem, phase)) {
    }
}

// --- Named barriers of any of the block's warps ---

namespace named_barrier {
// Barrier `id` (1 to 15) of any `warps` warps of the block, each of which calls one of these:
// `sync` waits for the others, `arrive` does not.
TK_DEVICE void sync(int id, int warps) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(warps * 32) : "memory");
}
TK_DEVICE void arrive(int id, int warps) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(warps * 32) : "memory");
}
}  // namespace named_barrier

namespace detail {
template <int Warps>
struct sync_ops {
    static TK_DEVICE int laneid() { return int(threadIdx.x) % (Warps * 32); }
    static TK_DEVICE int groupid() { return warp_index() / Warps; }
    // The index of the calling warp in its group.
    static TK_DEVICE int warpid() { return warp_index() % Warps; }

    // Barrier of the group's warps; `id` is one of the block's 16 named barriers, 0 left alone. A
    // warp needs none.
    static TK_DEVICE void sync()
        requires(Warps == 1)
    {
        __syncwarp();
    }
    static TK_DEVICE void sync(int id) {
        if constexpr (Warps == 1) {
            __syncwarp();
        } else {
            asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(Warps * 32) : "memory");
        }
    }

    // The half of `sync` that does not wait, for the warps of the group that need not: the barrier
    // is complete when each warp of the group has called one of the two.
    static TK_DEVICE void arrive(int id) {
        static_assert(Warps > 1, "arrive(id) is an operation of a group of several warps");
        asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(Warps * 32) : "memory");
    }

    // True for one lane of the warp.
    static TK_DEVICE bool elect() {
        static_assert(Warps == 1, "elect is an operation of one warp");
        return cute::elect_one_sync() != 0;
    }

    // A turn that one group passes to another of its size, over a named barrier: `pass_turn` does
    // not wait, `await_turn` does.
    static TK_DEVICE void pass_turn(int id) {
        asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(Warps * 64) : "memory");
    }
    static TK_DEVICE void await_turn(int id) {
        asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(Warps * 64) : "memory");
    }

    // One arrival of every warp of the group.
    static TK_DEVICE void arrive(semaphore& sem) {
        __syncwarp();
        if (lane() == 0) {
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&sem))
                         : "memory");
        }
    }

    // `count` arrivals of every warp of the group.
    static TK_DEVICE void arrive(semaphore& sem, int count) {
        __syncwarp();
        if (lane() == 0) {
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&sem)),
                         "r"(count)
                         : "memory");
        }
    }

    // Makes the phase wait for `bytes` more of TMA loads, without an arrival.
    static TK_DEVICE void add_expected_bytes(semaphore& sem, int bytes) {
        static_assert(Warps == 1, "add_expected_bytes is an operation of one warp");
        if (lane() == 0) {
            asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(
                             shared_address(&sem)),
                         "r"(bytes)
                         : "memory");
        }
    }

    // One arrival of the calling warp, which also makes the phase wait for `bytes` of TMA loads.
    static TK_DEVICE void expect_bytes(semaphore& sem, int bytes) {
        static_assert(Warps == 1, "expect_bytes is an operation of one warp");
        if (lane() == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                             shared_address(&sem)),
                         "r"(bytes)
                         : "memory");
        }
    }

    // Whether the group is the last of `count` groups, over the grid, to come to this counter. All
    // that the others wrote to global memory before is then visible. The counter ends at 0 again.
    // `vote` is a word of shared memory of this group's own.
    static TK_DEVICE bool arrive_last(int* counter, int count, int* vote, int barrier_id) {
        // The fences of one thread order what all did: fences are cumulative over the barriers
        // (PTX ISA, "causality order").
        sync(barrier_id);
        if (laneid() == 0) {
            __threadfence();
            *vote = atomicInc(reinterpret_cast<unsigned*>(counter), unsigned(count - 1)) ==
                    unsigned(count - 1);
            __threadfence();
        }
        sync(barrier_id);
        return *vote != 0;
    }

    // The next of 0, 1, ..., count - 1 over the grid, for lane 0; `broadcast` gives it to all. The
    // counter ends at 0 again once all are drawn.
    static TK_DEVICE int draw(int* counter, int count) {
        static_assert(Warps == 1, "draw is an operation of one warp");
        int result = 0;
        if (lane() == 0) {
            result = int(atomicInc(reinterpret_cast<unsigned*>(counter), unsigned(count - 1)));
        }
        return result;
    }
    static TK_DEVICE int broadcast(int value) {
        static_assert(Warps == 1, "broadcast is an operation of one warp");
        return __shfl_sync(0xffffffff, value, 0);
    }

    // Of `count` parts that follow one another, part i of size_of(i) places, 0 or more: the one
    // that `place` lies in, and the places before it; `count` and all places if it lies beyond.
    // Each lane adds up a run of parts, then the lanes look into the run that was found.
    template <class F>
    static TK_DEVICE located locate(int count, F&& size_of, int place) {
        static_assert(Warps == 1, "locate is an operation of one warp");
        int first = 0, before = 0, left = count;
        TK_NO_UNROLL
        while (left > 0) {
            const int run = (left + 31) / 32;
            int own = 0;
            for (int i = lane() * run; i < lane() * run + run && i < left; ++i) {
                own += size_of(first + i);
            }
            int end = before + own;  // of the lane's run
            TK_UNROLL
            for (int step = 1; step < 32; step *= 2) {
                const int lower = __shfl_up_sync(0xffffffff, end - before, step);
                if (lane() >= step) end += lower;
            }
            const unsigned beyond = __ballot_sync(0xffffffff, end > place);
            if (beyond == 0) return {count, __shfl_sync(0xffffffff, end, 31)};
            const int found = __ffs(int(beyond)) - 1;
            before = __shfl_sync(0xffffffff, end - own, found);
            first += found * run;
            if (run == 1) return {first, before};
            left = left - found * run < run ? left - found * run : run;
        }
        return {count, before};
    }
};
}  // namespace detail

// --- Proxy fence (PTX ISA, "fence.proxy.async") ---

// Between ordinary stores to shared memory and an asynchronous read of them (TMA store, WGMMA):
// by every writing thread, before the barrier that tells the reader.
TK_DEVICE void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- Programmatic dependent launch (PTX ISA, "griddepcontrol"; `launch_config::programmatic`) ---

// The kernel after this one in the stream may start, once every block has said so or exited.
TK_DEVICE void launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
// Until the kernel before this one has ended, and what it wrote is visible. By every thread that
// needs that, or that tells others.
TK_DEVICE void wait_dependency() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// --- Registers (PTX ISA, "setmaxnreg") ---

template <int Registers>
TK_DEVICE void increase_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
TK_DEVICE void decrease_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

TK_NAMESPACE_END
