// A kernel as a user of the headers would write it, without the library's templates, and each of
// the faults that users make: one 64 x 64 tile of a matrix product a block, a ring of two stages,
// output by TMA through two buffers of 32 columns.
//
//   host_user_kernel FAULT GRID           "ok", "wrong ..." or "error ..."
//   host_user_kernel sites GRID           the synchronisation operations passed
//   host_user_kernel drop SITE GRID       without the operations at that site
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tk/tk.hpp"

namespace {

using namespace tk;
using tile = st_bf<64, 64>;
using buffer = st_bf<64, 32>;

enum class fault { none, product_wait, load_wait, too_many_bytes, too_few_bytes, early_release };

struct user_kernel {
    static constexpr int num_threads = 256;  // a warpgroup that loads, and one that computes
    static constexpr int num_stages = 2;
    struct globals {
        gl<bf16, 1, 1, -1, -1, tile> a, b;  // (rows, k): the product is a b^T
        gl<bf16, 1, 1, -1, -1, buffer> out;
        int k_tiles;
        fault broken;
    };
    struct shared {
        tile a[num_stages], b[num_stages];
        buffer staged[2];
        semaphore full[num_stages], empty[num_stages];
    };

    static void run(const globals& g) {
        auto& memory = *reinterpret_cast<shared*>(shared_memory());
        if (warp::groupid() == 0) {
            init_semaphores(memory.full, num_stages, 1, "full");
            init_semaphores(memory.empty, num_stages, 4, "empty");
            fence_semaphore_init();
        }
        cluster::sync();
        if (warp::groupid() == 0) {
            load(g, memory);
        } else if (warpgroup::groupid() == 1) {
            compute(g, memory);
        }
    }

    static void load(const globals& g, shared& memory) {
        const int extra = g.broken == fault::too_many_bytes  ? 16
                          : g.broken == fault::too_few_bytes ? -16
                                                             : 0;
        for (int k = 0; k < g.k_tiles; ++k) {
            const int stage = k % num_stages, phase = k / num_stages % 2;
            wait(memory.empty[stage], phase ^ 1);
            warp::expect_bytes(memory.full[stage], 2 * tile::bytes + extra);
            tma::load_async(memory.a[stage], g.a, {0, k * 64}, memory.full[stage]);
            tma::load_async(memory.b[stage], g.b, {cluster::index() * 64, k * 64},
                            memory.full[stage]);
        }
    }

    static void compute(const globals& g, shared& memory) {
        rt_fl<16, 64> product;
        for (int k = 0; k < g.k_tiles; ++k) {
            const int stage = k % num_stages, phase = k / num_stages % 2;
            if (g.broken != fault::load_wait) wait(memory.full[stage], phase);
            warpgroup::mma_ABt(product, memory.a[stage], memory.b[stage], k > 0);
            if (g.broken == fault::early_release) warp::arrive(memory.empty[stage]);
            if (g.broken != fault::product_wait) warpgroup::mma_async_wait<0>(product);
            if (g.broken != fault::early_release) warp::arrive(memory.empty[stage]);
        }
        for (int piece = 0; piece < 4; ++piece) {  // every column twice: buffers are used again
            buffer& staged = memory.staged[piece % 2];
            if (warpgroup::warpid() == 0) tma::store_async_read_wait<1>();
            warpgroup::sync(1);
            warpgroup::store(staged, subtile<16, 32>(product, 0, piece % 2));
            fence_async_proxy();
            warpgroup::sync(1);
            if (warpgroup::warpid() == 0) {
                tma::store_async(g.out, staged,
                                 {piece / 2 * 64, cluster::index() * 64 + piece % 2 * 32});
            }
        }
        if (warpgroup::warpid() == 0) tma::store_async_read_wait<0>();
    }
};

std::string run(fault broken, int grid) {
    const int k_tiles = 5, k = k_tiles * 64, n = 64 * grid;
    std::vector<bf16> a(size_t(64 * k)), b(size_t(n * k));
    std::vector<bf16> out(size_t(128 * n), bf16(std::numeric_limits<float>::quiet_NaN()));
    const auto fill = [](std::vector<bf16>& values, int step) {
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = bf16(float(int(i) * step % 7 - 3));
        }
    };
    fill(a, 5), fill(b, 11);
    try {
        using globals = user_kernel::globals;
        const globals g{make_gl<decltype(globals::a)>(a.data(), {64, k}),
                        make_gl<decltype(globals::b)>(b.data(), {n, k}),
                        make_gl<decltype(globals::out)>(out.data(), {128, n}), k_tiles, broken};
        launch<user_kernel>(g, {grid, 1, sizeof(user_kernel::shared), 0, nullptr});
    } catch (const std::exception& error) {
        return std::string("error: ") + error.what();
    }
    for (int row = 0; row < 128; ++row) {
        for (int col = 0; col < n; ++col) {
            int sum = 0;
            for (int i = 0; i < k; ++i) {
                sum += int(float(a[size_t(row % 64 * k + i)])) * int(float(b[size_t(col * k + i)]));
            }
            const float got = float(out[size_t(row * n + col)]);
            if (got == float(bf16(float(sum)))) continue;
            return "wrong: (" + std::to_string(row) + ", " + std::to_string(col) + ") is " +
                   std::to_string(got) + ", not " + std::to_string(sum);
        }
    }
    return "ok";
}

fault fault_of(const std::string& name) {
    if (name == "none") return fault::none;
    if (name == "product_wait") return fault::product_wait;
    if (name == "load_wait") return fault::load_wait;
    if (name == "too_many_bytes") return fault::too_many_bytes;
    if (name == "too_few_bytes") return fault::too_few_bytes;
    if (name == "early_release") return fault::early_release;
    throw std::invalid_argument("no fault " + name);
}

}  // namespace

int main(int count, char** arguments) {
    const std::string first = count > 1 ? arguments[1] : "";
    if (first == "sites" && count == 3) {
        machine::sabotage::record();
        std::printf("%s\n", run(fault::none, std::atoi(arguments[2])).c_str());
        for (const std::string& site : machine::sabotage::sites()) {
            std::printf("%s\n", site.c_str());
        }
        return 0;
    }
    if (first == "drop" && count == 4) {
        machine::sabotage::drop(arguments[2]);
        std::printf("%s\n", run(fault::none, std::atoi(arguments[3])).c_str());
        return 0;
    }
    std::printf("%s\n", run(fault_of(first), std::atoi(arguments[2])).c_str());
    return 0;
}
