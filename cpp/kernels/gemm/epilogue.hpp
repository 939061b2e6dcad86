// What happens to an accumulated product on its way out:
// out = activation(alpha * product + bias + beta * c).
#pragma once
#include "kernels/gemm/matmul_api.h"
#include "tk/tile/functions.hpp"
#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

// Two ways out: by TMA from 16-bit tiles of 64 rows, if there is nothing to do but scale; else a
// warp at a time through fp32 pieces of 16 rows, whatever the dtype and the strides.
template <element_16bit T, int TileN>
struct matmul_epilogue {
    static constexpr int piece_cols = TileN < 64 ? TileN : 64;
    static constexpr int num_tiles = TileN % 192 == 0 ? 3 : 2;
    using tile = st<T, 64, piece_cols>;
    using output = gl<T, 1, -1, -1, -1, tile>;  // a matrix for each depth, as all operands are
    using piece = st_fl<16, piece_cols>;
    // Shared memory of one warpgroup. TMA reads one tile while the next is written.
    struct staging {
        union {
            tile tiles[num_tiles];
            piece pieces[4];
        };
        TK_DEVICE staging() {}
    };

    float alpha = 1.0f, beta = 0.0f;
    int activation = TK_NONE;
    any_gl bias;  // of the shape of the output, by a stride of 0; null: none
    any_gl c;     // null: none
    int rows = 0, cols = 0;
    output out;      // used if there is nothing to do but scale, and TMA takes the output
    any_gl out_any;  // the same, of any dtype and strides
    bool by_tma = false;

    // A new activation: its formula in functions.hpp, its code in matmul_api.h, and a case here.
    template <class F>
    TK_DEVICE void with_activation(F&& f) const {
        switch (activation) {
            case TK_RELU:
                return f(functions::relu{});
            case TK_GELU:
                return f(functions::gelu{});
            case TK_GELU_TANH:
                return f(functions::gelu_tanh{});
            case TK_SILU:
                return f(functions::silu{});
            default:
                return;
        }
    }

    // Stores a warpgroup's product with its corner at `at`. `staged` is shared memory, and
    // `barrier_id` a named barrier, of this warpgroup's own; `turn` counts the tiles staged.
    template <class R>
    TK_DEVICE void store(R& product, coord at, staging& staged, int& turn, int barrier_id) const {
        if (by_tma) {
            store_by_tma(product, at, staged, turn, barrier_id);
        } else {
            store_by_pieces(product, at, staged.pieces[warpgroup::warpid()]);
        }
    }

  private:
    template <class R>
    TK_DEVICE void store_by_tma(R& product, coord at, staging& staged, int& turn,
                                int barrier_id) const {
        if (alpha != 1.0f) warp::mul(product, product, alpha);
        TK_UNROLL
        for (int i = 0; i < R::rows / 16; ++i) {
            TK_UNROLL
            for (int j = 0; j < R::cols / piece_cols; ++j) {
                tile& next = staged.tiles[turn];
                turn = turn + 1 == num_tiles ? 0 : turn + 1;
                if (warpgroup::warpid() == 0) tma::store_async_read_wait<num_tiles - 1>();
                warpgroup::sync(barrier_id);  // what was staged here before has been read
                warpgroup::store(next, subtile<16, piece_cols>(product, i, j));
                fence_async_proxy();
                warpgroup::sync(barrier_id);
                if (warpgroup::warpid() == 0) {
                    tma::store_async(out, next,
                                     {at.depth, at.row + i * 64, at.col + j * piece_cols});
                }
            }
        }
    }

    template <class R>
    TK_DEVICE void store_by_pieces(const R& product, coord at, piece& staged) const {
        constexpr int across = R::cols / piece_cols, num_pieces = R::rows / 16 * across;
        // A loop, and the code of a piece once: unrolled it outgrows the instruction cache.
        TK_NO_UNROLL
        for (int k = 0; k < num_pieces; ++k) {
            const coord corner = {at.depth, at.row + k / across * 64 + warpgroup::warpid() * 16,
                                  at.col + k % across * piece_cols};
            if (corner.row >= rows || corner.col >= cols) continue;
            TK_UNROLL
            for (int i = 0; i < num_pieces; ++i) {  // registers are named at compile time
                if (i == k) {
                    warp::store(staged, subtile<16, piece_cols>(product, i / across, i % across));
                }
            }
            warp::sync();
            warp::for_each8(staged, out_any.row_stride < out_any.col_stride,
                            [&](int row, int col, float (&values)[8]) {
                                store8(values, {at.depth, corner.row + row, corner.col + col});
                            });
            warp::sync();
        }
    }

    // The 8 columns from `at`, those inside the output.
    TK_DEVICE void store8(float (&values)[8], coord at) const {
        if (at.row >= rows || at.col >= cols) return;
        float more[8] = {};
        TK_UNROLL
        for (int i = 0; i < 8; ++i) values[i] *= alpha;
        if (bias) {
            bias.get8(more, {0, at.row, at.col}, cols);
            TK_UNROLL
            for (int i = 0; i < 8; ++i) values[i] += more[i];
        }
        if (c) {
            c.get8(more, at, cols);
            TK_UNROLL
            for (int i = 0; i < 8; ++i) values[i] += beta * more[i];
        }
        with_activation([&](auto function) {
            TK_UNROLL
            for (int i = 0; i < 8; ++i) values[i] = function(values[i]);
        });
        out_any.set8(values, at, cols);
    }
};

TK_NAMESPACE_END
