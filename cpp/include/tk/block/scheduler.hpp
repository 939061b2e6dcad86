// Where the clusters of a launch take their tasks from. Every scheduler has the same interface, and
// a kernel names one as its `K::scheduler`:
//
//   S::shared_block                     its shared memory
//   S::init(shared, config, readers)    prepares it: by one warp, before `fence_semaphore_init`;
//                                       `readers` warps of a block ask beside the giver
//   S::check(config, grid)              on the host, before a launch: throws what cannot work
//   S(config, shared, gives)            one for each warp that works on tasks. One warp of a block,
//                                       the giver, may look for tasks in global memory, and tells
//                                       the others; it is the producer's first
//   S::get_initial(config)              the first task; by any warp, without the shared memory
//   prefetch_next()                     by the producer's warps, once a task, before its loads: the
//                                       giver starts to look for the next one
//   get_next(current)                   the task after `current`; by every such warp, once a task
//
// A number that is not below config.num_tasks means that there is no more; nobody asks after it.
#pragma once
#include <stdexcept>
#include <string>

#include "tk/block/ring.hpp"
#include "tk/block/task_config.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/ring_sync.hpp"
#else
#include "tk/arch/host/ring_sync.hpp"
#endif

TK_NAMESPACE_BEGIN

constexpr int no_task = 0x7fffffff;

template <class S>
concept task_scheduler =
    requires(S scheduler, typename S::shared_block& shared, const lcf_config& config) {
        S(config, shared, true);
        S::init(shared, config, 1);
        S::check(config, 1);
        { S::get_initial(config) } -> std::same_as<int>;
        scheduler.prefetch_next();
        { scheduler.get_next(0) } -> std::same_as<int>;
    };

// Every cluster::count()-th task, from the cluster's own number on.
struct static_scheduler {
    struct shared_block {};

    TK_DEVICE static_scheduler(const lcf_config&, shared_block&, bool /*gives*/)
        : step_(cluster::count()) {}
    static void check(const lcf_config&, int) {}
    static TK_DEVICE void init(shared_block&, const lcf_config&, int) {}
    static TK_DEVICE int get_initial(const lcf_config&) { return cluster::index(); }
    TK_DEVICE void prefetch_next() {}
    TK_DEVICE int get_next(int current) { return current + step_; }

  private:
    int step_;
};

// One task a cluster, the one of its own number: the grid covers all tasks, and the loop over tasks
// compiles to nothing.
struct one_task_scheduler {
    struct shared_block {};

    TK_DEVICE one_task_scheduler(const lcf_config&, shared_block&, bool /*gives*/) {}
    static void check(const lcf_config& config, int grid) {
        // A launch without tasks has a cluster that finds none.
        if (grid != (config.num_tasks == 0 ? 1 : config.num_tasks) * config.cluster.blocks()) {
            throw std::runtime_error("one_task_scheduler: a grid of " + std::to_string(grid) +
                                     " blocks for " + std::to_string(config.num_tasks) +
                                     " tasks in clusters of " +
                                     std::to_string(config.cluster.blocks()) +
                                     "; it must be tasks x blocks of a cluster");
        }
    }
    static TK_DEVICE void init(shared_block&, const lcf_config&, int) {}
    static TK_DEVICE int get_initial(const lcf_config&) { return cluster::index(); }
    TK_DEVICE void prefetch_next() {}
    TK_DEVICE int get_next(int) { return no_task; }
};

// What the giver of a block tells the other warps: up to `slots` numbers ahead.
struct task_mail {
    static constexpr int slots = 2;
    ring_barriers<slots> ring;
    int number[slots];

    TK_DEVICE void init(int readers) { ring.init(slots, 1, readers, "told", "read"); }
    TK_DEVICE void tell(ring_position& at, int value) {
        wait(ring.empty[at.stage], at.freed());
        warp::put(number[at.stage], value);
        warp::arrive(ring.full[at.stage]);
        at.advance(slots);
    }
    TK_DEVICE int hear(ring_position& at) {
        wait(ring.full[at.stage], at.filled());
        const int value = warp::broadcast(warp::get(number[at.stage]));
        warp::arrive(ring.empty[at.stage]);
        at.advance(slots);
        return value;
    }
};

// The same between the blocks of a cluster: the first block's giver tells all of them. Its number
// comes asynchronously, and every block's giver says so to its own readers' semaphore.
struct cluster_mail {
    static constexpr int slots = task_mail::slots, first_block = 1;  // a mask
    ring_barriers<slots> ring;  // `empty` is used in the first block: the readers of all
    int number[slots];

    TK_DEVICE void init(int readers, int blocks) {
        ring.init(slots, 1, readers * blocks + blocks - 1, "told", "read");
    }
    // By the first block's giver.
    TK_DEVICE void tell(ring_position& at, int value, int blocks) {
        wait(ring.empty[at.stage], at.freed());
        warp::expect_bytes(ring.full[at.stage], int(sizeof(value)));
        cluster::put_async(number[at.stage], value, ring.full[at.stage], (1u << blocks) - 1u);
        at.advance(slots);
    }
    // By everybody else; `gives` for the givers of the other blocks.
    TK_DEVICE int hear(ring_position& at, bool gives) {
        if (gives) warp::expect_bytes(ring.full[at.stage], int(sizeof(int)));
        wait(ring.full[at.stage], at.filled());
        const int value = warp::broadcast(warp::get(number[at.stage]));
        cluster::arrive(ring.empty[at.stage], first_block);
        at.advance(slots);
        return value;
    }
};

// The tasks of a table, each cluster every cluster::count()-th entry: an order worked out on the
// host. The table holds config.table_length task numbers; a number that is no task ends its
// cluster's walk, so that lists of different lengths are padded with -1.
class table_scheduler {
  public:
    using shared_block = task_mail;

    TK_DEVICE table_scheduler(const lcf_config& config, shared_block& mail, bool gives)
        : config_(config), mail_(mail), gives_(gives), place_(cluster::index()) {}
    static void check(const lcf_config& config, int) {
        if (config.table == nullptr) throw std::runtime_error("table_scheduler: no table");
        if (config.table_length < 0) {
            throw std::runtime_error("table_scheduler: a table of " +
                                     std::to_string(config.table_length) + " entries");
        }
    }
    static TK_DEVICE void init(shared_block& mail, const lcf_config&, int readers) {
        mail.init(readers);
    }
    static TK_DEVICE int get_initial(const lcf_config& config) {
        return task_of(config, entry(config, cluster::index()));
    }
    // What was asked for here is looked at in `get_next`: a trip to global memory takes a while.
    TK_DEVICE void prefetch_next() {
        if (!gives_) return;
        place_ += cluster::count();
        fetched_ = entry(config_, place_);
    }
    TK_DEVICE int get_next(int) {
        if (!gives_) return mail_.hear(at_);
        const int next = task_of(config_, fetched_);
        mail_.tell(at_, next);
        return next;
    }

  private:
    static TK_DEVICE int entry(const lcf_config& config, int place) {
        return place < config.table_length ? config.table[place] : -1;
    }
    static TK_DEVICE int task_of(const lcf_config& config, int number) {
        return number >= 0 && number < config.num_tasks ? number : no_task;
    }

    const lcf_config& config_;
    task_mail& mail_;
    const bool gives_;
    ring_position at_;
    int place_, fetched_ = -1;
};

// Tasks given out as clusters become free: from a counter in global memory. A cluster begins with
// the task of its own number. `AcrossCluster` for clusters of several blocks, of which the first
// draws and tells the others.
template <bool AcrossCluster = false>
class queue_scheduler {
  public:
    using shared_block = std::conditional_t<AcrossCluster, cluster_mail, task_mail>;

    TK_DEVICE queue_scheduler(const lcf_config& config, shared_block& mail, bool gives)
        : config_(config), mail_(mail), gives_(gives) {}
    static void check(const lcf_config& config, int) {
        if (config.queue == nullptr) {
            throw std::runtime_error("queue_scheduler: no counter to draw from");
        }
        if (!AcrossCluster && config.cluster.blocks() != 1) {
            throw std::runtime_error(
                "queue_scheduler<false>: clusters of " + std::to_string(config.cluster.blocks()) +
                " blocks, of which each would draw; use queue_scheduler<true>");
        }
    }
    static TK_DEVICE void init(shared_block& mail, const lcf_config& config, int readers) {
        if constexpr (AcrossCluster) {
            mail.init(readers, config.cluster.blocks());
        } else {
            mail.init(readers);
        }
    }
    static TK_DEVICE int get_initial(const lcf_config&) { return cluster::index(); }
    // Asked for here and looked at in `get_next`: a trip to global memory takes a while.
    TK_DEVICE void prefetch_next() {
        if (draws()) drawn_ = warp::draw(config_.queue, config_.num_tasks);
    }
    TK_DEVICE int get_next(int) {
        if (!draws()) {
            if constexpr (AcrossCluster) {
                return mail_.hear(at_, gives_);
            } else {
                return mail_.hear(at_);
            }
        }
        const int next = cluster::count() + warp::broadcast(drawn_);
        if constexpr (AcrossCluster) {
            mail_.tell(at_, next, config_.cluster.blocks());
        } else {
            mail_.tell(at_, next);
        }
        return next;
    }

  private:
    TK_DEVICE bool draws() const { return gives_ && (!AcrossCluster || cluster::rank() == 0); }

    const lcf_config& config_;
    shared_block& mail_;
    const bool gives_;
    ring_position at_;
    int drawn_ = 0;
};

// A static order, or the queue where the launch has one: decided by the host. For clusters of one
// block, if there is a queue.
class static_or_queue_scheduler {
  public:
    using shared_block = task_mail;

    TK_DEVICE static_or_queue_scheduler(const lcf_config& config, shared_block& mail, bool gives)
        : config_(config), mail_(mail), gives_(gives), step_(cluster::count()) {}
    static void check(const lcf_config& config, int grid) {
        if (config.queue != nullptr) queue_scheduler<>::check(config, grid);
    }
    static TK_DEVICE void init(shared_block& mail, const lcf_config& config, int readers) {
        if (config.queue != nullptr) mail.init(readers);
    }
    static TK_DEVICE int get_initial(const lcf_config&) { return cluster::index(); }
    // Set either way: what is kept from task to task costs the producer a register.
    TK_DEVICE void prefetch_next() {
        drawn_ = 0;
        if (gives_ && draws()) drawn_ = warp::draw(config_.queue, config_.num_tasks);
    }
    TK_DEVICE int get_next(int current) {
        if (!gives_) return draws() ? mail_.hear(at_) : current + step_;
        int next = current + step_;
        if (draws()) {
            next = step_ + warp::broadcast(drawn_);
            mail_.tell(at_, next);
        }
        return next;
    }

  private:
    TK_DEVICE bool draws() const { return config_.queue != nullptr; }

    const lcf_config& config_;
    task_mail& mail_;
    const bool gives_;
    ring_position at_;
    int step_, drawn_ = 0;
};

TK_NAMESPACE_END
