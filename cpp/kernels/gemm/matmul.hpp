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
    static_assert(TileK % slice_k == 0 && rows % 64 == 0,
                  "matmul: tile_k and the rows of a consumer must be multiples of 64");
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
            semaphore parts_arrived[Consumers];
        };
    };
    // Whether the splits of a tile may be a cluster, and the memory that a block then needs for
    // each of the others: one part of a tile. Two splits are the fewest, so that of two parts a
    // block owns one at most.
    static constexpr bool sums_in_cluster =
        !gathers && rows == 64 && TileN <= 128 && Consumers <= 2;
    static constexpr int64_t bytes_per_part = sums_in_cluster ? rows * TileN * 4 : 0;

    static TK_DEVICE void init_scratch(typename layout::scratch_block& scratch) {
        if constexpr (sums_in_cluster) init_semaphores(scratch.parts_arrived, Consumers, 1, "part");
    }

    using a_source = std::conditional_t<gathers, gl_view<const T>,
                                        gl<T, 1, -1, -1, -1, typename layout::a_tile>>;
    using b_source = std::conditional_t<gathers, gl_view<const T>,
                                        gl<T, 1, -1, -1, -1, typename layout::b_tile>>;

    using common_state = tile_task;
    struct globals {
        lcf_config config;
        tile_tasks<TileM, TileN> tasks;
        a_source a;
        b_source b;
        matmul_epilogue<T, TileN> epilogue;
    };

    static TK_DEVICE int common_setup(const globals& g, const cluster_tile& place, int task,
                                      common_state& common) {
        return g.tasks.get(task, place, g.config.cluster, common);
    }

    struct producer {
        static constexpr int warps = gathers ? 4 : 1, arrivals = warps;

        static TK_DEVICE void prefetch(const globals& g) {
            if constexpr (!gathers) tma::prefetch_descriptors(g.a, g.b);
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
                    a_transposed ? coord{at.depth, k, at.row} : coord{at.depth, at.row, k};
                const auto b_at =
                    b_transposed ? coord{at.depth, at.col, k} : coord{at.depth, k, at.col};
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
            const tile_task& task = args.common;
            const coord at = {task.at.depth, task.at.row + part * rows, task.at.col};
            const auto& [config, tasks, a, b, epilogue] = args.g;
            if (tasks.split.splits > 1 && !has_sum(args, part, epilogue.rows - at.row)) {
                return;  // another block adds this part to its own
            }
            epilogue.store(product, at, args.scratch.out[part], args.state.turn, 1 + part);
        }

        // Whether this block has the sum of all splits now.
        template <class Args>
        static TK_DEVICE bool has_sum(const Args& args, int part, int valid_rows) {
            const tile_task& task = args.common;
            const split_k& split = args.g.tasks.split;
            auto& scratch = args.scratch;
            if constexpr (sums_in_cluster) {
                if (args.g.config.cluster.k > 1) {
                    return split.sum_in_cluster(args.state.product, part, valid_rows,
                                                reinterpret_cast<float*>(args.tail()),
                                                scratch.parts_arrived[part]);
                }
            }
            return split.sum(args.state.product, task.split, task.tile * Consumers + part,
                             valid_rows, &scratch.votes[part], 1 + part);
        }
    };
};

TK_NAMESPACE_END
