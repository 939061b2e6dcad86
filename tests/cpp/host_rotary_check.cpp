// The rotation on the host architecture against the formula in fp64: pairings, partial rotation,
// strides, positions, packed sequences, heads, in place. Cases are those of case_program.hpp.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "case_program.hpp"
#include "kernels/rotary/rotary_instance.hpp"

namespace {

using tk::bf16, tk::half;

constexpr float untouched = 1024.0f;  // in every dtype

// A (batch, heads, rows, columns) tensor in memory of its own, with gaps of `untouched`.
template <class T>
struct tensor {
    int64_t strides[4];
    std::vector<T> storage;
    T* data = nullptr;  // aligned to 16 bytes, or not

    tensor(int batch, int heads, int rows, int cols, const problem& p, bool aligned) {
        const bool rows_first = p.number("rows_first", 0) != 0;
        const int gap = p.number("gap", 0);  // elements after each row
        strides[3] = p.number("step", 1);    // between columns
        const int64_t row = int64_t(cols) * strides[3] + gap;
        strides[2] = rows_first ? row * heads : row;
        strides[1] = rows_first ? row : row * rows;
        strides[0] = row * rows * heads;
        storage.assign(size_t(strides[0] * batch) + 32, T(untouched));
        data = storage.data();
        while (reinterpret_cast<uintptr_t>(data) % 16 != 0) ++data;
        if (!aligned) ++data;
    }
    T& at(int b, int h, int r, int c) {
        return data[b * strides[0] + h * strides[1] + r * strides[2] + c * strides[3]];
    }
};

template <class T>
bool same_bits(const T& a, const T& b) {
    return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T, int Width>
std::string check(const problem& p) {
    using runner = tk::rotary_runner<tk::rotary<T, Width>, T>;
    const int batch = p.number("batch", 2), rows = p.number("rows", 37), d = p.number("d", 64);
    const int rotated = p.number("rotary_dim", d), half = rotated / 2;
    const int heads[2] = {p.number("heads", 3), p.number("k_heads", 1)};
    const int table_rows = p.number("table_rows", 2 * rows), offset = p.number("offset", 0);
    const bool in_place = p.number("in_place", 0), interleaved = p.number("interleaved", 0);
    const bool inverse = p.number("inverse", 0), aligned = Width > 1;
    std::mt19937 random(uint32_t(p.number("values", 1)));
    std::normal_distribution<float> normal;

    tensor<T> in[2] = {{batch, heads[0], rows, d, p, aligned},
                       {batch, heads[1], rows, d, p, aligned}};
    for (int t = 0; t < 2; ++t) {
        for (int i = 0; i < batch * heads[t] * rows * d; ++i) {
            in[t].at(i / (heads[t] * rows * d), i / (rows * d) % heads[t], i / d % rows, i % d) =
                T(normal(random));
        }
    }
    tensor<T> out[2] = {{batch, heads[0], rows, d, p, aligned},
                        {batch, heads[1], rows, d, p, aligned}};
    const bool of_t = p.word("table", "float") != std::string("float");
    std::vector<float> cos(size_t(table_rows * half)), sin(cos.size());
    for (size_t i = 0; i < cos.size(); ++i) {
        const float angle = normal(random);
        cos[i] = std::cos(angle), sin[i] = std::sin(angle);
        if (int(i) / half == 0) cos[i] = 1.0f, sin[i] = 0.0f;
        if (of_t) cos[i] = float(T(cos[i])), sin[i] = float(T(sin[i]));
    }
    const std::vector<T> narrow_cos(cos.begin(), cos.end()), narrow_sin(sin.begin(), sin.end());

    tk_rotary_problem q{};
    q.batch = batch, q.rows = rows, q.head_dim = d, q.rotary_dim = rotated;
    q.table_rows = table_rows, q.offset = offset;
    tk_rotary_tensor* const sides[2] = {&q.q, &q.k};
    for (int t = 0; t < 2; ++t) {
        sides[t]->heads = heads[t];
        std::copy(in[t].strides, in[t].strides + 4, sides[t]->in_strides);
        std::copy(in[t].strides, in[t].strides + 4, sides[t]->out_strides);
    }
    q.cos_strides[0] = q.sin_strides[0] = half, q.cos_strides[1] = q.sin_strides[1] = 1;
    q.table_dtype = of_t ? int(tk::tag_of<T>) : TK_FP32;
    q.interleaved = interleaved, q.inverse = inverse, q.in_place = in_place;
    q.heads_per_task = p.number("heads_per_task", 4), q.groups_first = p.number("groups_first", 0);
    q.grid = p.number("grid", 3);
    tk_rotary_pointers at{};
    at.cos = of_t ? static_cast<const void*>(narrow_cos.data()) : cos.data();
    at.sin = of_t ? static_cast<const void*>(narrow_sin.data()) : sin.data();

    // Positions: counted, of a tensor, or within packed sequences.
    std::vector<int64_t> positions(size_t(batch * rows));
    const std::string by = p.word("positions", "counted");
    std::vector<int32_t> lengths;  // ends of sequences
    for (const std::string& each : {p.word("ends", "")}) {
        for (size_t i = 0; i < each.size();) {
            const size_t end = std::min(each.find('/', i), each.size());
            if (lengths.empty()) lengths.push_back(0);
            lengths.push_back(std::atoi(each.substr(i, end - i).c_str()));
            i = end + 1;
        }
    }
    for (int b = 0; b < batch; ++b) {
        for (int r = 0; r < rows; ++r) {
            int64_t& position = positions[size_t(b * rows + r)];
            position = r + offset;
            if (by != "counted") position = int64_t(random() % uint32_t(table_rows));
            for (size_t s = 0; s + 1 < lengths.size(); ++s) {
                if (r >= lengths[s] && r < lengths[s + 1]) position = r - lengths[s] + offset;
            }
        }
    }
    if (p.number("outside", 0)) positions[1] = table_rows, positions[2] = -1;
    const std::vector<int32_t> narrow(positions.begin(), positions.end());
    q.position_strides[0] = rows, q.position_strides[1] = 1;
    if (by == "int32") at.positions = narrow.data(), q.position_bytes = 4;
    if (by == "int64") at.positions = positions.data(), q.position_bytes = 8;
    if (!lengths.empty()) at.cu_seqlens = lengths.data(), q.sequences = int(lengths.size()) - 1;

    tensor<T> before[2] = {in[0], in[1]};
    for (int t = 0; t < 2; ++t) {  // copies have their data elsewhere
        before[t].data = before[t].storage.data() + (in[t].data - in[t].storage.data());
    }
    at.q = in[0].data, at.k = in[1].data;
    at.q_out = (in_place ? in : out)[0].data, at.k_out = (in_place ? in : out)[1].data;
    runner::run(q, at);

    const double eps = std::is_same_v<T, float> ? 3e-7 : std::is_same_v<T, bf16> ? 0.0040 : 0.00050;
    for (int t = 0; t < 2; ++t) {
        tensor<T>& got = in_place ? in[t] : out[t];
        for (int i = 0; i < batch * heads[t] * rows * d; ++i) {
            const int b = i / (heads[t] * rows * d), h = i / (rows * d) % heads[t];
            const int r = i / d % rows, c = i % d;
            T& element = got.at(b, h, r, c);
            const T own = before[t].at(b, h, r, c);
            const std::string name = std::string(t == 0 ? "q(" : "k(") + std::to_string(b) + ", " +
                                     std::to_string(h) + ", " + std::to_string(r) + ", " +
                                     std::to_string(c) + ")";
            const T found = element;
            element = T(untouched);
            if (c >= rotated) {
                if (!same_bits(found, own)) return "wrong: " + name + " is not as it was";
                continue;
            }
            const int64_t position = positions[size_t(b * rows + r)];
            const int pair = interleaved ? c / 2 : c % half;
            const bool first = interleaved ? c % 2 == 0 : c < half;
            const int partner = interleaved ? c ^ 1 : (c + half) % rotated;
            if (position < 0 || position >= table_rows) {
                if (!std::isnan(float(found))) return "wrong: " + name + " is a number";
                continue;
            }
            if (position == 0 && !same_bits(found, own)) {
                return "wrong: " + name + " is not as it was at position 0";
            }
            const size_t place = size_t(position * half + pair);
            const double s = double(sin[place]) * (inverse ? -1 : 1) * (first ? -1 : 1);
            const double x = float(own), y = float(before[t].at(b, h, r, partner));
            const double right = x * cos[place] + y * s;
            if (std::abs(float(found) - right) <= eps * std::abs(right) + 1e-6) continue;
            return "wrong: " + name + " is " + std::to_string(float(found)) + ", not " +
                   std::to_string(right);
        }
        for (const T& each : got.storage) {
            if (float(each) != untouched) return "wrong: something beside the output was written";
        }
    }
    return "ok";
}

std::string run(const problem& p) {
    const std::string name = p.word("instance", "bf16_8");
    try {
        if (name == "bf16_8") return check<bf16, 8>(p);
        if (name == "bf16_1") return check<bf16, 1>(p);
        if (name == "fp16_8") return check<half, 8>(p);
        if (name == "fp32_4") return check<float, 4>(p);
        if (name == "fp32_1") return check<float, 1>(p);
        return "error: no instance " + name;
    } catch (const std::exception& error) {
        return std::string("error: ") + error.what();
    }
}

}  // namespace

int main(int count, char** arguments) { return run_cases(run, count, arguments); }
