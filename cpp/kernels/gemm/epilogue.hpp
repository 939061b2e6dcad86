// What happens to an accumulated product on its way out:
// out = activation(alpha * product + bias + beta * c).
#pragma once
#include "kernels/gemm/matmul_api.h"
#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

struct matmul_epilogue {
    float alpha = 1.0f, beta = 0.0f;
    int activation = TK_NONE;
    any_gl bias;  // along the columns; null: none
    any_gl c;     // null: none
    int rows = 0, cols = 0;

    // A new activation goes here, in `matmul_api.h`'s list, and nowhere else in C++.
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

    // A register tile that starts at column `first_col`; all but beta * c.
    template <class R>
    TK_DEVICE void apply(R& tile, int first_col) const {
        if (alpha != 1.0f) warp::mul(tile, tile, alpha);
        if (bias) {
            typename R::row_vec_type along_columns;
            warp::load(along_columns, bias, first_col, cols);
            warp::add_col(tile, tile, along_columns);
        }
        with_activation([&](auto function) { warp::map(tile, tile, function); });
    }

    // One element.
    TK_DEVICE float apply(float value, coord at) const {
        value *= alpha;
        if (bias) value += bias.get(0, 0, at.col);
        if (c) value += beta * c.get(at.batch, at.row, at.col);
        with_activation([&](auto function) { value = function(value); });
        return value;
    }
};

TK_NAMESPACE_END
