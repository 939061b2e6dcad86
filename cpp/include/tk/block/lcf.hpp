// The load-compute-finish template: one producer warpgroup fills a ring of input stages, consumer
// warpgroups compute on them and finish each task; a persistent loop over tasks.
//
// A kernel K gives
//   K::globals              with a `lcf_config config`
//   K::layout::input_block  one stage; K::layout::scratch_block  shared memory outside the ring
//   K::common_state, K::common_setup(globals, cluster_tile, task, common_state&) -> iterations
//   K::producer::load(args) starts the loads of one stage; K::producer::warps of them call it, and
//                           arrive K::producer::arrivals times; K::producer::prefetch(globals)
//   K::consumer::state, K::consumer::compute(args), finish(args)
//   K::num_consumer_warpgroups, K::max_stages, K::producer_registers, K::consumer_registers
//   K::consumer_lead(iterations)  by how many of them the first of two consumers goes ahead of the
//                                 second, so that one computes while the other finishes
#pragma once
#include "tk/block/cluster_tile.hpp"
#include "tk/block/task_queue.hpp"

TK_NAMESPACE_BEGIN

struct lcf_config {
    int num_stages = 1;
    int num_tasks = 0;
    cluster_shape cluster;
    // Null: a cluster takes every cluster::count()-th task. Else a counter in global memory, 0
    // before and after: a block takes the next task when it is free. For clusters of one block and
    // producers of one warp.
    int* queue = nullptr;
};

template <class K>
struct lcf {
    using globals = typename K::globals;
    using input_block = typename K::layout::input_block;
    using scratch_block = typename K::layout::scratch_block;
    using common_state = typename K::common_state;

    struct alignas(1024) barrier_block {
        semaphore full[K::max_stages];   // the stage's loads have arrived
        semaphore empty[K::max_stages];  // all that read the stage have finished with it
        task_mail mail;                  // the next task, drawn by the producer
    };

    // The named barriers of the consumers' turns.
    static constexpr int turn_barrier = 15, turn_taken_barrier = 14;
    static constexpr int num_threads = (1 + K::num_consumer_warpgroups) * 128;
    static constexpr int64_t bytes_per_stage = sizeof(input_block);
    static constexpr int64_t fixed_bytes = sizeof(scratch_block) + sizeof(barrier_block);
    static_assert(bytes_per_stage % 1024 == 0 && sizeof(scratch_block) % 1024 == 0,
                  "lcf: blocks of shared memory must keep the alignment of swizzled tiles");

    // A place in the ring: the stage, and the parity of the trips round it so far.
    struct ring_position {
        int stage = 0, phase = 0;
        TK_DEVICE void advance(int num_stages) {
            if (++stage == num_stages) {
                stage = 0;
                phase ^= 1;
            }
        }
    };

    struct producer_args {
        const globals& g;
        const common_state& common;
        int iter;
        input_block& input;
        semaphore& inputs_arrived;
    };

    struct consumer_args {
        const globals& g;
        const common_state& common;
        scratch_block& scratch;
        typename K::consumer::state& state;
        input_block* stages;
        barrier_block& barriers;
        uint32_t loader_mask;
        int num_stages;
        int consumer;  // which of the consumer warpgroups this is
        int stage = 0;
        int iter = -1;  // the last one in `finish`

        TK_DEVICE input_block& input() const { return stages[stage]; }

        // The stage read `InFlight` iterations ago may be loaded again: by one warp, for itself,
        // once its asynchronous reads are done. Lanes that read with ordinary loads must meet
        // before.
        template <int InFlight = 0>
        TK_DEVICE void release() const {
            static_assert(InFlight == 0 || InFlight == 1, "release: 0 or 1 products in flight");
            if (iter < InFlight) return;
            const int done = InFlight == 0 ? stage : stage == 0 ? num_stages - 1 : stage - 1;
            cluster::arrive(barriers.empty[done], loader_mask);
        }
    };

    static TK_DEVICE void run(const globals& g) {
        char* memory = shared_memory();
        const cluster_tile place(g.config.cluster);
        block_state block{g, place, *reinterpret_cast<scratch_block*>(memory),
                          *reinterpret_cast<barrier_block*>(memory + sizeof(scratch_block)),
                          reinterpret_cast<input_block*>(memory + fixed_bytes)};

        // Three warps prepare at once: one the barriers, one the descriptors, and each of those
        // that work on tasks its first.
        if (warp::groupid() == 1) {
            init_semaphores(block.barriers.full, g.config.num_stages, K::producer::arrivals,
                            "full");
            init_semaphores(block.barriers.empty, g.config.num_stages,
                            K::num_consumer_warpgroups * 4 * place.num_loaders, "empty");
            if (draws(g)) block.barriers.mail.init(K::num_consumer_warpgroups * 4);
            fence_semaphore_init();
        } else if (warp::groupid() == 2) {
            K::producer::prefetch(g);
        }
        task_state first;
        first.index = cluster::index();
        set_up(block, first);
        cluster::sync();

        if (warpgroup::groupid() == 0) {
            if constexpr (K::producer_registers != 0) decrease_registers<K::producer_registers>();
            if (warpgroup::warpid() < K::producer::warps) produce(block, first);
        } else {
            if constexpr (K::consumer_registers != 0) increase_registers<K::consumer_registers>();
            consume(block, first);
        }
        // A block stays while another of its cluster may still write into it.
        cluster::sync();
    }

  private:
    struct block_state {
        const globals& g;
        const cluster_tile& place;
        scratch_block& scratch;
        barrier_block& barriers;
        input_block* stages;
    };

    // A task: its number, what the kernel knows of it, and its iterations.
    struct task_state {
        int index, iterations = 0;
        common_state common;
    };

    static TK_DEVICE void set_up(const block_state& block, task_state& task) {
        if (task.index < block.g.config.num_tasks) {
            task.iterations = K::common_setup(block.g, block.place, task.index, task.common);
        }
    }

    static TK_DEVICE void produce(const block_state& block, task_state task) {
        const globals& g = block.g;
        ring_position at;
        mail_position mail;
        const int step = cluster::count();
        TK_NO_UNROLL
        while (task.index < g.config.num_tasks) {
            // Asked for now and looked at below: a trip to global memory takes a while.
            int drawn = 0;
            if (draws(g)) drawn = warp::draw(g.config.queue, g.config.num_tasks);
            TK_NO_UNROLL
            for (int iter = 0; iter < task.iterations; ++iter) {
                wait(block.barriers.empty[at.stage], at.phase ^ 1);
                producer_args args{g, task.common, iter, block.stages[at.stage],
                                   block.barriers.full[at.stage]};
                K::producer::load(args);
                at.advance(g.config.num_stages);
            }
            task.index += step;
            if (draws(g)) {
                task.index = step + warp::broadcast(drawn);
                mail.tell(block.barriers.mail, task.index);
            }
            set_up(block, task);
        }
    }

    // Whether tasks come from the queue.
    static TK_DEVICE bool draws(const globals& g) {
        return K::producer::warps == 1 && g.config.queue != nullptr;
    }

    static TK_DEVICE void consume(const block_state& block, task_state task) {
        const globals& g = block.g;
        ring_position at;
        mail_position mail;
        const int step = cluster::count(), consumer = warpgroup::groupid() - 1;
        typename K::consumer::state state;
        bool turn_passed = false;
        TK_NO_UNROLL
        while (task.index < g.config.num_tasks) {
            consumer_args args{g,
                               task.common,
                               block.scratch,
                               state,
                               block.stages,
                               block.barriers,
                               block.place.loader_mask,
                               g.config.num_stages,
                               consumer};
            int lead = 0;
            if constexpr (K::num_consumer_warpgroups == 2) {
                lead = K::consumer_lead(task.iterations);
                if (lead > task.iterations) lead = task.iterations;
                // The second consumer frees no stage before its turn.
                if (lead > g.config.num_stages) lead = g.config.num_stages;
                if (consumer == 1 && lead > 0) {
                    warpgroup::await_turn(turn_barrier);
                    warpgroup::pass_turn(turn_taken_barrier);
                }
            }
            TK_NO_UNROLL
            for (int iter = 0; iter < task.iterations; ++iter) {
                args.stage = at.stage;
                args.iter = iter;
                wait(block.barriers.full[at.stage], at.phase);
                K::consumer::compute(args);
                at.advance(g.config.num_stages);
                if (consumer == 0 && iter + 1 == lead) {
                    // In a ring deeper than a task the last turn may not have been taken yet.
                    if (turn_passed) warpgroup::await_turn(turn_taken_barrier);
                    warpgroup::pass_turn(turn_barrier);
                    turn_passed = true;
                }
            }
            // The next task is worked out while the last products of this one are under way.
            task_state next;
            next.index = draws(g) ? mail.hear(block.barriers.mail) : task.index + step;
            set_up(block, next);
            K::consumer::finish(args);
            task = next;
        }
        tma::store_async_read_wait<0>();
    }
};

TK_NAMESPACE_END
