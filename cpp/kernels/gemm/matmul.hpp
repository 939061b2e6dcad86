// The matrix product, out = epilogue(a b): persistent, warp-specialised, over a ring of TMA stages.
#pragma once
#include "kernels/gemm/epilogue.hpp"

TK_NAMESPACE_BEGIN

enum class loader_kind { tma, gather };

// a_transposed: M is contiguous in a (M, K). b_transposed: K is contiguous in b (K, N). The gather
// loader takes operands of any strides and stores them with K contiguous.
template <element_16bit T, bool ATransposed, bool BTransposed, loader_kind Loader, int TileM,
          int TileN, int TileK, int Consumers>
struct matmul {
    static constexpr bool gathers = Loader == loader_kind::gather;
    static constexpr bool a_transposed = ATransposed && !gathers;
    static constexpr bool b_transposed = BTransposed || gathers;
    static constexpr int tile_m = TileM, tile_n = TileN, tile_k = TileK;
    static constexpr int rows = TileM / Consumers;  // of one consumer
    static constexpr int slice_k = 64;  // a stage holds its K in slices as wide as the swizzle
    static constexpr int slices = TileK / slice_k;
    static_assert(TileK % slice_k == 0, "matmul: tile_k must be a multiple of 64");
    static_assert(rows % 64 == 0, "matmul: a consumer needs a multiple of 64 rows");
    static_assert(TileN == 16 || TileN == 32 || TileN % 64 == 0,
                  "matmul: tile_n must be 16, 32 or a multiple of 64");

    static constexpr int num_consumer_warpgroups = Consumers;
    static constexpr int max_stages = 16;
    // Worth it where finishing takes as long as computing; measured, it costs 0.5% at a large K.
    static TK_DEVICE int consumer_lead(int iterations) { return iterations <= 8 ? 3 : 0; }
    // Three warpgroups share 504 registers a lane; with two, or a busy producer, none need move.
    static constexpr bool moves_registers = Consumers == 2 && !gathers;
    static constexpr int producer_registers = moves_registers ? 40 : 0;
    static constexpr int consumer_registers = moves_registers ? 232 : 0;

    struct layout {
        using a_tile =
            std::conditional_t<a_transposed, st<T, slice_k, TileM>, st<T, TileM, slice_k>>;
        using b_tile =
            std::conditional_t<b_transposed, st<T, TileN, slice_k>, st<T, slice_k, TileN>>;
        struct input_block {
            a_tile a[slices];
            b_tile b[slices];
        };
        struct scratch_block {
            typename matmul_epilogue<T, TileN>::staging out[Consumers];
            int votes[Consumers];
        };
    };
    using a_source = std::conditional_t<gathers, gl_view<const T>, gl<T, typename layout::a_tile>>;
    using b_source = std::conditional_t<gathers, gl_view<const T>, gl<T, typename layout::b_tile>>;

    struct globals {
        lcf_config config;
        tile_order order;  // over cluster tiles
        split_k split;
        int batch;
        a_source a;
        b_source b;
        matmul_epilogue<T, TileN> epilogue;
    };

    // A task: one split of the output tile at `at`. `tile` is its number among all.
    struct common_state {
        coord at;
        multicast along_n, along_m;
        int split, k_begin, tile;
    };

    static TK_DEVICE int common_setup(const globals& g, const cluster_tile& place, int task,
                                      common_state& common) {
        const cluster_shape& shape = g.config.cluster;
        const int tiles = g.order.rows * g.order.cols;
        const int tile = g.split.splits == 1 ? task : task / g.split.splits;
        const int batch = g.batch == 1 ? 0 : tile / tiles;
        const tile_coord position = g.order.at(tile - batch * tiles);
        common.at = {batch, (position.row * shape.m + place.m) * TileM,
                     (position.col * shape.n + place.n) * TileN};
        common.along_n = place.along_n, common.along_m = place.along_m;
        common.split = task - tile * g.split.splits;
        common.k_begin = g.split.begin(common.split);
        common.tile = (tile * shape.m + place.m) * shape.n + place.n;
        return g.split.count(common.split);
    }

    struct producer {
        static constexpr int warps = gathers ? 4 : 1, arrivals = warps;

        static TK_DEVICE void prefetch(const globals& g) {
            if constexpr (!gathers) {
                tma::prefetch_descriptor(g.a);
                tma::prefetch_descriptor(g.b);
            }
        }

        template <class Args>
        static TK_DEVICE void load(const Args& args) {
            const auto& [at, along_n, along_m, split, k_begin, tile] = args.common;
            auto& arrived = args.inputs_arrived;
            if constexpr (!gathers) warp::expect_bytes(arrived, int(sizeof(args.input)));
            TK_UNROLL
            for (int i = 0; i < slices; ++i) {
                const int k = (k_begin + args.iter) * TileK + i * slice_k;
                const auto a_at =
                    a_transposed ? coord{at.batch, k, at.row} : coord{at.batch, at.row, k};
                const auto b_at =
                    b_transposed ? coord{at.batch, at.col, k} : coord{at.batch, k, at.col};
                if constexpr (gathers) {
                    warpgroup::load(args.input.a[i], args.g.a, a_at);
                    warpgroup::load(args.input.b[i], args.g.b, b_at);
                } else {
                    tma::cluster::load_async(args.input.a[i], args.g.a, a_at, arrived, along_n);
                    tma::cluster::load_async(args.input.b[i], args.g.b, b_at, arrived, along_m);
                }
            }
            if constexpr (gathers) {
                fence_async_proxy();
                warp::arrive(arrived);
            }
        }
    };

    struct consumer {
        struct state {
            rt_fl<rows / 4, TileN> product;
            int turn = 0;  // of the epilogue's tiles
        };

        template <class Args>
        static TK_DEVICE void compute(const Args& args) {
            auto& product = args.state.product;
            auto& [a, b] = args.input();
            TK_UNROLL
            for (int i = 0; i < slices; ++i) {
                const bool more = i > 0 || args.iter > 0;  // else the product starts here
                if constexpr (a_transposed) {
                    const auto& part = subtile_inplace<slice_k, rows>(a[i], 0, args.consumer);
                    warpgroup::template mma<true, b_transposed>(product, part, b[i], more);
                } else {
                    const auto& part = subtile_inplace<rows, slice_k>(a[i], args.consumer, 0);
                    warpgroup::template mma<false, b_transposed>(product, part, b[i], more);
                }
            }
            warpgroup::template mma_async_wait<slices>(product);
            args.template release<1>();  // the products before these no longer read their stage
        }

        template <class Args>
        static TK_DEVICE void finish(const Args& args) {
            auto& product = args.state.product;
            warpgroup::template mma_async_wait<0>(product);
            args.release();
            const int part = args.consumer;
            const auto& [tile_at, along_n, along_m, split, k_begin, tile] = args.common;
            const coord at = {tile_at.batch, tile_at.row + part * rows, tile_at.col};
            const auto& epilogue = args.g.epilogue;
            if (args.g.split.splits > 1 &&
                !args.g.split.sum(product, split, tile * Consumers + part, epilogue.rows - at.row,
                                  &args.scratch.votes[part], 1 + part)) {
                return;
            }
            epilogue.store(product, at, args.scratch.out[part], args.state.turn, 1 + part);
        }
    };
};

TK_NAMESPACE_END
