// Step 4, TMA: one warp asks for whole tiles, which arrive by themselves and say so on a semaphore;
// the output leaves the same way.
#pragma once
#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

struct tma_product {
    static constexpr int num_threads = 128;
    using tile = st_bf<64, 64>;
    struct globals {
        gl<bf16, 1, 1, -1, -1, tile> a, b, out;
    };
    struct layout {
        tile a, b, out;
        semaphore arrived;
    };
    static int grid(const globals& g) {
        return covering(g.out.rows(), 64) * covering(g.out.cols(), 64);
    }

    static TK_DEVICE void run(const globals& g) {
        auto& [a, b, out, arrived] = *reinterpret_cast<layout*>(shared_memory());
        if (warpgroup::warpid() == 0) {
            init_semaphores(&arrived, 1, 1, "arrived");
            fence_semaphore_init();
        }
        cluster::sync();
        const int tiles_n = covering(g.out.cols(), 64);
        const int row_0 = cluster::index() / tiles_n * 64, col_0 = cluster::index() % tiles_n * 64;
        rt_fl<16, 64> sum;
        warp::zero(sum);
        int phase = 0;
        for (int k_0 = 0; k_0 < g.a.cols(); k_0 += 64) {
            if (warpgroup::warpid() == 0) {
                warp::expect_bytes(arrived, 2 * tile::bytes);
                tma::load_async(a, g.a, {row_0, k_0}, arrived);
                tma::load_async(b, g.b, {col_0, k_0}, arrived);
            }
            wait(arrived, phase);
            phase ^= 1;
            warpgroup::mma_ABt(sum, a, b);
            warpgroup::mma_async_wait<0>(sum);
            warpgroup::sync(1);  // the tiles are free again
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
