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
    static constexpr int tile_k = TileK;
    static constexpr int consumer_rows = TileM / Consumers;
    // A warp's epilogue works on pieces of 16 rows and up to 64 columns.
    static constexpr int piece_cols = TileN < 64 ? TileN : 64;
    static constexpr int col_pieces = TileN / piece_cols;
    static constexpr int num_pieces = consumer_rows / 64 * col_pieces;
    static constexpr int slice_k = 64;  // a stage holds its K in slices as wide as the swizzle
    static constexpr int slices = TileK / slice_k;
    static_assert(TileK % slice_k == 0, "matmul: tile_k must be a multiple of 64");
    static_assert(consumer_rows % 64 == 0, "matmul: a consumer needs a multiple of 64 rows");
    static_assert(TileN % piece_cols == 0 && TileN % 16 == 0,
                  "matmul: tile_n must be 16, 32, 48 or a multiple of 64");

    static constexpr int num_consumer_warpgroups = Consumers;
    static constexpr int max_stages = 16;
    // Three warpgroups share 504 registers a lane; with two, or a busy producer, none need move.
    static constexpr bool moves_registers = Consumers == 2 && !gathers;
    static constexpr int producer_registers = moves_registers ? 40 : 0;
    static constexpr int consumer_registers = moves_registers ? 232 : 0;

    struct layout {
        using a_tile =
            std::conditional_t<a_transposed, st<T, slice_k, TileM>, st<T, TileM, slice_k>>;
        using b_tile =
            std::conditional_t<b_transposed, st<T, TileN, slice_k>, st<T, slice_k, TileN>>;
        using piece_tile = st<T, 16, piece_cols>;
        struct input_block {
            a_tile a[slices];
            b_tile b[slices];
        };
        struct scratch_block {
            st_fl<16, piece_cols> pieces[Consumers * 4];  // one a warp, or two piece_tiles
            int vote[Consumers];
        };
    };
    using a_source = std::conditional_t<gathers, gl_view<const T>, gl<T, typename layout::a_tile>>;
    using b_source = std::conditional_t<gathers, gl_view<const T>, gl<T, typename layout::b_tile>>;

    struct globals {
        lcf_config config;
        a_source a;
        b_source b;
        gl_view<T> out;  // for rows of whole vectors, with nothing to do but scale
        any_gl out_any;  // for everything else
        bool out_by_vectors;
        matmul_epilogue epilogue;
        tile_order order;  // over cluster tiles
        int m, n, batch;
        int splits, split_tiles,
            longer_splits;  // K tiles of a split; the first splits have one more
        float* workspace;
        int* counters;
    };

    // A task: split `split` of the output tile at `at`, over K tiles k_begin onwards.
    struct common_state {
        coord at;
        multicast along_n, along_m;
        int k_begin, split, tile;  // tile: its number among all, for the workspace
    };

    static TK_DEVICE int common_setup(const globals& g, const cluster_tile& place, int task,
                                      common_state& common) {
        const cluster_shape& shape = g.config.cluster;
        const int tiles = g.order.rows * g.order.cols;
        const int tile = g.splits == 1 ? task : task / g.splits;
        const int batch = g.batch == 1 ? 0 : tile / tiles;
        const tile_coord position = g.order.at(tile - batch * tiles);
        common.at = {batch, (position.row * shape.m + place.m) * TileM,
                     (position.col * shape.n + place.n) * TileN};
        common.along_n = place.along_n, common.along_m = place.along_m;
        common.split = task - tile * g.splits;
        common.tile = (tile * shape.m + place.m) * shape.n + place.n;
        const bool longer = common.split < g.longer_splits;
        common.k_begin = common.split * g.split_tiles + (longer ? common.split : g.longer_splits);
        return g.split_tiles + (longer ? 1 : 0);
    }

    struct producer {
        static constexpr int warps = gathers ? 4 : 1;
        static constexpr int arrivals = warps;

        static TK_DEVICE void prefetch(const globals& g) {
            if constexpr (!gathers) {
                tma::prefetch_descriptor(g.a);
                tma::prefetch_descriptor(g.b);
            }
        }

        template <class Args>
        static TK_DEVICE void load(const Args& args) {
            const common_state& task = args.common;
            const int batch = task.at.batch;
            if constexpr (!gathers) {
                warp::expect_bytes(args.inputs_arrived, int(sizeof(args.input)));
            }
            TK_UNROLL
            for (int i = 0; i < slices; ++i) {
                const int k = (task.k_begin + args.iter) * TileK + i * slice_k;
                const coord a_at =
                    a_transposed ? coord{batch, k, task.at.row} : coord{batch, task.at.row, k};
                const coord b_at =
                    b_transposed ? coord{batch, task.at.col, k} : coord{batch, k, task.at.col};
                if constexpr (gathers) {
                    warpgroup::load(args.input.a[i], args.g.a, a_at);
                    warpgroup::load(args.input.b[i], args.g.b, b_at);
                } else {
                    tma::cluster::load_async(args.input.a[i], args.g.a, a_at, args.inputs_arrived,
                                             task.along_n);
                    tma::cluster::load_async(args.input.b[i], args.g.b, b_at, args.inputs_arrived,
                                             task.along_m);
                }
            }
            if constexpr (gathers) {
                fence_async_proxy();
                warp::arrive(args.inputs_arrived);
            }
        }
    };

    struct consumer {
        struct state {
            rt_fl<consumer_rows / 4, TileN> product;
        };

        template <class Args>
        static TK_DEVICE void setup(const Args& args) {
            warp::zero(args.state.product);
        }

        template <class Args>
        static TK_DEVICE void compute(const Args& args) {
            auto& product = args.state.product;
            const int part = args.consumer;
            TK_UNROLL
            for (int i = 0; i < slices; ++i) {
                const auto& b = args.input().b[i];
                if constexpr (a_transposed) {
                    warpgroup::template mma<true, b_transposed>(
                        product,
                        subtile_inplace<slice_k, consumer_rows>(args.input().a[i], 0, part), b);
                } else {
                    warpgroup::template mma<false, b_transposed>(
                        product,
                        subtile_inplace<consumer_rows, slice_k>(args.input().a[i], part, 0), b);
                }
            }
            warpgroup::template mma_async_wait<slices>(product);
            args.template release<1>();  // the product before this one no longer reads its stage
        }

        template <class Args>
        static TK_DEVICE void finish(const Args& args) {
            auto& product = args.state.product;
            warpgroup::template mma_async_wait<0>(product);
            args.release();
            const int part = args.consumer;
            if (args.g.splits > 1 && !sum_splits(args, part)) return;
            if constexpr (piece_cols == 64) {
                if (args.g.out_by_vectors) return store_by_vectors(args);
            }
            store_anywhere(args);
        }

      private:
        // Parks this split's part of the tile; the last split to come adds all of them, in order.
        template <class Args>
        static TK_DEVICE bool sum_splits(const Args& args, int part) {
            auto& product = args.state.product;
            const auto& [at, along_n, along_m, k_begin, split, tile] = args.common;
            const int owner = tile * Consumers + part;
            const int valid_rows = args.g.m - at.row - part * consumer_rows;
            const int64_t floats = int64_t(consumer_rows) * TileN;
            float* slots = args.g.workspace + owner * int64_t(args.g.splits) * floats;
            warpgroup::store_fragment(slots + split * floats, product, valid_rows);
            if (!warpgroup::arrive_last(args.g.counters + owner, args.g.splits,
                                        &args.scratch.vote[part], 1 + part)) {
                return false;
            }
            warpgroup::load_fragment(product, slots, valid_rows);
            TK_NO_UNROLL
            for (int i = 1; i < args.g.splits; ++i) {
                warpgroup::add_fragment(product, slots + i * floats, valid_rows);
            }
            return true;
        }

        // Where a piece of the calling warp starts in the output.
        template <class Args>
        static TK_DEVICE coord piece_at(const Args& args, int piece) {
            const coord& at = args.common.at;
            return {at.batch,
                    at.row + args.consumer * consumer_rows + piece / col_pieces * 64 +
                        warpgroup::warpid() * 16,
                    at.col + piece % col_pieces * piece_cols};
        }

        template <class Args>
        static TK_DEVICE void store_by_vectors(const Args& args) {
            auto& product = args.state.product;
            if (args.g.epilogue.alpha != 1.0f) warp::mul(product, product, args.g.epilogue.alpha);
            auto* staged = view_as<typename layout::piece_tile>(
                args.scratch.pieces[args.consumer * 4 + warpgroup::warpid()]);
            TK_UNROLL
            for (int i = 0; i < num_pieces; ++i) {
                warp::store(staged[i % 2],
                            subtile<16, piece_cols>(product, i / col_pieces, i % col_pieces));
                warp::sync();
                warp::store(args.g.out, staged[i % 2], piece_at(args, i));
            }
            warp::sync();
        }

        // A loop, and the code of a piece once: unrolled it outgrows the instruction cache.
        template <class Args>
        static TK_DEVICE void store_anywhere(const Args& args) {
            auto& staged = args.scratch.pieces[args.consumer * 4 + warpgroup::warpid()];
            const any_gl& out = args.g.out_any;
            TK_NO_UNROLL
            for (int piece = 0; piece < num_pieces; ++piece) {
                const coord at = piece_at(args, piece);
                if (at.row >= args.g.m || at.col >= args.g.n) continue;
                TK_UNROLL
                for (int i = 0; i < num_pieces; ++i) {  // registers are named at compile time
                    if (i == piece) {
                        warp::store(staged,
                                    subtile<16, piece_cols>(args.state.product, i / col_pieces,
                                                            i % col_pieces));
                    }
                }
                warp::sync();
                warp::for_each8(staged, out.row_stride < out.col_stride,
                                [&](int row, int col, float (&values)[8]) {
                                    const coord to = {at.batch, at.row + row, at.col + col};
                                    if (to.row >= args.g.m || to.col >= args.g.n) return;
                                    args.g.epilogue.apply(values, to, args.g.n);
                                    out.set8(values, to, args.g.n);
                                });
                warp::sync();
            }
        }
    };
};

TK_NAMESPACE_END
