// Small kernels of the block templates, for both architectures: products of 64 x 64 tiles, with
// every option of a kernel used by some instance. template_cases.hpp runs them.
#pragma once
#include "tk/tk.hpp"

namespace template_kernels {

using namespace tk;
using tile = st_bf<64, 64>;

// What an instance is, at compile time.
struct options {
    int consumers = 1;
    int lead = 0;               // of the first consumer: 0 takes no turns
    bool finish_block = false;  // results are staged there; else in the scratch memory
    bool ordinary = false;      // results go out in fp32 by ordinary loads and stores; else by TMA
    bool moves_registers = false;
    int producer_warps = 1;  // 4: the gather loader
};

// The place of an element in what `store_fragment` parks, for 64 rows of a warpgroup.
inline int fragment_place(int row, int col) {
#if defined(TK_ARCH_SM90)
    const int warp = row / 16, lane = row % 8 * 4 + col % 8 / 2;
    return ((col / 8 * 4 + warp) * 32 + lane) * 4 + row % 16 / 8 * 2 + col % 2;
#else
    return row * 64 + col;
#endif
}

// No more than lcf needs: task t is the sum of a_i b_i^T over its iterations, parked in fp32.
struct least_sum {
    static constexpr int num_consumer_warpgroups = 1;
    struct layout {
        struct input_block {
            tile a, b;
        };
    };
    struct globals {
        lcf_config config;
        gl<bf16, 1, 1, -1, -1, tile> a, b;
        float* out;
        int iterations;
    };

    static TK_DEVICE int common_setup(const globals& g, const cluster_tile&, int) {
        return g.iterations;
    }

    struct producer {
        template <class Args>
        static TK_DEVICE void load(const Args& args) {
            const int row = (args.task * args.g.iterations + args.iter) * 64;
            warp::expect_bytes(args.inputs_arrived, int(sizeof(args.input)));
            tma::load_async(args.input.a, args.g.a, {0, row, 0}, args.inputs_arrived);
            tma::load_async(args.input.b, args.g.b, {0, args.iter * 64, 0}, args.inputs_arrived);
        }
    };

    struct consumer {
        struct state {
            rt_fl<16, 64> sum;
        };
        template <class Args>
        static TK_DEVICE void compute(const Args& args) {
            auto& [a, b] = args.input();
            warpgroup::mma_ABt(args.state.sum, a, b, args.iter > 0);
            warpgroup::mma_async_wait<0>(args.state.sum);
            args.release();
        }
        template <class Args>
        static TK_DEVICE void finish(const Args& args) {
            if (args.iter < 0) warpgroup::zero(args.state.sum);
            warpgroup::store_fragment(args.g.out + int64_t(args.task) * 64 * 64, args.state.sum,
                                      64);
        }
    };
};

// Where a block's rows of a task begin, and who shares the loads of b.
struct block_task {
    int row;  // of the task's first iteration, and of its result
    int result_row;
    multicast share;
};

// A kernel of several consumers, 64 rows each, over blocks of a cluster that share b. Rows of a
// are numbered by task, iteration, block, consumer.
template <options Options, class Scheduler>
struct common {
    static constexpr int num_consumer_warpgroups = Options.consumers;
    static constexpr int rows = 64 * Options.consumers;  // of a block
    static constexpr int max_stages = 5, max_output_stages = 5;
    static constexpr bool ordinary = Options.ordinary;
    static constexpr bool gathers = Options.producer_warps == 4;
    static constexpr int producer_registers = Options.moves_registers ? 40 : 0;
    static constexpr int consumer_registers = Options.moves_registers ? 232 : 0;
    using scheduler = Scheduler;
    using common_state = block_task;

    struct input_block {
        tile a[Options.consumers];
        tile b;
    };
    struct output_tiles {
        tile out[Options.consumers];
    };
    struct number_tiles {
        st_fl<64, 64> out[Options.consumers];
    };
    using staging = std::conditional_t<Options.ordinary, number_tiles, output_tiles>;
    using a_source = std::conditional_t<gathers, gl_view<const bf16>, gl<bf16, 1, 1, -1, -1, tile>>;

    static TK_DEVICE int consumer_lead(int) { return Options.lead; }

    template <class Globals>
    static TK_DEVICE int common_setup(const Globals& g, const cluster_tile& place, int task,
                                      block_task& common) {
        const int blocks = g.config.cluster.blocks();
        common.result_row = (task * blocks + place.m) * rows;
        common.row = (task * g.iterations * blocks + place.m) * rows;
        common.share = place.along_m;
        // Some tasks may have none.
        return g.some_empty && task % 3 == 1 ? 0 : g.iterations;
    }

    template <class Args>
    static TK_DEVICE void load_stage(const Args& args) {
        const int row = args.common.row + args.iter * args.g.config.cluster.blocks() * rows;
        auto& arrived = args.inputs_arrived;
        if constexpr (gathers) {
            TK_UNROLL
            for (int i = 0; i < Options.consumers; ++i) {
                warpgroup::load(args.input.a[i], args.g.a, {0, row + i * 64, 0});
            }
            warpgroup::load(args.input.b, args.g.b, {0, args.iter * 64, 0});
            fence_async_proxy();
            warp::arrive(arrived);
        } else {
            warp::expect_bytes(arrived, int(sizeof(args.input)));
            TK_UNROLL
            for (int i = 0; i < Options.consumers; ++i) {
                tma::load_async(args.input.a[i], args.g.a, {0, row + i * 64, 0}, arrived);
            }
            tma::cluster::load_async(args.input.b, args.g.b, {0, args.iter * 64, 0}, arrived,
                                     args.common.share);
        }
    }

    // A consumer's 64 rows of a result, through memory of its own.
    template <class Args, class R>
    static TK_DEVICE void store_result(const Args& args, R& result) {
        const int c = args.consumer, row_0 = args.common.result_row + c * 64;
        if (args.iter < 0) warpgroup::zero(result);
        std::remove_extent_t<decltype(staging::out)>* staged = nullptr;
        if constexpr (Options.finish_block) {
            // Not where this consumer's own operand was: another may still read there.
            staged = &args.finish_block().out[Options.consumers - 1 - c];
        } else {
            staged = &args.scratch.out[c];
            if (warpgroup::warpid() == 0) tma::store_async_read_wait<0>();
            warpgroup::sync(1 + c);
        }
        warpgroup::store(*staged, result);
        if constexpr (Options.ordinary) {
            warpgroup::sync(1 + c);
            float* const out = args.g.numbers + int64_t(row_0) * 64;
            warpgroup::for_each8(*staged, false, [&](int row, int col, float (&values)[8]) {
                TK_UNROLL
                for (int i = 0; i < 8; ++i) out[row * 64 + col + i] = values[i];
            });
        } else {
            fence_async_proxy();
            warpgroup::sync(1 + c);
            if (warpgroup::warpid() == 0) {
                tma::store_async(args.g.result, *staged, {0, row_0, 0});
            }
        }
    }
};

// Where the results are staged.
template <options Options, class Input, class Staging>
struct layout_of {
    using input_block = Input;
    using scratch_block = Staging;
};
template <options Options, class Input, class Staging>
    requires(Options.finish_block)
struct layout_of<Options, Input, Staging> {
    using input_block = Input;
    using finish_block = Staging;
};

// lcf: the result of a task is the sum of its a_i b_i^T.
template <options Options, class Scheduler>
struct sum : common<Options, Scheduler> {
    using base = common<Options, Scheduler>;
    using layout = layout_of<Options, typename base::input_block, typename base::staging>;
    struct globals {
        lcf_config config;
        typename base::a_source a, b;
        gl<bf16, 1, 1, -1, -1, tile> result;
        float* numbers;  // the result, if it goes out in fp32
        int iterations;
        bool some_empty;
    };
    struct producer {
        static constexpr int warps = Options.producer_warps;
        static TK_DEVICE void prefetch(const globals& g) { tma::prefetch_descriptors(g.result); }
        template <class Args>
        static TK_DEVICE void load(const Args& args) {
            base::load_stage(args);
        }
    };
    struct consumer {
        struct state {
            rt_fl<16, 64> sum;
        };
        template <class Args>
        static TK_DEVICE void compute(const Args& args) {
            auto& [a, b] = args.input();
            warpgroup::mma_ABt(args.state.sum, a[args.consumer], b, args.iter > 0);
            warpgroup::mma_async_wait<0>(args.state.sum);
            args.release();
        }
        template <class Args>
        static TK_DEVICE void finish(const Args& args) {
            base::store_result(args, args.state.sum);
        }
    };
};

// lcsf: every iteration's 2 a_i b_i^T is an output, and the sum of a_i b_i^T the task's result.
template <options Options, class Scheduler>
struct map : common<Options, Scheduler> {
    using base = common<Options, Scheduler>;
    struct layout : layout_of<Options, typename base::input_block, typename base::staging> {
        using output_block = typename base::output_tiles;
    };
    struct globals {
        lcsf_config config;
        typename base::a_source a, b;
        gl<bf16, 1, 1, -1, -1, tile> out, result;
        float* numbers;
        int iterations;
        bool some_empty;
    };
    struct producer {
        static constexpr int warps = Options.producer_warps;
        template <class Args>
        static TK_DEVICE void load(const Args& args) {
            base::load_stage(args);
        }
    };
    struct consumer {
        struct state {
            rt_fl<16, 64> part, sum;
        };
        template <class Args>
        static TK_DEVICE void compute(const Args& args) {
            auto& [part, sum] = args.state;
            auto& [a, b] = args.input();
            warpgroup::mma_ABt(part, a[args.consumer], b, false);
            warpgroup::mma_ABt(sum, a[args.consumer], b, args.iter > 0);
            warpgroup::mma_async_wait<0>(part, sum);
            args.release();
            warpgroup::mul(part, part, 2.0f);
            warpgroup::store(args.output().out[args.consumer], part);
        }
        template <class Args>
        static TK_DEVICE void finish(const Args& args) {
            base::store_result(args, args.state.sum);
        }
    };
    struct storer {
        template <class Args>
        static TK_DEVICE void store(const Args& args) {
            const int row =
                args.common.row + args.iter * args.g.config.cluster.blocks() * base::rows;
            TK_UNROLL
            for (int i = 0; i < Options.consumers; ++i) {
                tma::store_async(args.g.out, args.output.out[i], {0, row + i * 64, 0});
            }
        }
    };
};

// No more than lcsf needs: every iteration's a_i b_i^T is an output.
struct least_map {
    static constexpr int num_consumer_warpgroups = 1;
    struct layout {
        using input_block = least_sum::layout::input_block;
        using output_block = tile;
    };
    struct globals {
        lcsf_config config;
        gl<bf16, 1, 1, -1, -1, tile> a, b, out;
        int iterations;
    };

    static TK_DEVICE int common_setup(const globals& g, const cluster_tile&, int) {
        return g.iterations;
    }

    using producer = least_sum::producer;
    struct consumer {
        struct state {
            rt_fl<16, 64> part;
        };
        template <class Args>
        static TK_DEVICE void compute(const Args& args) {
            auto& [a, b] = args.input();
            warpgroup::mma_ABt(args.state.part, a, b, false);
            warpgroup::mma_async_wait<0>(args.state.part);
            args.release();
            warpgroup::store(args.output(), args.state.part);
        }
    };
    struct storer {
        template <class Args>
        static TK_DEVICE void store(const Args& args) {
            const int row = (args.task * args.g.iterations + args.iter) * 64;
            tma::store_async(args.g.out, args.output, {0, row, 0});
        }
    };
};

}  // namespace template_kernels
