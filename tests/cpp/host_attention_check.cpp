// Runs the attention kernel on the host architecture and holds every element of the result against
// the formula in fp64. Small tiles, instantiated here for speed; the kernel is the library's.
// case_program.hpp says how it is called.
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "case_program.hpp"
#include "kernels/attention/attention_instance.hpp"

namespace {

using tk::bf16;
using tk::half;

constexpr float untouched = -77.0f;

// A tensor of (batch, heads, rows, dim), rows or heads outermost, with room after each row.
template <class T>
struct tensor {
    int64_t strides[3];  // row, head, batch
    std::vector<T> storage;

    tensor(int batch, int heads, int rows, int dim, bool rows_outermost, int padding) {
        const int step = dim + padding;
        strides[0] = rows_outermost ? int64_t(step) * heads : step;
        strides[1] = rows_outermost ? step : int64_t(step) * rows;
        strides[2] = int64_t(step) * heads * rows;
        storage.assign(size_t(batch) * size_t(strides[2]) + 8, T(untouched));
    }
    T& at(int b, int h, int r, int c) {
        return storage[size_t(b * strides[2] + h * strides[1] + r * strides[0] + c)];
    }
    void strides_to(int64_t (&to)[3]) const { std::copy(strides, strides + 3, to); }
};

// The lengths of the sequences, "q:k/q:k/...", as cumulative ones.
void read_lengths(const std::string& text, std::vector<int>& q, std::vector<int>& k) {
    q = {0}, k = {0};
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('/', at), text.size()), colon = text.find(':', at);
        q.push_back(q.back() + std::stoi(text.substr(at, colon - at)));
        k.push_back(k.back() + std::stoi(text.substr(colon + 1, end - colon - 1)));
        at = end + 1;
    }
}

template <class T, class K, class Scores>
std::string check(const problem& p) {
    const bool packed = p.text.count("varlen") != 0;
    std::vector<int> first_q, first_k;
    if (packed) read_lengths(p.word("varlen", ""), first_q, first_k);
    const int batch = packed ? int(first_q.size()) - 1 : p.number("batch", 2);
    const int tensors = packed ? 1 : batch;
    const int heads = p.number("heads", 2), kv_heads = p.number("kv", heads);
    const int d = p.number("d", K::head_dim), dv = p.number("dv", K::value_dim);
    int queries = p.number("q", 130), keys = p.number("k", 150);
    if (packed) {
        queries = keys = 0;
        for (int b = 0; b < batch; ++b) {
            queries = std::max(queries, first_q[b + 1] - first_q[b]);
            keys = std::max(keys, first_k[b + 1] - first_k[b]);
        }
    }
    const int rows_q = packed ? first_q.back() : queries, rows_k = packed ? first_k.back() : keys;

    std::mt19937 random(unsigned(p.number("seed", 1)));
    tk::machine::settings().seed = uint64_t(p.number("seed", 1));
    tk::machine::settings().max_delay_microseconds = p.number("delay", 0);
    tk::machine::settings().check_accesses = p.number("check", 1) != 0;
    tk::machine::settings().watchdog_seconds = p.number("watchdog", 20);

    const bool rows_outermost = p.number("rows_outermost", 0) != 0;
    const int odd = p.number("odd", 0);  // of out, and of q if it is packed
    tensor<T> q(tensors, heads, rows_q, d, rows_outermost, p.number("pack", 0) ? 8 + odd : 8);
    tensor<T> k(tensors, kv_heads, rows_k, d, rows_outermost, 0);
    tensor<T> v(tensors, kv_heads, rows_k, dv, rows_outermost, 8);
    tensor<T> out(tensors, heads, rows_q, dv, rows_outermost, 8 + odd);
    tensor<float> lse(tensors, heads, rows_q, 1, rows_outermost, 0);
    std::normal_distribution<float> normal;
    const float size = float(p.real("size", 1.0));
    for (auto* each : {&q, &k, &v}) {
        for (T& x : each->storage) x = T(size * normal(random));
    }
    if (p.number("nan_row", -1) >= 0) q.at(0, 0, p.number("nan_row", 0), 0) = T(NAN);
    if (p.number("inf_key", -1) >= 0) k.at(0, 0, p.number("inf_key", 0), 0) = T(INFINITY);

    if (p.number("nan_sequence", -1) >= 0) {  // of values; no other sequence knows of it
        const int b = p.number("nan_sequence", 0);
        for (int r = first_k[b]; r < first_k[b + 1]; ++r) {
            for (int c = 0; c < dv; ++c) v.at(0, 0, r, c) = T(NAN);
        }
    }

    tk_attention_problem problem{};
    problem.batch = batch, problem.heads = heads, problem.kv_heads = kv_heads;
    problem.queries = queries, problem.keys = keys;
    problem.total_queries = rows_q, problem.total_keys = rows_k, problem.packed = packed;
    problem.head_dim = d, problem.value_dim = dv;
    q.strides_to(problem.q_strides), k.strides_to(problem.k_strides);
    v.strides_to(problem.v_strides), out.strides_to(problem.out_strides);
    lse.strides_to(problem.lse_strides);
    problem.causal = p.number("causal", 0);
    problem.window_left = p.number("left", -1), problem.window_right = p.number("right", -1);
    problem.scale = float(p.real("scale", 0.125));
    problem.softcap = float(p.real("softcap", 0.0));
    problem.num_stages = p.number("stages", 2), problem.grid = p.number("grid", 3);
    problem.order_kind = p.number("order", 0), problem.order_param = p.number("param", 1);
    problem.longest_first = p.number("longest", 0), problem.dynamic = p.number("dynamic", 0);
    problem.turns = p.number("turns", 0), problem.pack_heads = p.number("pack", 0);
    problem.splits = p.number("splits", 1);
    tk_attention_pointers pointers{};
    pointers.q = q.storage.data(), pointers.k = k.storage.data(), pointers.v = v.storage.data();
    pointers.out = out.storage.data();
    if (p.number("lse", 1)) pointers.lse = lse.storage.data();
    if (packed) pointers.cu_seqlens_q = first_q.data(), pointers.cu_seqlens_k = first_k.data();
    std::vector<float> slopes(size_t(batch) * size_t(heads));
    for (float& each : slopes) each = std::abs(normal(random)) * 0.2f;
    problem.alibi_strides[0] = heads, problem.alibi_strides[1] = 1;
    if (p.number("alibi", 0)) pointers.alibi_slopes = slopes.data();
    const std::string biased = p.word("bias", "none");  // full, shared, or hidden
    std::vector<T> bias(size_t(batch) * size_t(heads) * size_t(queries) * size_t(keys) + 1);
    for (T& each : bias) each = T(normal(random));
    problem.bias_dtype = int(tk::tag_of<T>);
    problem.bias_strides[2] = keys, problem.bias_strides[3] = 1;
    if (biased != "shared") {
        problem.bias_strides[0] = int64_t(heads) * queries * keys;
        problem.bias_strides[1] = int64_t(queries) * keys;
    }
    if (biased == "hidden") {  // every third query sees nothing, every second key nobody
        for (size_t i = 0; i < bias.size(); ++i) {
            const size_t query = i / size_t(keys) % size_t(queries), key = i % size_t(keys);
            if (query % 3 == 0 || key % 2 == 1) bias[i] = T(-INFINITY);
        }
    }
    if (biased != "none") pointers.bias = bias.data();
    const std::vector<float> wide(bias.begin(), bias.end());
    if (biased != "none" && p.number("wide_bias", 0)) {
        pointers.bias = wide.data(), problem.bias_dtype = TK_FP32;
    }

    const tk::attention_entry entry = tk::attention_runner<K, T, Scores>::entry("");
    const int pack = problem.pack_heads ? heads / kv_heads : 1;
    const size_t owners = size_t(batch * heads / pack) *
                          size_t((queries * pack + K::tile_q - 1) / K::tile_q) *
                          size_t(K::num_consumer_warpgroups);
    std::vector<float> workspace(owners * size_t(problem.splits) * size_t(entry.floats_per_part),
                                 std::numeric_limits<float>::quiet_NaN());
    std::vector<int> counters(owners + 1, 0);
    if (problem.splits > 1) pointers.workspace = workspace.data();
    pointers.counters = counters.data();

    const double eps = std::is_same_v<T, bf16> ? 1.0 / 128 : 1.0 / 1024;
    for (int run = 0; run < p.number("runs", 1); ++run) {
        entry.run(problem, pointers);
        for (const int each : counters) {
            if (each != 0) return "wrong: a counter is not 0 again";
        }
        for (int b = 0; b < batch; ++b) {
            const int tb = packed ? 0 : b, q_0 = packed ? first_q[b] : 0;
            const int k_0 = packed ? first_k[b] : 0;
            const int n = packed ? first_q[b + 1] - q_0 : queries;
            const int m = packed ? first_k[b + 1] - k_0 : keys;
            for (int h = 0; h < heads; ++h) {
                const int hk = h / (heads / kv_heads);
                for (int i = 0; i < n; ++i) {
                    std::vector<double> s(size_t(m), -INFINITY);
                    double largest = -INFINITY, sum = 0;
                    for (int j = 0; j < m; ++j) {
                        const int distance = i + m - n - j;
                        if (problem.causal && distance < 0) continue;
                        if (problem.window_left >= 0 && distance > problem.window_left) continue;
                        if (problem.window_right >= 0 && -distance > problem.window_right) continue;
                        double x = 0;
                        for (int c = 0; c < d; ++c) {
                            x += double(float(q.at(tb, h, q_0 + i, c))) *
                                 double(float(k.at(tb, hk, k_0 + j, c)));
                        }
                        x *= problem.scale;
                        if (problem.softcap > 0) x = problem.softcap * tanh(x / problem.softcap);
                        if (pointers.alibi_slopes != nullptr) {
                            x -= slopes[size_t(b * heads + h)] * std::abs(distance);
                        }
                        if (pointers.bias != nullptr) {
                            x += double(float(bias[size_t(b * problem.bias_strides[0] +
                                                          h * problem.bias_strides[1] +
                                                          i * problem.bias_strides[2] + j)]));
                        }
                        s[size_t(j)] = x;
                        largest = std::isnan(x) || x > largest ? x : largest;
                    }
                    for (double& x : s) {
                        x = largest == -INFINITY ? 0.0 : std::exp(x - largest);
                        sum += x;
                    }
                    const double right_lse = std::log(sum) + largest;
                    const auto name = [&](int c) {
                        return "(" + std::to_string(b) + ", " + std::to_string(h) + ", " +
                               std::to_string(i) + ", " + std::to_string(c) + ")";
                    };
                    for (int c = 0; c < dv; ++c) {
                        double right = 0, around = 0;
                        for (int j = 0; j < m; ++j) {
                            const double x = float(v.at(tb, hk, k_0 + j, c));
                            right += s[size_t(j)] * x, around += s[size_t(j)] * std::abs(x);
                        }
                        if (sum != 0) right /= sum, around /= sum;
                        const double got = float(out.at(tb, h, q_0 + i, c));
                        out.at(tb, h, q_0 + i, c) = T(untouched);
                        if (std::isnan(right) && std::isnan(got)) continue;
                        if (std::abs(got - right) <= 1.2 * eps * around + 2e-5) continue;
                        return "wrong: out" + name(c) + " is " + std::to_string(got) + ", not " +
                               std::to_string(right);
                    }
                    if (pointers.lse == nullptr) continue;
                    const double got = lse.at(tb, h, q_0 + i, 0);
                    if (got == right_lse || (std::isnan(got) && std::isnan(right_lse))) continue;
                    if (std::abs(got - right_lse) <= 3e-5 * (1 + std::abs(largest))) continue;
                    return "wrong: lse" + name(0) + " is " + std::to_string(got) + ", not " +
                           std::to_string(right_lse);
                }
            }
        }
        for (const T& each : out.storage) {
            if (float(each) != untouched) return "wrong: something beside the output was written";
        }
    }
    return "ok";
}

template <class T, class Scores, int HeadDim, int ValueDim, int TileK, int Consumers>
std::string instance(const problem& p) {
    return check<T, tk::attention<T, HeadDim, ValueDim, TileK, Consumers, Scores>, Scores>(p);
}

// The instances of this test, and what each is there for.
std::string run(const problem& p) {
    using tk::plain_scores;
    const std::string name = p.word("instance", "plain");
    try {
        if (name == "plain") return instance<bf16, plain_scores, 64, 64, 64, 2>(p);
        if (name == "general") return instance<bf16, tk::general_scores<bf16>, 64, 64, 64, 2>(p);
        // three consumers, and tiles whose edges are no powers of two
        if (name == "three") return instance<half, plain_scores, 64, 64, 80, 3>(p);
        // one consumer, values of another dimension, in more than one panel
        if (name == "one") return instance<half, tk::general_scores<half>, 64, 128, 128, 1>(p);
        // 64-byte swizzle
        if (name == "narrow") return instance<bf16, plain_scores, 96, 32, 64, 1>(p);
        return "error: no instance " + name;
    } catch (const std::exception& error) {
        return std::string("error: ") + error.what();
    }
}

}  // namespace

int main(int count, char** arguments) { return run_cases(run, count, arguments); }
