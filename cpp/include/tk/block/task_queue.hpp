// Tasks given out as blocks become free: one warp of a block draws the next task's number from a
// counter in global memory and tells the other warps.
#pragma once
#include "tk/tile/group.hpp"

TK_NAMESPACE_BEGIN

// What one warp tells the others of its block, in shared memory: up to `slots` numbers ahead.
struct task_mail {
    static constexpr int slots = 2;
    semaphore told[slots];  // the number is there
    semaphore read[slots];  // all readers have it
    int number[slots];

    // By one warp, before `fence_semaphore_init`; `readers` warps read.
    TK_DEVICE void init(int readers) {
        init_semaphores(told, slots, 1, "told");
        init_semaphores(read, slots, readers, "read");
    }
};

// Where a warp is in its block's mail.
struct mail_position {
    int slot = 0, phase = 0;

    TK_DEVICE void tell(task_mail& mail, int number) {
        wait(mail.read[slot], phase ^ 1);
        warp::put(mail.number[slot], number);
        warp::arrive(mail.told[slot]);
        advance();
    }
    TK_DEVICE int hear(task_mail& mail) {
        wait(mail.told[slot], phase);
        const int number = warp::broadcast(warp::get(mail.number[slot]));
        warp::arrive(mail.read[slot]);
        advance();
        return number;
    }

  private:
    TK_DEVICE void advance() {
        if (++slot == task_mail::slots) {
            slot = 0;
            phase ^= 1;
        }
    }
};

TK_NAMESPACE_END
