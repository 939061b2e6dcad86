// Attention forward: persistent, warp-specialised, over a ring of key and value tiles. Each
// consumer has 64 rows of queries; the product of the next scores runs under the present softmax,
// and the weights go from the accumulator to the next product in registers (Shah et al.,
// "FlashAttention-3", arXiv 2407.08608, section 3; the softmax over tiles is Milakov &
// Gimelshein's, arXiv 1805.02867).
#pragma once
#include "kernels/attention/epilogue.hpp"

TK_NAMESPACE_BEGIN

template <element_16bit T, int HeadDim, int ValueDim, int TileK, int Consumers, class Scores>
struct attention {
    static constexpr int tile_q = 64 * Consumers, tile_k = TileK;
    static constexpr int head_dim = HeadDim, value_dim = ValueDim;
    static constexpr int num_consumer_warpgroups = Consumers;
    static constexpr int max_stages = 8;
    // Whether a consumer passes over the key tiles after its last query: worth it where a query
    // tile is many key tiles long.
    static constexpr bool skips = Consumers > 3;
    // A multiprocessor has 504 registers for a lane of each of three warpgroups, 512 of four.
    static constexpr int producer_registers = Consumers == 1 ? 0 : Consumers == 2 ? 40 : 32;
    static constexpr int consumer_registers = Consumers == 1   ? 0
                                              : Consumers == 2 ? 232
                                              : Consumers == 3 ? 160
                                                               : 112;
    using scheduler = static_or_queue_scheduler;

    struct layout {
        using q_tile = st<T, 64, HeadDim>;
        using k_tile = st<T, TileK, HeadDim>;
        using v_tile = st<T, TileK, ValueDim>;
        // Iteration i has key tile i and value tile i - 1, since it issues their products together.
        struct input_block {
            k_tile k;
            v_tile v;
        };
        struct scratch_block {
            q_tile q[Consumers];
            semaphore q_released;  // the last product of a task has read q
            int votes[Consumers];
        };
    };
    static TK_DEVICE void init_scratch(typename layout::scratch_block& scratch) {
        init_semaphores(&scratch.q_released, 1, Consumers * 4, "q released");
    }

    template <class Tile>
    using source = gl<T, -1, -1, -1, -1, Tile>;  // (batch, heads, rows, dim)
    using common_state = attention_task;
    struct globals {
        lcf_config config;
        attention_tasks tasks;
        Scores scores;
        source<typename layout::q_tile> q;
        source<typename layout::k_tile> k;
        source<typename layout::v_tile> v;
        const T* packed_q = nullptr;  // if heads are packed, whose rows TMA cannot load
        int64_t q_strides[3];         // row, head, batch
        int head_dim = 0;
        attention_epilogue<T> epilogue;
        bool turns = false;
    };

    static TK_DEVICE int common_setup(const globals& g, const cluster_tile&, int index,
                                      attention_task& task) {
        g.tasks.get(index, tile_q, TileK, g.scores, task);
        if constexpr (skips) {
            const int row = task.row_0 + (warpgroup::groupid() - 1) * 64;
            if (row >= task.row_0) g.tasks.skip_hidden(row, TileK, g.scores, task);
        }
        return task.tiles == 0 ? 0 : task.tiles + 1;
    }

    struct producer {
        // One for keys and values, and one for queries, which waits for the task before.
        static constexpr int warps = 2;
        struct state {
            int released = 1;  // the phase of q_released
        };

        static TK_DEVICE void prefetch(const globals& g) { tma::prefetch_descriptors(g.k, g.v); }

        template <class Args>
        static TK_DEVICE void load(const Args& args) {
            if (warpgroup::warpid() == 0) return load_keys(args);
            if (args.iter > 0) return warp::arrive(args.inputs_arrived);
            wait(args.scratch.q_released, args.state.released);
            args.state.released ^= 1;
            load_queries(args);
        }

      private:
        template <class Args>
        static TK_DEVICE void load_keys(const Args& args) {
            using input = typename layout::input_block;
            const globals& g = args.g;
            const attention_task& task = args.common;
            const bool has_k = args.iter < task.tiles, has_v = args.iter > 0;
            auto& arrived = args.inputs_arrived;
            coord at = {g.tasks.batch_of(task), task.kv_head,
                        task.k_0 + (task.last_tile - args.iter) * TileK, 0};
            warp::expect_bytes(
                arrived, (has_k ? int(sizeof(input::k)) : 0) + (has_v ? int(sizeof(input::v)) : 0));
            if (has_k) tma::load_async(args.input.k, g.k, at, arrived);
            at.row += TileK;
            if (has_v) tma::load_async(args.input.v, g.v, at, arrived);
        }
        template <class Args>
        static TK_DEVICE void load_queries(const Args& args) {
            const globals& g = args.g;
            const attention_task& task = args.common;
            auto& q = args.scratch.q;
            if (g.packed_q == nullptr) {
                warp::expect_bytes(args.inputs_arrived, int(sizeof(q)));
                TK_UNROLL
                for (int i = 0; i < Consumers; ++i) {
                    const coord at = {g.tasks.batch_of(task), task.head,
                                      task.q_0 + task.row_0 + i * 64, 0};
                    tma::load_async(q[i], g.q, at, args.inputs_arrived, eviction::first);
                }
                return;
            }
            TK_NO_UNROLL
            for (int i = 0; i < Consumers; ++i) {
                warp::gather_rows(
                    q[i],
                    [&](int row) {
                        return g.tasks.address(g.packed_q, g.q_strides, task,
                                               task.row_0 + i * 64 + row);
                    },
                    g.head_dim);
            }
            fence_async_proxy();
            warp::arrive(args.inputs_arrived);
        }
    };

    struct consumer {
        // Named barriers beside those of the epilogue, 1 to the number of consumers.
        static constexpr int first_turn = 8, cleared_barrier = 12;
        static constexpr int exact_keys = 512;  // the first, of which the largest score is sought

        struct state {
            rt_fl<16, TileK> scores;
            rt<T, 16, TileK> weights;
            rt_fl<16, ValueDim> out;
            softmax_state<rt_fl<16, TileK>> softmax;
            attention_range unchanged;  // keys whose scores stay what they are
        };

        template <class Args>
        static TK_DEVICE void compute(const Args& args) {
            if (args.iter > skipped(args)) {
                if (args.iter < args.common.tiles) {
                    next(args);
                } else {
                    last(args);
                }
                return;
            }
            if constexpr (skips) {
                if (args.iter < skipped(args)) return skip(args);
            }
            first(args);
        }

        template <class Args>
        static TK_DEVICE void finish(const Args& args) {
            auto& [scores, weights, out, softmax, unchanged] = args.state;
            const attention_task& task = args.common;
            const int part = args.consumer, row_0 = task.row_0 + part * 64;
            if (row_0 >= args.g.tasks.rows(task)) return;
            if (task.tiles == 0) softmax.reset();
            args.g.epilogue.store(out, softmax, args.g.scores.factor, args.g.tasks, task, row_0,
                                  task.owner * Consumers + part, &args.scratch.votes[part],
                                  1 + part);
        }

      private:
        template <class Args>
        static TK_DEVICE int skipped(const Args& args) {
            return skips ? args.common.skipped : 0;
        }

        // Of causal work, that of the queries above the tile's last ones. Turns are kept.
        template <class Args>
        static TK_DEVICE void skip(const Args& args) {
            clear_beyond(args);
            await_turn(args);
            pass_turn(args);
            args.release();
        }

        template <class Args>
        static TK_DEVICE void first(const Args& args) {
            auto& [scores, weights, out, softmax, unchanged] = args.state;
            if constexpr (skips) {
                clear_beyond(args);
                await_turn(args);
            }
            warpgroup::mm_ABt(scores, args.scratch.q[args.consumer], args.input().k);
            if constexpr (skips) pass_turn(args);
            const attention_task& task = args.common;
            unchanged = args.g.scores.unchanged(
                args.g.tasks.queries(task, task.row_0 + args.consumer * 64, 64), task.lengths);
            softmax.reset();
            warpgroup::mma_async_wait<0>(scores);
            args.release();
            if (args.iter == args.common.tiles - 1) warp::arrive(args.scratch.q_released);
            weigh(args);
            warpgroup::copy(weights, scores);
        }

        template <class Args>
        static TK_DEVICE void next(const Args& args) {
            auto& [scores, weights, out, softmax, unchanged] = args.state;
            clear_beyond(args);
            await_turn(args);
            warpgroup::mm_ABt(scores, args.scratch.q[args.consumer], args.input().k);
            add_values(args);
            pass_turn(args);
            warpgroup::mma_async_wait<1>(scores, out, weights);
            if (args.iter == args.common.tiles - 1) warp::arrive(args.scratch.q_released);
            weigh(args);
            warpgroup::keep_before_wait(softmax.sum);
            warpgroup::mma_async_wait<0>(out, weights);
            args.release();
            warpgroup::copy(weights, scores);
        }

        template <class Args>
        static TK_DEVICE void last(const Args& args) {
            auto& [scores, weights, out, softmax, unchanged] = args.state;
            clear_beyond(args);
            add_values(args);
            warpgroup::mma_async_wait<0>(out, weights);
            args.release();
        }

        // The correction runs under the product of the next scores, which is issued before it.
        template <class Args>
        static TK_DEVICE void add_values(const Args& args) {
            auto& [scores, weights, out, softmax, unchanged] = args.state;
            const bool adds = args.iter > skipped(args) + 1;
            if (softmax.corrects && adds) warpgroup::mul_row(out, out, softmax.correction);
            warpgroup::mma_AB(out, weights, args.input().v, adds);
        }

        // The scores become weights.
        template <class Args>
        static TK_DEVICE void weigh(const Args& args) {
            auto& [scores, weights, out, softmax, unchanged] = args.state;
            const attention_task& task = args.common;
            const auto& rule = args.g.scores;
            const int key_0 = (task.last_tile - args.iter) * TileK;
            if (key_0 < unchanged.first || key_0 + TileK > unchanged.end) {
                const int first = task.row_0 + args.consumer * 64;
                rule.change([&](auto&& f) {
                    warpgroup::apply(scores, scores, [&](int row, int col, float score) {
                        return f(args.g.tasks.place(task, first + row, key_0 + col), score);
                    });
                });
            }
            const int seen = args.iter - skipped(args);
            softmax.weigh(scores, seen * TileK < exact_keys, rule.factor);
        }

        // What follows the last value of a packed sequence is another's, and a weight of 0 does not
        // make 0 of its infinities and NaNs.
        template <class Args>
        static TK_DEVICE void clear_beyond(const Args& args) {
            if (args.iter != 1 || args.g.tasks.first_keys == nullptr) return;
            const attention_task& task = args.common;
            const int valid = task.lengths.keys - task.last_tile * TileK;
            if (valid >= TileK) return;
            auto& v = args.input().v;
            if (args.consumer == 0) {
                warpgroup::apply(v, v,
                                 [=](int row, int, float x) { return row < valid ? x : 0.0f; });
                fence_async_proxy();
            }
            named_barrier::sync(cleared_barrier, Consumers * 4);
        }

        // One consumer's products are issued while another has its exponentials.
        template <class Args>
        static TK_DEVICE void await_turn(const Args& args) {
            if constexpr (Consumers > 1) {
                if (args.g.turns && args.iter > (args.consumer > 0 ? 0 : 1)) {
                    warpgroup::await_turn(first_turn + args.consumer);
                }
            }
        }
        template <class Args>
        static TK_DEVICE void pass_turn(const Args& args) {
            if constexpr (Consumers > 1) {
                const int next = args.consumer + 1 == Consumers ? 0 : args.consumer + 1;
                const bool takes = next > 0 || args.iter + 1 < args.common.tiles;
                if (args.g.turns && args.iter > 0 && takes) {
                    warpgroup::pass_turn(first_turn + next);
                }
            }
        }
    };
};

TK_NAMESPACE_END
