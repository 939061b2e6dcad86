// The softmax over tiles of scores, and what comes of it: a row's output and its log-sum-exp, of
// all keys or of a split of them.
#pragma once
#include "kernels/attention/tasks.hpp"

TK_NAMESPACE_BEGIN

// 2^(factor (a - b)); 0 for a of -infinity, whatever b is. Sums whose terms were 2^(factor score -
// factor a), with factor a rounded, become those of b: exactly so, however large a and b are.
struct scaled_power {
    float factor;
    TK_DEVICE float operator()(float a, float b) const {
        const functions::rounded_mul product;
        const bool nothing = b == -std::numeric_limits<float>::infinity();
        return functions::exp2{}(product(a, factor) - (nothing ? 0.0f : product(b, factor)));
    }
};

// Of a row: a score near the largest, and the sum of 2^(factor (score - that)), of each lane for
// itself. What is measured from it stays as it is until a score is 2^8 times as heavy: most tiles
// then change no earlier sum. Of the first keys it is the largest: of few the heaviest counts for
// much, and its weight, 1, is rounded by nothing.
template <register_tile S>
struct softmax_state {
    static constexpr float slack = 8.0f;  // a power of 2: weights stay far below 65504, fp16's most
    col_vec<S> largest, sum;
    col_vec<S> correction;  // of all before: 2^(factor (largest before - largest)),
    bool corrects;          // if that is not 1 for all rows of a warp

    TK_DEVICE void reset() {
        warpgroup::neg_infty(largest);
        warpgroup::zero(sum);
    }
    // The scores become the summands.
    TK_DEVICE void weigh(S& scores, bool exactly, float factor) {
        const float room = exactly ? 0.0f : slack;
        const col_vec<S> before = largest;
        warpgroup::row_max(largest, scores, before);
        warpgroup::map(largest, before, largest, [=](float from, float to) {
            return (to - from) * factor <= room ? from : to;
        });
        corrects = warp::any(before, largest, [](float from, float to) { return from != to; });
        warpgroup::exp2_scaled_sub_row(scores, scores, largest, factor);
        if (corrects) {
            warpgroup::map(correction, before, largest, scaled_power{factor});
            warpgroup::mul(sum, sum, correction);
        }
        warpgroup::lane_row_sum(sum, scores, sum);
    }
};

template <element_16bit T>
struct attention_epilogue {
    T* out = nullptr;
    float* lse = nullptr;                    // null: none
    int64_t out_strides[3], lse_strides[3];  // row, head, batch
    int value_dim = 0;
    float* workspace = nullptr;  // of the splits
    int* counters = nullptr;     // one an owner; 0 before and after

    // A part in the workspace: its output in pieces of `piece_cols` columns, then each row's
    // largest score and sum. They stay apart: of a logarithm of both, fp32 keeps too little if
    // scores are large.
    static constexpr int piece_cols = 32;
    static TK_HOST_DEVICE constexpr int floats_per_part(int value_dim) {
        return 64 * (value_dim + 2);
    }

    // A warpgroup's 64 rows from row_0 on. `owner` numbers them over all; `vote` is a word of
    // shared memory and barrier_id a named barrier, of the warpgroup's own.
    template <class R, class Softmax>
    TK_DEVICE void store(R& sums, Softmax& softmax, float factor, const attention_tasks& tasks,
                         const attention_task& task, int row_0, int owner, int* vote,
                         int barrier_id) const {
        using V = col_vec<R>;
        auto& [largest, sum, correction, corrects] = softmax;
        warpgroup::finish_row_sum(sum, sum);
        divide_rows(sums, sum);
        const auto out_row = [&](int row) {
            return tasks.address(out, out_strides, task, row_0 + row);
        };
        const int splits = int(tasks.splits.divisor);
        if (splits == 1) {
            warpgroup::scatter_rows(out_row, sums, value_dim);
            return store_logs(softmax, factor, tasks, task, row_0);
        }

        constexpr int64_t part_floats = floats_per_part(R::cols);
        float* const parts = workspace + int64_t(owner) * splits * part_floats;
        float* const own = parts + task.split * part_floats;
        const int valid = tasks.rows(task) - row_0;
        TK_UNROLL
        for (int i = 0; i < R::cols / piece_cols; ++i) {
            warpgroup::store_fragment(own + i * 64 * piece_cols,
                                      subtile<16, piece_cols>(sums, 0, i), valid);
        }
        warpgroup::scatter_row_values([=](int row) { return own + 64 * R::cols + row; }, largest);
        warpgroup::scatter_row_values([=](int row) { return own + 64 * (R::cols + 1) + row; }, sum);
        if (!warpgroup::arrive_last(counters + owner, splits, vote, barrier_id)) return;

        const auto load_values = [&](V& to, int split, int which) {
            const float* const from = parts + split * part_floats + 64 * (R::cols + which);
            warpgroup::gather_row_values(to, [=](int row) { return from + row; });
        };
        V weight, part;
        warpgroup::neg_infty(largest);
        TK_NO_UNROLL
        for (int split = 0; split < splits; ++split) {
            load_values(part, split, 0);
            warpgroup::max(largest, largest, part);
        }
        TK_NO_UNROLL
        for (int i = 0; i < R::cols / piece_cols; ++i) {
            rt_fl<16, piece_cols> total, out_of_part;
            warpgroup::zero(total);
            warpgroup::zero(sum);
            TK_NO_UNROLL
            for (int split = 0; split < splits; ++split) {
                load_values(part, split, 0);
                warpgroup::map(weight, part, largest, scaled_power{factor});
                load_values(part, split, 1);
                warpgroup::mul(weight, weight, part);
                warpgroup::add(sum, sum, weight);
                warpgroup::sum_fragments(
                    out_of_part, parts + split * part_floats + i * 64 * piece_cols, 1, 0, valid);
                warpgroup::mul_row(out_of_part, out_of_part, weight);
                warpgroup::add(total, total, out_of_part);
            }
            divide_rows(total, sum);
            warpgroup::scatter_rows(
                [&](int row) {
                    T* const to = out_row(row);
                    return to == nullptr ? to : to + i * piece_cols;
                },
                total, value_dim - i * piece_cols);
        }
        store_logs(softmax, factor, tasks, task, row_0);
    }

  private:
    // 0 where the sum is: a row without keys, whatever became of it.
    template <class R, class V>
    static TK_DEVICE void divide_rows(R& tile, const V& sums) {
        V inverse;
        warpgroup::map(inverse, sums, [](float x) { return x == 0.0f ? 0.0f : 1.0f / x; });
        if (warp::any(sums, [](float x) { return x == 0.0f; })) {
            warpgroup::map_row(tile, tile, inverse,
                               [](float x, float by) { return by == 0.0f ? 0.0f : x * by; });
        } else {
            warpgroup::mul_row(tile, tile, inverse);
        }
    }
    // A row without keys has a sum of 0, and one with them of 1 or more.
    template <class Softmax>
    TK_DEVICE void store_logs(const Softmax& softmax, float factor, const attention_tasks& tasks,
                              const attention_task& task, int row_0) const {
        if (lse == nullptr) return;
        auto logs = softmax.largest;
        warpgroup::map(logs, softmax.largest, softmax.sum, [=](float x, float y) {
            return (functions::rounded_mul{}(x, factor) + log2f(y)) * 0.6931471805599453f;
        });
        warpgroup::scatter_row_values(
            [&](int row) { return tasks.address(lse, lse_strides, task, row_0 + row); }, logs);
    }
};

TK_NAMESPACE_END
