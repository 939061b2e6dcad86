// Step 5, pipelined: a ring of four stages, so that the next tiles are on their way while the
// present ones are multiplied.
#pragma once
#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

struct pipelined_product {
    static constexpr int num_threads = 128, num_stages = 4;
    using tile = st_bf<64, 64>;
    struct globals {
        gl<bf16, 1, 1, -1, -1, tile> a, b, out;
    };
    struct layout {
        tile a[num_stages], b[num_stages], out;
        semaphore arrived[num_stages];
    };
    static int grid(const globals& g) {
        return covering(g.out.rows(), 64) * covering(g.out.cols(), 64);
    }

    static TK_DEVICE void run(const globals& g) {
        auto& [a, b, out, arrived] = *reinterpret_cast<layout*>(shared_memory());
        if (warpgroup::warpid() == 0) {
            init_semaphores(arrived, num_stages, 1, "arrived");
            fence_semaphore_init();
        }
        cluster::sync();
        const int tiles_n = covering(g.out.cols(), 64), tiles_k = covering(g.a.cols(), 64);
        const int row_0 = cluster::index() / tiles_n * 64, col_0 = cluster::index() % tiles_n * 64;
        const auto load = [&](int k) {
            if (k >= tiles_k || warpgroup::warpid() != 0) return;
            const int stage = k % num_stages;
            warp::expect_bytes(arrived[stage], 2 * tile::bytes);
            tma::load_async(a[stage], g.a, {row_0, k * 64}, arrived[stage]);
            tma::load_async(b[stage], g.b, {col_0, k * 64}, arrived[stage]);
        };
        for (int k = 0; k < num_stages - 1; ++k) load(k);
        rt_fl<16, 64> sum;
        warp::zero(sum);
        for (int k = 0; k < tiles_k; ++k) {
            const int stage = k % num_stages, phase = k / num_stages % 2;
            wait(arrived[stage], phase);
            warpgroup::mma_ABt(sum, a[stage], b[stage]);
            warpgroup::mma_async_wait<0>(sum);
            warpgroup::sync(1);  // all have read the stage that is loaded next but one
            load(k + num_stages - 1);
        }
        warpgroup::store(out, sum);
        fence_async_proxy();
        warpgroup::sync(1);
        if (warpgroup::warpid() == 0) {
            tma::store_async(g.out, out, {row_0, col_0});
            tma::store_async_read_wait();
        }
    }
};

TK_NAMESPACE_END
