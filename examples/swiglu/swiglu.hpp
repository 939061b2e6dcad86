// A fused SwiGLU product (Shazeer, arXiv 2002.05202, eq. 5): out = silu(a w1) * (a w2), bf16.
//
// Both products of a tile are accumulated side by side from one load of a, so that neither of them,
// nor the activation, ever goes through memory. The ring, the phases and the persistent loop are
// the load-compute-finish template's; here stands only what is loaded, computed and stored.
#include "tk/extend.hpp"

namespace {

using namespace tk;

struct swiglu_kernel {
    static constexpr int tile_m = 128, tile_n = 128, tile_k = 64;
    static constexpr int num_consumer_warpgroups = 2;  // 64 rows of a tile each
    static constexpr int max_stages = 4, num_stages = 4;
    // A consumer holds two accumulators of 64 x 128: 128 registers a lane.
    static constexpr int producer_registers = 40, consumer_registers = 232;

    struct layout {
        using a_tile = st_bf<tile_m, tile_k>;
        using w_tile = st_bf<tile_k, tile_n>;
        using out_tile = st_bf<64, 64>;
        struct input_block {
            a_tile a;
            w_tile w1, w2;
        };
        struct scratch_block {
            out_tile out[num_consumer_warpgroups][tile_n / 64];
        };
    };

    using common_state = tile_task;
    struct globals {
        lcf_config config;
        tile_tasks<tile_m, tile_n> tasks;
        gl<bf16, 1, 1, -1, -1, layout::a_tile> a;       // (M,K)
        gl<bf16, 1, 1, -1, -1, layout::w_tile> w1, w2;  // (K,N)
        gl<bf16, 1, 1, -1, -1, layout::out_tile> out;   // (M,N)
    };

    static TK_DEVICE int common_setup(const globals& g, const cluster_tile& place, int task,
                                      common_state& common) {
        return g.tasks.get(task, place, g.config.cluster, common);
    }

    struct producer {
        static TK_DEVICE void prefetch(const globals& g) {
            tma::prefetch_descriptors(g.a, g.w1, g.w2);
        }
        template <class Args>
        static TK_DEVICE void load(const Args& args) {
            const auto& [config, tasks, a, w1, w2, out] = args.g;
            const coord at = args.common.at;
            const int k = args.iter * tile_k;
            warp::expect_bytes(args.inputs_arrived, int(sizeof(args.input)));
            tma::load_async(args.input.a, a, {at.row, k}, args.inputs_arrived);
            tma::load_async(args.input.w1, w1, {k, at.col}, args.inputs_arrived);
            tma::load_async(args.input.w2, w2, {k, at.col}, args.inputs_arrived);
        }
    };

    struct consumer {
        struct state {
            rt_fl<16, tile_n> gate, up;  // a warp's 16 rows of 64
        };

        template <class Args>
        static TK_DEVICE void compute(const Args& args) {
            auto& [gate, up] = args.state;
            auto& [a, w1, w2] = args.input();
            const auto& rows = subtile_inplace<64, tile_k>(a, args.consumer, 0);
            warpgroup::mma_AB(gate, rows, w1, args.iter > 0);
            warpgroup::mma_AB(up, rows, w2, args.iter > 0);
            warpgroup::template mma_async_wait<2>(gate, up);
            args.template release<1>();  // the two before these have read their stage
        }

        template <class Args>
        static TK_DEVICE void finish(const Args& args) {
            auto& [gate, up] = args.state;
            warpgroup::template mma_async_wait<0>(gate, up);
            args.release();
            warp::map(gate, gate, functions::silu{});
            warp::mul(gate, gate, up);

            const int barrier = 1 + args.consumer;
            auto& staged = args.scratch.out[args.consumer];
            const coord at = args.common.at;
            if (warpgroup::warpid() == 0) tma::store_async_read_wait<0>();
            warpgroup::sync(barrier);  // the tile before this has left shared memory
            TK_UNROLL
            for (int j = 0; j < tile_n / 64; ++j) {
                warpgroup::store(staged[j], subtile<16, 64>(gate, 0, j));
            }
            fence_async_proxy();
            warpgroup::sync(barrier);
            if (warpgroup::warpid() == 0) {
                TK_UNROLL
                for (int j = 0; j < tile_n / 64; ++j) {
                    tma::store_async(args.g.out, staged[j],
                                     {at.row + args.consumer * 64, at.col + j * 64});
                }
            }
        }
    };
};

void swiglu(const launch_target& target, tensor<bf16, 2> out, tensor<const bf16, 2> a,
            tensor<const bf16, 2> w1, tensor<const bf16, 2> w2) {
    using kernel = lcf<swiglu_kernel>;
    const int64_t m = a.size(0), k = a.size(1), n = w1.size(1);
    require(w1.size(0) == k, w1.text() + " must have as many rows as " + a.text() + " has columns");
    require(w2.size(0) == k && w2.size(1) == n, w2.text() + " must have the shape of " + w1.text());
    require(out.size(0) == m && out.size(1) == (n + 7) / 8 * 8,
            out.text() + " must have the rows of " + a.text() + " and the columns of " + w1.text() +
                ", rounded up to a multiple of 8");
    require(k > 0, a.text() + " must have at least one column");
    if (m == 0 || n == 0) return;

    swiglu_kernel::globals g{};
    const int k_tiles = int((k + swiglu_kernel::tile_k - 1) / swiglu_kernel::tile_k);
    // Bands of 8 rows of tiles: those that run at the same time share loads through L2.
    g.tasks = {1, m, n, {}, order_grouped_m, 8, nullptr, split_k(1, k_tiles, nullptr, nullptr)};
    g.config = {swiglu_kernel::num_stages, g.tasks.count(), {}, nullptr};
    g.a = make_gl<decltype(g.a)>(a);
    g.w1 = make_gl<decltype(g.w1)>(w1), g.w2 = make_gl<decltype(g.w2)>(w2);
    g.out = make_gl<decltype(g.out)>(out);
    target.launch<kernel>(g, {.grid = target.grid(g.tasks.count()),
                              .shared_bytes = kernel::fixed_bytes +
                                              swiglu_kernel::num_stages * kernel::bytes_per_stage});
}

}  // namespace

TK_EXPORT(swiglu, out, a, w1, w2);
