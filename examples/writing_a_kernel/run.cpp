// Runs one step of docs/writing-a-kernel.md on an M x N x K product of small integers, and compares
// every element; with a GPU it also measures.
//
//   run STEP M N K      "ok", or what is wrong; on a GPU then "microseconds TFLOP/s"
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "device_memory.hpp"
#include "step_1_naive.hpp"
#include "step_2_shared.hpp"
#include "step_3_tensor_cores.hpp"
#include "step_4_tma.hpp"
#include "step_5_pipelined.hpp"
#include "step_6_specialised.hpp"

namespace {

using namespace tk;

struct product {
    int m, n, k;
    device_array<bf16> a, b, out;

    product(int m_, int n_, int k_)
        : m(m_), n(n_), k(k_), a(size_t(m) * k), b(size_t(n) * k), out(size_t(m) * n) {}
};

// Steps 1 to 5: a block for every tile.
template <class Kernel>
void run_simple(product& p) {
    typename Kernel::globals g{};
    if constexpr (requires { typename Kernel::tile; }) {
        g.a = make_gl<decltype(g.a)>(p.a.data(), {p.m, p.k});
        g.b = make_gl<decltype(g.b)>(p.b.data(), {p.n, p.k});
        g.out = make_gl<decltype(g.out)>(p.out.data(), {p.m, p.n});
    } else {
        g.a = {p.a.data(), {p.m, p.k}};
        g.b = {p.b.data(), {p.n, p.k}};
        g.out = {p.out.data(), {p.m, p.n}};
    }
    int64_t shared_bytes = 0;
    if constexpr (requires { typename Kernel::layout; }) {
        shared_bytes = sizeof(typename Kernel::layout);
    }
    launch<Kernel>(g, {Kernel::grid(g), 1, shared_bytes, 0, nullptr});
}

// Steps 6, 7 and 8: the same kernel, with a block a tile, with a block an SM, and in bands of eight
// rows of tiles.
void run_specialised(product& p, bool persistent, bool ordered) {
    using kernel = lcf<specialised_product>;
    specialised_product::globals g{};
    g.a = make_gl<decltype(g.a)>(p.a.data(), {p.m, p.k});
    g.b = make_gl<decltype(g.b)>(p.b.data(), {p.n, p.k});
    g.out = make_gl<decltype(g.out)>(p.out.data(), {p.m, p.n});
    const cluster_shape cluster{1, 1};
    g.tasks = {1,
               p.m,
               p.n,
               cluster,
               ordered ? order_grouped_m : order_row,
               8,
               nullptr,
               split_k(1, covering(p.k, 64), nullptr, nullptr)};
    g.config.num_stages = specialised_product::num_stages;
    g.config.num_tasks = g.tasks.count();
    g.config.cluster = cluster;
    const int grid =
        persistent ? std::min(g.config.num_tasks, num_processors()) : g.config.num_tasks;
    launch<kernel>(g, {grid, 1, kernel::fixed_bytes + g.config.num_stages * kernel::bytes_per_stage,
                       0, nullptr});
}

void run_step(int step, product& p) {
    switch (step) {
        case 1:
            return run_simple<naive_product>(p);
        case 2:
            return run_simple<shared_product>(p);
        case 3:
            return run_simple<tensor_core_product>(p);
        case 4:
            return run_simple<tma_product>(p);
        case 5:
            return run_simple<pipelined_product>(p);
        case 6:
            return run_specialised(p, false, false);
        case 7:
            return run_specialised(p, true, false);
        case 8:
            return run_specialised(p, true, true);
        default:
            throw std::invalid_argument("step " + std::to_string(step) + "; there are 1 to 8");
    }
}

std::string check(int step, int m, int n, int k) {
    product p(m, n, k);
    std::vector<bf16> a(size_t(m) * k), b(size_t(n) * k), out(size_t(m) * n);
    for (size_t i = 0; i < a.size(); ++i) a[i] = bf16(float(int(i * 5 % 7) - 3));
    for (size_t i = 0; i < b.size(); ++i) b[i] = bf16(float(int(i * 11 % 5) - 2));
    p.a.write(a), p.b.write(b);
    p.out.fill_with_nan();
    run_step(step, p);
    p.out.read(out);
    for (int row = 0; row < m; ++row) {
        for (int col = 0; col < n; ++col) {
            int sum = 0;
            for (int i = 0; i < k; ++i) {
                sum += int(float(a[size_t(row) * k + i])) * int(float(b[size_t(col) * k + i]));
            }
            const float got = float(out[size_t(row) * n + col]);
            if (got != float(bf16(float(sum)))) {
                return "out[" + std::to_string(row) + ", " + std::to_string(col) + "] is " +
                       std::to_string(got) + ", not " + std::to_string(sum);
            }
        }
    }
    return "ok";
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 5) {
        std::fprintf(stderr, "run STEP M N K\n");
        return 2;
    }
    const int step = std::atoi(arguments[1]), m = std::atoi(arguments[2]),
              n = std::atoi(arguments[3]), k = std::atoi(arguments[4]);
    try {
        // the comparison takes m n k steps: large products are compared in a smaller one
        const std::string found = int64_t(m) * n * k < int64_t(1) << 31
                                      ? check(step, m, n, k)
                                      : check(step, 300, 520, 200);
        std::printf("%s\n", found.c_str());
        if (found != "ok") return 1;
        if (has_gpu) {
            product p(m, n, k);
            p.a.fill_with_noise(1), p.b.fill_with_noise(2);
            const double seconds = measure([&] { run_step(step, p); });
            std::printf("%.1f us %.1f TFLOP/s\n", seconds * 1e6, 2e-12 * m * n * k / seconds);
        }
    } catch (const std::exception& error) {
        std::printf("error: %s\n", error.what());
        return 1;
    }
    return 0;
}
