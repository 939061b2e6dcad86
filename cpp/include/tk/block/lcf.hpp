// The load-compute-finish template: one producer warpgroup fills a ring of input stages, consumer
// warpgroups compute on them and finish each task; a persistent loop over tasks.
//
// A kernel K gives
//   K::globals              with a `lcf_config config`
//   K::layout::input_block  one stage; K::layout::scratch_block  shared memory outside the ring
//   K::common_state, K::common_setup(globals, cluster_tile, task, common_state&) -> iterations
//   K::producer::load(args) starts the loads of one stage; K::producer::warps call it
//   K::consumer::state, K::consumer::setup(args), compute(args), finish(args)
//   K::num_consumer_warpgroups, K::max_stages, K::producer_registers, K::consumer_registers
#pragma once
#include "tk/block/cluster_tile.hpp"

TK_NAMESPACE_BEGIN

struct lcf_config {
    int num_stages = 1;
    int num_tasks = 0;
    cluster_shape cluster;
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
    };

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

        // The stage read `InFlight` iterations ago may be loaded again: by one warp, for itself.
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
        auto& scratch = *reinterpret_cast<scratch_block*>(memory);
        auto& barriers = *reinterpret_cast<barrier_block*>(memory + sizeof(scratch_block));
        auto* stages = reinterpret_cast<input_block*>(memory + fixed_bytes);
        const cluster_tile place(g.config.cluster);

        if (group<1>::groupid() == 0) {
            for (int i = 0; i < g.config.num_stages; ++i) {
                init_semaphore(barriers.full[i], K::producer::arrivals, "full", i);
                init_semaphore(barriers.empty[i],
                               K::num_consumer_warpgroups * 4 * place.num_loaders, "empty", i);
            }
            fence_semaphore_init();
            K::producer::prefetch(g);
        }
        cluster::sync();

        if (warpgroup::groupid() == 0) {
            if constexpr (K::producer_registers != 0) decrease_registers<K::producer_registers>();
            if (warpgroup::warpid() < K::producer::warps) produce(g, place, stages, barriers);
        } else {
            if constexpr (K::consumer_registers != 0) increase_registers<K::consumer_registers>();
            consume(g, place, scratch, stages, barriers);
        }
        // A block stays while another of its cluster may still write into it.
        cluster::sync();
    }

  private:
    static TK_DEVICE int first_task(const globals& g) {
        return block_index() / g.config.cluster.blocks();
    }
    static TK_DEVICE int task_step(const globals& g) {
        return num_blocks() / g.config.cluster.blocks();
    }

    static TK_DEVICE void produce(const globals& g, const cluster_tile& place, input_block* stages,
                                  barrier_block& barriers) {
        ring_position at;
        const int step = task_step(g);
        TK_NO_UNROLL
        for (int task = first_task(g); task < g.config.num_tasks; task += step) {
            common_state common;
            const int iterations = K::common_setup(g, place, task, common);
            TK_NO_UNROLL
            for (int iter = 0; iter < iterations; ++iter) {
                wait(barriers.empty[at.stage], at.phase ^ 1);
                producer_args args{g, common, iter, stages[at.stage], barriers.full[at.stage]};
                K::producer::load(args);
                at.advance(g.config.num_stages);
            }
        }
    }

    static TK_DEVICE void consume(const globals& g, const cluster_tile& place,
                                  scratch_block& scratch, input_block* stages,
                                  barrier_block& barriers) {
        ring_position at;
        const int step = task_step(g), consumer = warpgroup::groupid() - 1;
        typename K::consumer::state state;
        TK_NO_UNROLL
        for (int task = first_task(g); task < g.config.num_tasks; task += step) {
            common_state common;
            const int iterations = K::common_setup(g, place, task, common);
            consumer_args args{g,       common,   scratch,           state,
                               stages,  barriers, place.loader_mask, g.config.num_stages,
                               consumer};
            K::consumer::setup(args);
            TK_NO_UNROLL
            for (int iter = 0; iter < iterations; ++iter) {
                args.stage = at.stage;
                args.iter = iter;
                wait(barriers.full[at.stage], at.phase);
                K::consumer::compute(args);
                at.advance(g.config.num_stages);
            }
            K::consumer::finish(args);
        }
        tma::store_async_read_wait<0>();
    }
};

TK_NAMESPACE_END
