// Step 1, naive: every warpgroup computes a 64 x 64 tile of out = a b^T from global memory, a
// multiply-add at a time.
#pragma once
#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

struct naive_product {
    static constexpr int num_threads = 128;
    struct globals {
        gl_view<const bf16> a, b;  // (M, K) and (N, K)
        gl_view<bf16> out;         // (M, N)
    };
    static int grid(const globals& g) {
        return covering(g.out.rows(), 64) * covering(g.out.cols(), 64);
    }

    static TK_DEVICE void run(const globals& g) {
        const int tiles_n = covering(g.out.cols(), 64);
        const int row_0 = cluster::index() / tiles_n * 64, col_0 = cluster::index() % tiles_n * 64;
        rt_fl<16, 64> sum;  // of this warp; the four warps have 64 x 64
        warpgroup::apply(sum, sum, [&](int row, int col, float) {
            row += row_0, col += col_0;
            if (row >= g.out.rows() || col >= g.out.cols()) return 0.0f;
            float result = 0.0f;
            for (int k = 0; k < g.a.cols(); ++k) {
                result +=
                    float(g.a.data[g.a.offset({row, k})]) * float(g.b.data[g.b.offset({col, k})]);
            }
            return result;
        });
        warpgroup::store(g.out, sum, {row_0, col_0});
    }
};

TK_NAMESPACE_END
