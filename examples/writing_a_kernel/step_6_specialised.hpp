// Steps 6 to 8, warp-specialised, persistent and ordered: one warp loads, two warpgroups multiply
// 128 x 256 tiles between them. The load-compute-finish template keeps the ring, the phases and the
// walk over tiles; what is left says what is loaded, computed and stored.
//
// The three steps are one kernel. With a task for every block it is step 6; with as many blocks as
// the GPU has SMs, which take task after task, step 7; and step 8 is step 7 in an order in which
// neighbours in time are neighbours in the matrix.
#pragma once
#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

struct specialised_product {
    static constexpr int num_consumer_warpgroups = 2, num_stages = 4;
    static constexpr int producer_registers = 40, consumer_registers = 232;
    using operand = st_bf<128, 64>;
    using wide_operand = st_bf<256, 64>;
    using piece = st_bf<64, 64>;  // in which the output leaves

    struct layout {
        struct input_block {
            operand a;
            wide_operand b;
        };
        struct scratch_block {
            piece out[num_consumer_warpgroups];
        };
    };
    struct globals {
        lcf_config config;
        tile_tasks<128, 256> tasks;
        gl<bf16, 1, 1, -1, -1, operand> a;
        gl<bf16, 1, 1, -1, -1, wide_operand> b;
        gl<bf16, 1, 1, -1, -1, piece> out;
    };
    using common_state = tile_task;

    // Once for every task, by every warp: which tile it is, and how many stages it takes.
    static TK_DEVICE int common_setup(const globals& g, const cluster_tile& place, int task,
                                      common_state& common) {
        return g.tasks.get(task, place, g.config.cluster, common);
    }

    struct producer {
        static TK_DEVICE void prefetch(const globals& g) { tma::prefetch_descriptors(g.a, g.b); }

        template <class Args>
        static TK_DEVICE void load(const Args& args) {
            const coord& at = args.common.at;
            const int k = args.iter * 64;
            warp::expect_bytes(args.inputs_arrived, int(sizeof(args.input)));
            tma::load_async(args.input.a, args.g.a, {at.row, k}, args.inputs_arrived);
            tma::load_async(args.input.b, args.g.b, {at.col, k}, args.inputs_arrived);
        }
    };

    struct consumer {
        struct state {
            rt_fl<16, 256> sum;
        };
        template <class Args>
        static TK_DEVICE void compute(const Args& args) {
            auto& sum = args.state.sum;
            const auto& a = subtile_inplace<64, 64>(args.input().a, args.consumer, 0);
            warpgroup::mma_ABt(sum, a, args.input().b, args.iter > 0);
            warpgroup::template mma_async_wait<1>(sum);
            args.template release<1>();  // the product before this one has read its stage
        }
        template <class Args>
        static TK_DEVICE void finish(const Args& args) {
            auto& sum = args.state.sum;
            warpgroup::template mma_async_wait<0>(sum);
            args.release();
            piece& out = args.scratch.out[args.consumer];
            const int barrier = 1 + args.consumer;
            const coord at = args.common.at;
            TK_UNROLL
            for (int j = 0; j < 4; ++j) {
                if (warpgroup::warpid() == 0) tma::store_async_read_wait();
                warpgroup::sync(barrier);  // the piece before has left
                warpgroup::store(out, subtile<16, 64>(sum, 0, j));
                fence_async_proxy();
                warpgroup::sync(barrier);
                if (warpgroup::warpid() == 0) {
                    tma::store_async(args.g.out, out,
                                     {at.row + args.consumer * 64, at.col + j * 64});
                }
            }
        }
    };
};

TK_NAMESPACE_END
