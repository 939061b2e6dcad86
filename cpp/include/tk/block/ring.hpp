// Rings of memory that one side fills and another reads, over and over: where a warp is in a ring,
// and the semaphores of its stages.
//
// Each side of a ring keeps a position of its own. The writer of a stage waits until it is `empty`,
// writes, and completes `full`; the reader waits until it is `full`, reads, and completes `empty`:
//
//   wait(ring.empty[at.stage], at.freed());    wait(ring.full[at.stage], at.filled());
//   ... write, complete full[at.stage] ...     ... read, complete empty[at.stage] ...
//   at.advance(num_stages);                    at.advance(num_stages);
#pragma once
#include "tk/tile/group.hpp"

TK_NAMESPACE_BEGIN

// A place in a ring: the stage, and the parity of the trips round it so far.
struct ring_position {
    int stage = 0, phase = 0;

    TK_DEVICE void advance(int num_stages) {
        if (++stage == num_stages) {
            stage = 0;
            phase ^= 1;
        }
    }
    // The phase that a reader waits for, at `full`: the stage's content of this trip.
    TK_DEVICE int filled() const { return phase; }
    // The phase that a writer waits for, at `empty`: the readers of the trip before. On the first
    // trip there were none, and a wait for the phase before a semaphore's first passes.
    TK_DEVICE int freed() const { return phase ^ 1; }
    // The stage before this one.
    TK_DEVICE static int before(int stage, int num_stages) {
        return stage == 0 ? num_stages - 1 : stage - 1;
    }
};

template <int MaxStages>
struct ring_barriers {
    static_assert(MaxStages >= 1 && MaxStages <= 32, "ring_barriers: a ring has 1 to 32 stages");
    semaphore full[MaxStages];   // what the stage holds has been written
    semaphore empty[MaxStages];  // all that read the stage have finished with it

    // By one warp, before `fence_semaphore_init`. The numbers of arrivals are those of a phase;
    // the names are for messages.
    TK_DEVICE void init(int num_stages, int writers, int readers, const char* full_name,
                        const char* empty_name) {
        init_semaphores(full, num_stages, writers, full_name);
        init_semaphores(empty, num_stages, readers, empty_name);
    }
    // The same by `warps` warps, of which the caller is number `warp`.
    TK_DEVICE void init_by(int warp, int warps, int num_stages, int writers, int readers,
                           const char* full_name, const char* empty_name) {
        TK_NO_UNROLL
        for (int stage = warp; stage < num_stages; stage += warps) {
            init_semaphore_at(full, stage, writers, full_name);
            init_semaphore_at(empty, stage, readers, empty_name);
        }
    }
};

TK_NAMESPACE_END
