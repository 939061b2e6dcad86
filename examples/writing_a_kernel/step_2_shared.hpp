// Step 2, shared memory: the warpgroup brings 64 x 64 tiles of both operands together, and reads
// each element from there 64 times.
#pragma once
#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

struct shared_product {
    static constexpr int num_threads = 128;
    struct globals {
        gl_view<const bf16> a, b;
        gl_view<bf16> out;
    };
    struct layout {
        st_bf<64, 64> a, b;
    };
    static int grid(const globals& g) {
        return covering(g.out.rows(), 64) * covering(g.out.cols(), 64);
    }

    static TK_DEVICE void run(const globals& g) {
        auto& [a, b] = *reinterpret_cast<layout*>(shared_memory());
        const int tiles_n = covering(g.out.cols(), 64);
        const int row_0 = cluster::index() / tiles_n * 64, col_0 = cluster::index() % tiles_n * 64;
        rt_fl<16, 64> sum;
        warp::zero(sum);
        for (int k_0 = 0; k_0 < g.a.cols(); k_0 += 64) {
            warpgroup::load(a, g.a, {row_0, k_0});  // 0 beyond the last row or column
            warpgroup::load(b, g.b, {col_0, k_0});
            warpgroup::sync(1);
            warpgroup::apply(sum, sum, [&](int row, int col, float result) {
                for (int k = 0; k < 64; ++k) {
                    result += float(a.data[a.index(row, k)]) * float(b.data[b.index(col, k)]);
                }
                return result;
            });
            warpgroup::sync(1);  // all have read before the next tiles are written
        }
        warpgroup::store(g.out, sum, {row_0, col_0});
    }
};

TK_NAMESPACE_END
