// Step 3, tensor cores: the same tiles, multiplied by one asynchronous product of the warpgroup.
#pragma once
#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

struct tensor_core_product {
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
            warpgroup::load(a, g.a, {row_0, k_0});
            warpgroup::load(b, g.b, {col_0, k_0});
            fence_async_proxy();  // the product reads shared memory by another way than it was
                                  // written
            warpgroup::sync(1);
            warpgroup::mma_ABt(sum, a, b);
            warpgroup::mma_async_wait<0>(sum);
            warpgroup::sync(1);
        }
        warpgroup::store(g.out, sum, {row_0, col_0});
    }
};

TK_NAMESPACE_END
