// Runs the matrix product's kernel on the host architecture and holds every element of the result
// against the sum in integers. Small tiles, instantiated here for speed; the kernel is the
// library's.
// case_program.hpp says how it is called.
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "case_program.hpp"
#include "kernels/gemm/matmul_instance.hpp"

namespace {

using tk::bf16;
using tk::half;
using tk::loader_kind;

// A (batch, rows, cols) matrix of small integers with room around its rows that must stay as it is.
template <class T>
struct matrix {
    int batch, rows, cols;
    bool columns_contiguous;
    int64_t step;  // between neighbours of the other dimension
    std::vector<T> storage;

    matrix(int batches, int m, int n, bool contiguous, int padding)
        : batch(batches), rows(m), cols(n), columns_contiguous(contiguous) {
        step = ((contiguous ? n : m) + 7) / 8 * 8 + padding;
        storage.assign(size_t(batch) * size_t(batch_step()), T(-77.0f));
    }
    int64_t batch_step() const { return step * (columns_contiguous ? rows : cols); }
    int64_t offset(int b, int r, int c) const {
        return b * batch_step() + (columns_contiguous ? r * step + c : c * step + r);
    }
    T& at(int b, int r, int c) { return storage[size_t(offset(b, r, c))]; }
    void strides(int64_t (&to)[3]) const {
        to[0] = columns_contiguous ? step : 1, to[1] = columns_contiguous ? 1 : step;
        to[2] = batch_step();
    }
    void fill(std::mt19937& random) {
        for (int b = 0; b < batch; ++b) {
            for (int r = 0; r < rows; ++r) {
                for (int c = 0; c < cols; ++c) at(b, r, c) = T(float(int(random() % 9) - 4));
            }
        }
    }
};

template <class T, class Out, class K>
std::string check(const problem& p) {
    const int m = p.number("m", 200), n = p.number("n", 136), k = p.number("k", 200);
    const int batch = p.number("batch", 1), consumers = K::num_consumer_warpgroups;
    std::mt19937 random(unsigned(p.number("seed", 1)));
    tk::machine::settings().seed = uint64_t(p.number("seed", 1));
    tk::machine::settings().max_delay_microseconds = p.number("delay", 0);
    tk::machine::settings().check_accesses = p.number("check", 1) != 0;
    tk::machine::settings().watchdog_seconds = p.number("watchdog", 20);

    // For the gather loader: rows that TMA would refuse.
    const int odd = K::gathers ? 3 : 0;
    matrix<T> a(batch, m, k, !K::a_transposed, odd), b(batch, k, n, !K::b_transposed, odd);
    matrix<Out> out(batch, m, n, p.number("out_columns", 0) == 0, 8 + p.number("out_odd", 0));
    a.fill(random), b.fill(random);
    for (Out& each : out.storage) each = Out(-77.0f);
    for (int i = 0; i < batch; ++i) {
        for (int r = 0; r < m; ++r) {
            for (int c = 0; c < n; ++c) {
                out.at(i, r, c) = Out(std::numeric_limits<float>::quiet_NaN());
            }
        }
    }
    std::vector<float> bias(size_t(n), 0.0f);
    for (float& each : bias) each = float(int(random() % 9) - 4);

    tk_matmul_problem problem{};
    problem.m = m, problem.n = n, problem.k = k, problem.batch = batch;
    a.strides(problem.a_strides), b.strides(problem.b_strides), out.strides(problem.out_strides);
    problem.alpha = float(p.number("alpha", 1));
    problem.out_dtype = tk::dtype_code<Out>;
    problem.bias_dtype = TK_FP32, problem.bias_stride = 1;
    problem.activation = p.number("relu", 0) ? TK_RELU : TK_NONE;
    problem.num_stages = p.number("stages", 2);
    problem.cluster_m = p.number("cluster_m", 1), problem.cluster_n = p.number("cluster_n", 1);
    problem.order_kind = p.number("order", 0), problem.order_param = p.number("param", 1);
    problem.splits = p.number("splits", 1), problem.grid = p.number("grid", 4);
    problem.dynamic = p.number("dynamic", 0);
    problem.splits_in_cluster = p.number("splits_in_cluster", 0);
    tk_matmul_pointers pointers{};
    pointers.a = a.storage.data(), pointers.b = b.storage.data(), pointers.out = out.storage.data();
    if (p.number("bias", 0)) pointers.bias = bias.data();

    const tk_matmul_instance info = tk::matmul_runner<K, T>::entry("", 0, 0, consumers).info;
    const auto blocks = [](int size, int tile, int cluster) {
        return (size + tile * cluster - 1) / (tile * cluster) * cluster;
    };
    const size_t tiles = size_t(batch * blocks(m, info.tile_m, problem.cluster_m) *
                                blocks(n, info.tile_n, problem.cluster_n));
    std::vector<float> workspace(tiles * size_t(problem.splits * info.tile_m * info.tile_n),
                                 std::numeric_limits<float>::quiet_NaN());
    std::vector<int> counters(tiles * size_t(consumers) + 1, 0);
    if (problem.splits_in_cluster) {
        problem.grid = int(tiles) * problem.splits;  // and no memory beside the operands
    } else {
        pointers.workspace = workspace.data(), pointers.counters = counters.data();
    }

    for (int run = 0; run < p.number("runs", 1); ++run) {
        tk::matmul_runner<K, T>::run(problem, pointers);
        for (const int each : counters) {
            if (each != 0) return "wrong: a counter is not 0 again";
        }
        for (int i = 0; i < batch; ++i) {
            for (int r = 0; r < m; ++r) {
                for (int c = 0; c < n; ++c) {
                    int sum = 0;
                    for (int x = 0; x < k; ++x) {
                        sum += int(float(a.at(i, r, x))) * int(float(b.at(i, x, c)));
                    }
                    float right = problem.alpha * float(sum);
                    if (pointers.bias != nullptr) right += bias[size_t(c)];
                    if (problem.activation == TK_RELU) right = right < 0 ? 0 : right;
                    const float got = float(out.at(i, r, c));
                    out.at(i, r, c) = Out(std::numeric_limits<float>::quiet_NaN());
                    if (got == float(Out(right))) continue;
                    return "wrong: (" + std::to_string(i) + ", " + std::to_string(r) + ", " +
                           std::to_string(c) + ") is " + std::to_string(got) + ", not " +
                           std::to_string(right);
                }
            }
        }
        size_t touched = 0;
        for (const Out& each : out.storage) touched += float(each) == -77.0f ? 0 : 1;
        if (touched != size_t(batch) * size_t(m) * size_t(n)) {
            return "wrong: something beside the output was written";
        }
    }
    return "ok";
}

// The instances of this test: dtype, majors, loader, tiles, and what each is there for.
template <class Out, class T, bool ATransposed, bool BTransposed, loader_kind Loader, int TileM,
          int TileN, int TileK, int Consumers>
std::string instance(const problem& p) {
    return check<T, Out,
                 tk::matmul<T, ATransposed, BTransposed, Loader, TileM, TileN, TileK, Consumers>>(
        p);
}

std::string run(const problem& p) {
    constexpr auto tma = loader_kind::tma, gather = loader_kind::gather;
    const std::string name = p.word("instance", "kk");
    try {
        // two consumers, two pieces each; and output in fp32, which goes around TMA
        if (name == "kk") return instance<bf16, bf16, false, true, tma, 128, 128, 64, 2>(p);
        if (name == "kk_fp32") return instance<float, bf16, false, true, tma, 128, 128, 64, 2>(p);
        // one consumer, one piece
        if (name == "kn") return instance<half, half, false, false, tma, 64, 64, 64, 1>(p);
        // three pieces, panels that two blocks cannot deal out
        if (name == "mn") return instance<bf16, bf16, true, false, tma, 128, 192, 64, 2>(p);
        // two 64-row blocks a consumer
        if (name == "mk") return instance<half, half, true, true, tma, 256, 64, 64, 2>(p);
        // two slices of K a stage, 32-byte swizzle in the epilogue
        if (name == "narrow") return instance<bf16, bf16, false, true, tma, 128, 16, 128, 2>(p);
        // one consumer, 64-byte swizzle of b and of the output
        if (name == "short") return instance<half, half, false, false, tma, 64, 32, 128, 1>(p);
        if (name == "gather") return instance<bf16, bf16, false, true, gather, 128, 64, 64, 2>(p);
        return "error: no instance " + name;
    } catch (const std::exception& error) {
        return std::string("error: ") + error.what();
    }
}

}  // namespace

int main(int count, char** arguments) { return run_cases(run, count, arguments); }
