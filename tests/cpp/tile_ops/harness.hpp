// What the checks of tile operations share: a table of cases, launches of small kernels on memory
// that both sides see, and registers filled and read element by element, by none of the operations
// under test. One source for both architectures.
//
//   PROGRAM          runs every case: "ok", or a line for each that fails
//   PROGRAM list     operation and case, one a line
//   PROGRAM NAME     the cases whose line contains NAME
#pragma once
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>

#include "../device_memory.hpp"
#include "numbers.hpp"

namespace tile_ops {

using checks::device_memory;

// What every kernel here gets: inputs and output as fp32, and which operation to apply to what
// numbers.
struct arguments {
    const float* in[3];
    float* out;
    int operation;
    int integers[4];
};

template <class Kernel>
void launch_and_wait(const typename Kernel::globals& g, int64_t shared_bytes) {
    launch<Kernel>(g, {1, 1, shared_bytes, 0, nullptr});
    checks::finish_kernels();
}

// Runs the kernel on the inputs; `size` results.
template <class Kernel>
std::vector<float> run(const std::vector<std::vector<float>>& in, size_t size, int operation,
                       std::vector<int> integers = {}, int64_t shared_bytes = 0) {
    std::deque<device_memory<float>> held;
    arguments g{};
    for (size_t i = 0; i < in.size(); ++i) g.in[i] = held.emplace_back(in[i]).data();
    // A number that no operation gives, so that an element that was not written is seen.
    device_memory<float> out(size, -123456.789f);
    g.out = out.data();
    g.operation = operation;
    for (size_t i = 0; i < integers.size(); ++i) g.integers[i] = integers[i];
    launch_and_wait<Kernel>(g, shared_bytes);
    return out.get();
}

// --- In kernels ---

// A block is a warpgroup at least; of a warp's operations the others keep out.
template <int Warps>
TK_DEVICE bool takes_part() {
    return tk::detail::warp_index() < Warps;
}

// One of several operations, by its place in the list.
template <class... Operations, class F>
TK_DEVICE void choose(int operation, F&& f) {
    int place = 0;
    ((place++ == operation ? f.template operator()<Operations>() : void()), ...);
}

// The calling warp's part of a group's tile, row by row in memory.
template <int Warps, register_tile R>
TK_DEVICE void read(R& to, const float* from) {
    R::for_each([&](int i, int row, int col, int, int) {
        to.data[i] =
            convert<typename R::dtype>(from[tk::detail::group_row<Warps>(row) * R::cols + col]);
    });
}
template <int Warps, register_tile R>
TK_DEVICE void write(float* to, const R& from) {
    R::for_each([&](int i, int row, int col, int, int) {
        to[tk::detail::group_row<Warps>(row) * R::cols + col] = convert<float>(from.data[i]);
    });
}
// A vector: a warp's own, or (Warps > 1) its part of one with a value for each of the group's rows.
template <int Warps, register_vector V>
TK_DEVICE void read(V& to, const float* from) {
    V::for_each([&](int i, int place) {
        to.data[i] = convert<typename V::dtype>(from[tk::detail::group_row<Warps>(place)]);
    });
}
// As many copies of a vector as the lanes have, one after the other.
template <register_vector V>
constexpr int copies() {
#if defined(TK_ARCH_SM90)
    return V::layout == vector_layout::naive || V::layout == vector_layout::units ? 1
           : V::layout == vector_layout::orthogonal                               ? 4
                                                                                  : 8;
#else
    return 1;
#endif
}
template <int Warps, register_vector V>
TK_DEVICE void write(float* to, const V& from) {
    int copy = 0;
#if defined(TK_ARCH_SM90)
    if (copies<V>() > 1) copy = tk::detail::lane() / 4;
    if (V::layout == vector_layout::orthogonal) copy = tk::detail::lane() % 4;
#endif
    V::for_each([&](int i, int place) {
        to[copy * V::length * Warps + tk::detail::group_row<Warps>(place)] =
            convert<float>(from.data[i]);
    });
}

// A shared tile and vector, by the first lane or thread of the block.
TK_DEVICE bool is_first_thread() {
#if defined(TK_ARCH_SM90)
    return threadIdx.x == 0;
#else
    return tk::detail::warp_index() == 0;
#endif
}
// Element by element, all warps the same number at the same place: a barrier before and after.
template <int Warps, class S>
TK_DEVICE void read_shared(S& to, const float* from) {
    using T = typename S::dtype;
    if (is_first_thread()) {
        if constexpr (shared_tile<S>) {
            for (int row = 0; row < S::rows; ++row) {
                for (int col = 0; col < S::cols; ++col) {
                    to.data[to.index(row, col)] = convert<T>(from[row * S::cols + col]);
                }
            }
        } else {
            for (int i = 0; i < S::length; ++i) to.data[i] = convert<T>(from[i]);
        }
    }
    group<Warps>::sync(Warps == 4 ? 1 : 2);
}
template <int Warps, class S>
TK_DEVICE void write_shared(float* to, const S& from) {
    group<Warps>::sync(Warps == 4 ? 1 : 2);
    if (!is_first_thread()) return;
    if constexpr (shared_tile<S>) {
        for (int row = 0; row < S::rows; ++row) {
            for (int col = 0; col < S::cols; ++col) {
                to[row * S::cols + col] = convert<float>(from.data[from.index(row, col)]);
            }
        }
    } else {
        for (int i = 0; i < S::length; ++i) to[i] = convert<float>(from.data[i]);
    }
}

// --- The table ---

struct test_case {
    std::string operation, name;
    std::function<std::string()> run;  // empty if all is right
};
inline std::vector<test_case>& table() {
    static std::vector<test_case> cases;
    return cases;
}
inline void add_case(const std::string& operation, const std::string& name,
                     std::function<std::string()> run) {
    table().push_back({operation, name, std::move(run)});
}

// Compares results with what they should be, wanted(i).
template <class F>
std::string compare(const std::vector<float>& got, const format& f, F&& want) {
    int wrong = 0;
    std::string first;
    for (size_t i = 0; i < got.size(); ++i) {
        const wanted should = want(i);
        if (is_right(got[i], should, f)) continue;
        if (wrong++ == 0) {
            char text[160];
            std::snprintf(text, sizeof(text), "element %zu is %.9g, not %.17g within %.3g", i,
                          double(got[i]), should.value, should.error);
            first = text;
        }
    }
    if (wrong == 0) return "";
    return std::to_string(wrong) + " of " + std::to_string(got.size()) + " elements: " + first;
}

template <int Warps>
std::string scope_name() {
    return Warps == 1 ? "warp" : Warps == 4 ? "warpgroup" : std::to_string(Warps) + " warps";
}
template <class R>
std::string register_name() {
    const std::string type = format_of<typename R::dtype>().name;
    if constexpr (register_tile<R>) {
        return "rt<" + type + ", " + std::to_string(R::rows) + ", " + std::to_string(R::cols) +
               (R::is_row ? ">" : ", col>");
    } else {
        return "rv<" + type + ", " + std::to_string(R::length) +
               (R::layout == vector_layout::naive       ? ">"
                : R::layout == vector_layout::aligned   ? ", aligned>"
                : R::layout == vector_layout::aligned_4 ? ", aligned_4>"
                : R::layout == vector_layout::units     ? ", units>"
                                                        : ", orthogonal>");
    }
}
template <class S>
std::string shared_name() {
    const std::string type = format_of<typename S::dtype>().name;
    if constexpr (shared_tile<S>) {
        return std::string(whole_shared_tile<S> ? "st<" : "part<") + type + ", " +
               std::to_string(S::rows) + ", " + std::to_string(S::cols) + ", " +
               std::to_string(S::swizzle_bytes) + ">";
    } else {
        return "sv<" + type + ", " + std::to_string(S::length) + ">";
    }
}

inline int main_of_cases(int count, char** arguments) {
    const std::string wanted = count > 1 ? arguments[1] : "";
    int failed = 0;
    for (const test_case& each : table()) {
        const std::string line = each.operation + " " + each.name;
        if (wanted == "list") {
            std::printf("%s\n", line.c_str());
            continue;
        }
        if (line.find(wanted) == std::string::npos) continue;
        std::string problem;
        try {
            problem = each.run();
        } catch (const std::exception& error) {
            problem = std::string("error: ") + error.what();
        }
        if (problem.empty()) continue;
        ++failed;
        std::printf("%s: %s\n", line.c_str(), problem.c_str());
    }
    if (wanted == "list") return 0;
    if (failed == 0) std::printf("ok\n");
    return failed == 0 ? 0 : 1;
}

}  // namespace tile_ops
