// What happens to an accumulated product on its way out:
// out = activation(alpha * product + bias + beta * c).
#pragma once
#include "kernels/gemm/matmul_api.h"
#include "tk/tile/functions.hpp"
#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

struct matmul_epilogue {
    float alpha = 1.0f, beta = 0.0f;
    int activation = TK_NONE;
    any_gl bias;  // of the shape of the output, by a stride of 0; null: none
    any_gl c;     // null: none

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

    // The 8 columns from `at`, those below `limit`.
    TK_DEVICE void apply(float (&values)[8], coord at, int limit) const {
        float more[8] = {};
        TK_UNROLL
        for (int i = 0; i < 8; ++i) values[i] *= alpha;
        if (bias) {
            bias.get8(more, {0, at.row, at.col}, limit);
            TK_UNROLL
            for (int i = 0; i < 8; ++i) values[i] += more[i];
        }
        if (c) {
            c.get8(more, at, limit);
            TK_UNROLL
            for (int i = 0; i < 8; ++i) values[i] += beta * more[i];
        }
        with_activation([&](auto function) {
            TK_UNROLL
            for (int i = 0; i < 8; ++i) values[i] = function(values[i]);
        });
    }
};

TK_NAMESPACE_END
