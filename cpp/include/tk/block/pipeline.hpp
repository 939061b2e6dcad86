// What load-compute-finish and load-compute-store-finish share: the warps' parts, the rings, and
// the loop over tasks. Their contracts are in lcf.hpp and lcsf.hpp.
#pragma once
#include "tk/block/kernel_traits.hpp"

TK_NAMESPACE_BEGIN

template <class K, bool Stores>
struct pipeline {
    using globals = typename K::globals;
    using input_block = typename K::layout::input_block;
    using output_block = typename detail::output_of<K>::type;
    using scratch_block = typename detail::scratch_of<K>::type;
    using finish_type = typename detail::finish_of<K>::type;
    using common_state = typename detail::common_of<K>::type;
    using producer_state = typename detail::producer_state_of<K>::type;
    using scheduler = typename detail::scheduler_of<K>::type;
    using config_type = std::conditional_t<Stores, lcsf_config, lcf_config>;
    using numbers = detail::numbers_of<K>;

    static constexpr bool has_finish_block = detail::finish_of<K>::exists;
    static constexpr int consumers = K::num_consumer_warpgroups;
    static constexpr int max_output_stages = Stores ? numbers::max_output_stages : 0;
    // Who hears of a task beside the warp that gives it out.
    static constexpr int task_readers =
        consumers * 4 + numbers::producer_warps - 1 + (Stores ? 1 : 0);

    struct output_barriers {
        ring_barriers<Stores ? numbers::max_output_stages : 1> ring;
    };
    struct finish_barriers {
        semaphore drained;   // the task's loads are started, and no consumer reads a stage
        semaphore finished;  // all consumers have finished with the finish block
    };
    struct alignas(1024) barrier_block {
        // `full`: the stage's loads have arrived; `empty`: all that read it have finished with it.
        ring_barriers<numbers::max_stages> input;
        typename scheduler::shared_block tasks;
        std::conditional_t<Stores, output_barriers, detail::nothing> output;
        std::conditional_t<has_finish_block, finish_barriers, detail::nothing> finish;
    };

    // The named barriers of the consumers' turns.
    static constexpr int turn_barrier = 15, turn_taken_barrier = 14;
    static constexpr int num_threads = (1 + consumers) * 128;
    static constexpr int64_t bytes_per_stage = sizeof(input_block);
    static constexpr int64_t bytes_per_output_stage = detail::output_of<K>::bytes;
    static constexpr int64_t scratch_bytes = detail::scratch_of<K>::bytes;
    static constexpr int64_t fixed_bytes = scratch_bytes + sizeof(barrier_block);
    static_assert(bytes_per_stage % 1024 == 0 && scratch_bytes % 1024 == 0 &&
                      bytes_per_output_stage % 1024 == 0,
                  "blocks of shared memory must keep the alignment of swizzled tiles: an "
                  "input_block, output_block or scratch_block is alignas(1024)");
    static_assert(consumers >= 1 && consumers <= 7,
                  "num_consumer_warpgroups: a block has 1 to 7 beside the producer's");
    static_assert(
        numbers::producer_warps >= 1 && numbers::producer_warps + (Stores ? 1 : 0) <= 4,
        "producer::warps: the producer's warpgroup has four, one of which stores in lcsf");
    static_assert(task_scheduler<scheduler>,
                  "K::scheduler has not the interface of block/scheduler.hpp");

    // On the host: the shared memory that a launch needs. The finish block lies over the input
    // stages, and may be larger.
    static int64_t shared_bytes(const config_type& config) {
        int64_t bytes = fixed_bytes + config.tail_bytes;
        if constexpr (Stores) bytes += config.num_output_stages * bytes_per_output_stage;
        return bytes + input_bytes(config.num_stages);
    }

    // On the host: throws what a launch of so many blocks cannot work with.
    static void check(const config_type& config, int grid) {
        const auto require = [](const char* name, int got, int least, int most) {
            if (got >= least && got <= most) return;
            throw std::runtime_error(std::string(name) + " is " + std::to_string(got) +
                                     "; it must be between " + std::to_string(least) + " and " +
                                     std::to_string(most));
        };
        require("num_stages", config.num_stages, 1, numbers::max_stages);
        if constexpr (Stores) {
            require("num_output_stages", config.num_output_stages, 1, max_output_stages);
        }
        require("num_tasks", config.num_tasks, 0, no_task - 1);
        const int blocks = config.cluster.blocks();
        require("the blocks of a cluster", blocks, 1, 16);
        if (grid < 1 || grid % blocks != 0) {
            throw std::runtime_error("a grid of " + std::to_string(grid) +
                                     " blocks is not made of clusters of " +
                                     std::to_string(blocks));
        }
        scheduler::check(config, grid);
    }

    struct producer_args {
        const globals& g;
        const common_state& common;
        int task, iter;
        input_block& input;
        semaphore& inputs_arrived;
        scratch_block& scratch;
        producer_state& state;
    };

    struct consumer_args {
        const globals& g;
        const common_state& common;
        int task;
        scratch_block& scratch;
        typename K::consumer::state& state;
        input_block* stages;
        barrier_block& barriers;
        uint32_t loader_mask;
        int num_stages;
        int consumer;           // which of the consumer warpgroups this is
        output_block* outputs;  // with an output ring
        int finish_phase;       // with a finish block
        int stage = 0, output_stage = 0;
        int iter = -1;  // the last one in `finish`
        mutable bool drained = false;

        TK_DEVICE input_block& input() const { return stages[stage]; }
        TK_DEVICE output_block& output() const { return outputs[output_stage]; }
        // The `config.tail_bytes` after the ring, and after a finish block that is larger.
        TK_DEVICE char* tail() const {
            return reinterpret_cast<char*>(stages) + input_bytes(num_stages);
        }

        // The stage read `InFlight` iterations ago may be loaded again: by one warp, for itself,
        // once its asynchronous reads are done. Lanes that read with ordinary loads must meet
        // before.
        template <int InFlight = 0>
        TK_DEVICE void release() const {
            static_assert(InFlight == 0 || InFlight == 1, "release: 0 or 1 products in flight");
            if (iter < InFlight) return;
            const int done = InFlight == 0 ? stage : ring_position::before(stage, num_stages);
            cluster::arrive(barriers.input.empty[done], loader_mask);
        }

        // The input stages' memory, for the rest of `finish`, once every consumer has released its
        // last stage. By all warps of all consumers.
        TK_DEVICE finish_type& finish_block() const
            requires has_finish_block
        {
            if (!drained) {
                warp::arrive(barriers.finish.drained);
                wait(barriers.finish.drained, finish_phase);
                drained = true;
            }
            return *reinterpret_cast<finish_type*>(stages);
        }
    };

    struct storer_args {
        const globals& g;
        const common_state& common;
        int task, iter;
        const output_block& output;
    };

    static TK_DEVICE void run(const globals& g) {
        char* memory = shared_memory();
        const cluster_tile place(g.config.cluster);
        char* const rings = memory + fixed_bytes;
        char* stages = rings;
        if constexpr (Stores) stages += g.config.num_output_stages * bytes_per_output_stage;
        block_state block{g,
                          place,
                          *reinterpret_cast<scratch_block*>(memory),
                          *reinterpret_cast<barrier_block*>(memory + scratch_bytes),
                          reinterpret_cast<output_block*>(rings),
                          reinterpret_cast<input_block*>(stages)};

        // The warps prepare at once: one the descriptors, one the barriers, the consumers those of
        // the ring, and each that works on tasks its first.
        if (warp::groupid() == 1) {
            init_barriers(block);
        } else if (warp::groupid() == 2) {
            if constexpr (requires { K::producer::prefetch(g); }) K::producer::prefetch(g);
        }
        task_state first;
        first.index = scheduler::get_initial(g.config);
        set_up(block, first);
        if (warpgroup::groupid() != 0) init_ring(block, warp::groupid() - 4);
        cluster::sync();

        if (warpgroup::groupid() == 0) {
            if constexpr (numbers::producer_registers != 0) {
                decrease_registers<numbers::producer_registers>();
            }
            if (warpgroup::warpid() < numbers::producer_warps) {
                produce(block, first);
            } else if (Stores && warpgroup::warpid() == numbers::producer_warps) {
                if constexpr (Stores) store(block, first);
            }
        } else {
            if constexpr (numbers::consumer_registers != 0) {
                increase_registers<numbers::consumer_registers>();
            }
            consume(block, first);
        }
        // A block stays while another of its cluster may still write into it.
        cluster::sync();
    }

  private:
    // Of the input stages, or of the finish block over them.
    static TK_HOST_DEVICE constexpr int64_t input_bytes(int num_stages) {
        const int64_t stages = num_stages * bytes_per_stage;
        return stages > detail::finish_of<K>::bytes ? stages : detail::finish_of<K>::bytes;
    }

    struct block_state {
        const globals& g;
        const cluster_tile& place;
        scratch_block& scratch;
        barrier_block& barriers;
        output_block* outputs;
        input_block* stages;
    };

    // A task: its number, what the kernel knows of it, and its iterations.
    struct task_state {
        int index, iterations = 0;
        common_state common;
    };

    static TK_DEVICE void set_up(const block_state& block, task_state& task) {
        if (task.index < block.g.config.num_tasks) {
            if constexpr (detail::common_of<K>::exists) {
                task.iterations = K::common_setup(block.g, block.place, task.index, task.common);
            } else {
                task.iterations = K::common_setup(block.g, block.place, task.index);
            }
        }
    }

    static TK_DEVICE void init_ring(const block_state& block, int warp) {
        constexpr int readers = consumers * 4;
        block.barriers.input.init_by(warp, readers, block.g.config.num_stages,
                                     numbers::producer_arrivals, readers * block.place.num_loaders,
                                     "full", "empty");
        fence_semaphore_init();
    }

    static TK_DEVICE void init_barriers(const block_state& block) {
        const auto& config = block.g.config;
        barrier_block& barriers = block.barriers;
        [[maybe_unused]] constexpr int readers = consumers * 4;
        [[maybe_unused]] const int loaders = block.place.num_loaders;
        scheduler::init(barriers.tasks, config, task_readers);
        if constexpr (Stores) {
            barriers.output.ring.init(config.num_output_stages, readers, 1, "output full",
                                      "output empty");
        }
        if constexpr (has_finish_block) {
            init_semaphores(&barriers.finish.drained, 1, readers + numbers::producer_warps,
                            "drained");
            init_semaphores(&barriers.finish.finished, 1, readers * loaders, "finished");
        }
        if constexpr (requires { K::init_scratch(block.scratch); }) K::init_scratch(block.scratch);
        fence_semaphore_init();
    }

    static TK_DEVICE void produce(const block_state& block, task_state task) {
        const globals& g = block.g;
        ring_position at;
        const bool gives = numbers::producer_warps == 1 || warpgroup::warpid() == 0;
        scheduler tasks(g.config, block.barriers.tasks, gives);
        producer_state state;
        [[maybe_unused]] int finish_phase = 1;
        TK_NO_UNROLL
        while (task.index < g.config.num_tasks) {
            tasks.prefetch_next();
            if constexpr (has_finish_block) {
                // The stages are memory of the task before until all consumers have finished it;
                // before the first task there is none, and the wait passes.
                wait(block.barriers.finish.finished, finish_phase);
                finish_phase ^= 1;
            }
            TK_NO_UNROLL
            for (int iter = 0; iter < task.iterations; ++iter) {
                wait(block.barriers.input.empty[at.stage], at.freed());
                producer_args args{g,
                                   task.common,
                                   task.index,
                                   iter,
                                   block.stages[at.stage],
                                   block.barriers.input.full[at.stage],
                                   block.scratch,
                                   state};
                K::producer::load(args);
                at.advance(g.config.num_stages);
            }
            // Also without a single load: no consumer is ever two tasks ahead of the producer.
            if constexpr (has_finish_block) warp::arrive(block.barriers.finish.drained);
            task.index = tasks.get_next(task.index);
            set_up(block, task);
        }
    }

    // By how many iterations the first of two consumers goes ahead in a task.
    static TK_DEVICE int lead_of(const globals& g, const task_state& task) {
        int lead = K::consumer_lead(task.iterations);
        if (lead > task.iterations) lead = task.iterations;
        // The second consumer frees no stage before its turn, and fills none.
        if (lead > g.config.num_stages) lead = g.config.num_stages;
        if constexpr (Stores) {
            if (lead > g.config.num_output_stages) lead = g.config.num_output_stages;
        }
        return lead;
    }

    static TK_DEVICE void consume(const block_state& block, task_state task) {
        const globals& g = block.g;
        ring_position at;
        [[maybe_unused]] ring_position output_at;
        scheduler tasks(g.config, block.barriers.tasks, false);
        const int consumer = warpgroup::groupid() - 1;
        typename K::consumer::state state;
        constexpr bool takes_turns = consumers == 2 && requires { K::consumer_lead(1); };
        [[maybe_unused]] bool turn_passed = false;
        int finish_phase = 0;
        TK_NO_UNROLL
        while (task.index < g.config.num_tasks) {
            consumer_args args{g,
                               task.common,
                               task.index,
                               block.scratch,
                               state,
                               block.stages,
                               block.barriers,
                               block.place.loader_mask,
                               g.config.num_stages,
                               consumer,
                               block.outputs,
                               finish_phase};
            [[maybe_unused]] int lead = 0;
            if constexpr (takes_turns) {
                lead = lead_of(g, task);
                if (consumer == 1 && lead > 0) {
                    warpgroup::await_turn(turn_barrier);
                    warpgroup::pass_turn(turn_taken_barrier);
                }
            }
            TK_NO_UNROLL
            for (int iter = 0; iter < task.iterations; ++iter) {
                args.stage = at.stage;
                args.iter = iter;
                wait(block.barriers.input.full[at.stage], at.filled());
                if constexpr (Stores) {
                    auto& output = block.barriers.output.ring;
                    args.output_stage = output_at.stage;
                    wait(output.empty[output_at.stage], output_at.freed());
                    K::consumer::compute(args);
                    fence_async_proxy();
                    warp::arrive(output.full[output_at.stage]);
                    output_at.advance(g.config.num_output_stages);
                } else {
                    K::consumer::compute(args);
                }
                at.advance(g.config.num_stages);
                if constexpr (takes_turns) {
                    if (consumer == 0 && iter + 1 == lead) {
                        // In a ring deeper than a task the last turn may not be taken yet.
                        if (turn_passed) warpgroup::await_turn(turn_taken_barrier);
                        warpgroup::pass_turn(turn_barrier);
                        turn_passed = true;
                    }
                }
            }
            // The next task is worked out while the last products of this one are under way.
            task_state next;
            next.index = tasks.get_next(task.index);
            set_up(block, next);
            if constexpr (requires { K::consumer::finish(args); }) K::consumer::finish(args);
            if constexpr (has_finish_block) {
                args.finish_block();  // in case the kernel had no use for it
                // Loads write this memory next: after what every lane stored in it, and what TMA
                // still reads of it. The lanes meet in the wait.
                fence_async_proxy();
                tma::store_async_read_wait<0>();
                cluster::arrive(block.barriers.finish.finished, block.place.loader_mask);
                finish_phase ^= 1;
            }
            task = next;
        }
        if constexpr (!has_finish_block) tma::store_async_read_wait<0>();
    }

    // By one warp: the bulk groups of TMA stores are counted by warps.
    static TK_DEVICE void store(const block_state& block, task_state task) {
        const globals& g = block.g;
        auto& ring = block.barriers.output.ring;
        ring_position at;
        scheduler tasks(g.config, block.barriers.tasks, false);
        const int num_stages = g.config.num_output_stages;
        bool one_behind = false;  // a stage is being read that has not been freed
        TK_NO_UNROLL
        while (task.index < g.config.num_tasks) {
            TK_NO_UNROLL
            for (int iter = 0; iter < task.iterations; ++iter) {
                wait(ring.full[at.stage], at.filled());
                storer_args args{g, task.common, task.index, iter, block.outputs[at.stage]};
                K::storer::store(args);
                // A stage is free once the one after it is being read: consumers fill that ring
                // of two or more meanwhile.
                if (num_stages == 1) {
                    tma::store_async_read_wait<0>();
                    warp::arrive(ring.empty[at.stage]);
                } else {
                    tma::store_async_read_wait<1>();
                    if (one_behind) {
                        warp::arrive(ring.empty[ring_position::before(at.stage, num_stages)]);
                    }
                    one_behind = true;
                }
                at.advance(num_stages);
            }
            task.index = tasks.get_next(task.index);
            set_up(block, task);
        }
        tma::store_async_read_wait<0>();
    }
};

TK_NAMESPACE_END
