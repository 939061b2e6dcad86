// Reductions of register tiles and vectors, against plain loops.
#include "harness.hpp"

namespace {

using namespace tile_ops;

enum class kind { sum, prod, max, min };
constexpr const char* kind_names[] = {"sum", "prod", "max", "min"};

// What a reduction of some numbers may give.
wanted reduced(kind which, const std::vector<float>& numbers) {
    double sum = 0.0, magnitude = 0.0, product = 1.0;
    float best = numbers[0];
    for (const float x : numbers) {
        sum += double(x), magnitude += std::fabs(double(x)), product *= double(x);
        const bool better = which == kind::max ? x > best || (x == best && !std::signbit(x))
                                               : x < best || (x == best && std::signbit(x));
        if (std::isnan(x) || (!std::isnan(best) && better)) best = x;
    }
    if (which == kind::max || which == kind::min) return exactly(best);
    const double count = double(numbers.size());
    if (which == kind::prod) return {product, count * 0x1p-23 * std::fabs(product)};
    wanted result{sum, count * 0x1p-23 * magnitude};
    result.anything = std::isfinite(magnitude) && magnitude > double(largest);
    return result;
}

// A reduction of rows or columns: how to call it, and what it gives.
#define REDUCTION(NAME, KIND, ...)                           \
    struct NAME##_reduction {                                \
        static constexpr const char* name = #NAME;           \
        static constexpr kind which = kind::KIND;            \
        template <class G, class... Operands>                \
        static TK_DEVICE void apply(Operands&... operands) { \
            G::NAME(operands... __VA_OPT__(, ) __VA_ARGS__); \
        }                                                    \
    };
REDUCTION(row_sum, sum)
REDUCTION(row_prod, prod)
REDUCTION(row_max, max)
REDUCTION(row_min, min)
REDUCTION(reduce_row, max, functions::max{})
REDUCTION(col_sum, sum)
REDUCTION(col_prod, prod)
REDUCTION(col_max, max)
REDUCTION(col_min, min)
REDUCTION(reduce_col, max, functions::max{})

// A sum kept apart by lanes and added up: from 0, and from an accumulator that is finished before.
template <int Warps, class V, class R>
struct sum_by_lanes {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        R r;
        V v, lanes;
        read<Warps>(r, g.in[0]);
        group<Warps>::zero(lanes);
        group<Warps>::lane_row_sum(lanes, r, lanes);
        group<Warps>::lane_row_sum(lanes, r, lanes);
        group<Warps>::finish_row_sum(v, lanes);
        write<Warps>(g.out, v);
    }
};

// The operation is the reduction's place in the list, twice; and one for an accumulator.
template <int Warps, class V, class R, class... Reductions>
struct reduce {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        R r;
        V v, start;
        read<Warps>(r, g.in[0]);
        read<Warps>(start, g.in[1]);
        choose<Reductions...>(g.operation / 2, [&]<class Reduction>() {
            if (g.operation % 2 == 0) {
                Reduction::template apply<group<Warps>>(v, r);
            } else {
                Reduction::template apply<group<Warps>>(v, r, start);
            }
        });
        write<Warps>(g.out, v);
    }
};
template <class R>
struct reduce_all {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<1>()) return;
        R r;
        read<1>(r, g.in[0]);
        g.out[0] = warp::sum(r);
        g.out[1] = warp::prod(r);
        g.out[2] = warp::max(r);
        g.out[3] = warp::min(r);
        g.out[4] = warp::hasnan(r) ? 1.0f : 0.0f;
        g.out[5] = warp::reduce(r, functions::min{});
        g.out[6] = warp::any(r, [](float x) { return x < 0.0f; }) ? 1.0f : 0.0f;
        if constexpr (register_vector<R>) {  // of pairs: which are the same only without NaN
            const auto differ = [](float x, float y) { return x != y; };
            if (warp::any(r, r, differ) != warp::hasnan(r)) g.out[6] = -1.0f;
        }
    }
};

inputs for_kind(kind which, int seed) {
    return {uint64_t(seed), seed == 1 ? 0 : 30, which == kind::prod};
}

template <bool Rows, int Warps, class V, class R, class... Reductions>
void add_each_reduction() {
    constexpr int rows = R::rows * Warps, cols = R::cols;
    constexpr int count = Rows ? rows : cols, length = Rows ? cols : rows;
    int operation = 0;
    const auto add = [&](const char* name, kind which, bool onward) {
        const std::string text = scope_name<Warps>() + " " + register_name<V>() + " of " +
                                 register_name<R>() + (onward ? " onwards" : "");
        add_case(name, text, [which, onward, operation] {
            std::string problem;
            for (int seed = 1; seed <= 6 && problem.empty(); ++seed) {
                const auto x = generate(format_of<typename R::dtype>(), size_t(rows * cols),
                                        for_kind(which, seed));
                const auto start = generate(format_of<typename V::dtype>(), size_t(count),
                                            for_kind(which, seed + 50));
                const auto got = run<reduce<Warps, V, R, Reductions...>>(
                    {x, start}, size_t(count) * size_t(copies<V>()), operation);
                problem = compare(got, format_of<typename V::dtype>(), [&](size_t at) {
                    const int i = int(at) % count;
                    std::vector<float> numbers;
                    for (int j = 0; j < length; ++j) {
                        numbers.push_back(x[size_t(Rows ? i * cols + j : j * cols + i)]);
                    }
                    if (onward) numbers.push_back(start[size_t(i)]);
                    return reduced(which, numbers);
                });
            }
            return problem;
        });
        ++operation;
    };
    ((add(Reductions::name, Reductions::which, false),
      add(Reductions::name, Reductions::which, true)),
     ...);
}
template <int Warps, class V, class R>
void add_rows() {
    add_each_reduction<true, Warps, V, R, row_sum_reduction, row_prod_reduction, row_max_reduction,
                       row_min_reduction, reduce_row_reduction>();
}
template <class V, class R>
void add_columns() {
    add_each_reduction<false, 1, V, R, col_sum_reduction, col_prod_reduction, col_max_reduction,
                       col_min_reduction, reduce_col_reduction>();
}
template <class R>
void add_whole() {
    const char* const names[] = {"sum", "prod", "max", "min", "hasnan", "reduce", "any"};
    for (int operation = 0; operation < 7; ++operation) {
        add_case(names[operation], "warp " + register_name<R>(), [=] {
            std::string problem;
            const kind which = operation == 5 ? kind::min : kind(operation % 4);
            size_t size = 0;
            if constexpr (register_tile<R>) {
                size = size_t(R::rows * R::cols);
            } else {
                size = size_t(R::length);
            }
            for (int seed = 1; seed <= 8 && problem.empty(); ++seed) {
                const inputs how{uint64_t(seed), seed < 3 ? 0 : int(size), which == kind::prod};
                const auto x = generate(format_of<typename R::dtype>(), size, how);
                const auto got = run<reduce_all<R>>({x}, 7, 0);
                bool found = false, negative = false;
                for (const float each : x) {
                    found = found || std::isnan(each), negative = negative || each < 0.0f;
                }
                problem = compare({got[size_t(operation)]}, format_of<float>(), [&](size_t) {
                    if (operation == 6) return exactly(negative ? 1.0f : 0.0f);
                    return operation == 4 ? exactly(found ? 1.0f : 0.0f) : reduced(which, x);
                });
            }
            return problem;
        });
    }
}

template <int Warps, class V, class R>
void add_sums_by_lanes() {
    for (const char* name : {"lane_row_sum", "finish_row_sum"}) {
        add_case(name, scope_name<Warps>() + " " + register_name<R>(), [=] {
            constexpr int rows = R::rows * Warps;
            const auto x = generate(format_of<typename R::dtype>(), size_t(rows * R::cols),
                                    inputs{3, 0, false});
            const auto got = run<sum_by_lanes<Warps, V, R>>({x}, size_t(rows * copies<V>()), 0);
            return compare(got, format_of<float>(), [&](size_t i) {
                const auto first = x.begin() + int(i) % rows * R::cols;
                std::vector<float> twice(first, first + R::cols);
                twice.insert(twice.end(), first, first + R::cols);
                return reduced(kind::sum, twice);
            });
        });
    }
}

void fill_table() {
    add_sums_by_lanes<1, rv_fl<16, vector_layout::orthogonal>, rt_fl<16, 24>>();
    add_sums_by_lanes<4, rv_fl<32, vector_layout::orthogonal>, rt_bf<32, 16>>();
    add_sums_by_lanes<4, rv_fl<32, vector_layout::aligned>, rt_fl<32, 32, col_layout>>();
    add_rows<1, rv_fl<16, vector_layout::orthogonal>, rt_fl<16, 16>>();
    add_rows<4, rv_fl<32, vector_layout::orthogonal>, rt_bf<32, 24>>();
    add_rows<4, rv_bf<32, vector_layout::aligned>, rt_fl<32, 32, col_layout>>();
    add_rows<1, rv_fl<16, vector_layout::orthogonal>, rt_hf<16, 8>>();
    add_columns<rv_fl<48, vector_layout::aligned>, rt_fl<32, 48>>();
    add_columns<rv_hf<16, vector_layout::orthogonal>, rt_hf<64, 16, col_layout>>();
    add_columns<rv_fl<32, vector_layout::aligned_4>, rt_e4m3<16, 32>>();
    add_whole<rt_fl<16, 24>>();
    add_whole<rt_bf<32, 16, col_layout>>();
    add_whole<rt_e4m3<16, 32>>();
    add_whole<rv_fl<64>>();
    add_whole<rv_fl<40>>();
    add_whole<rv_bf<7>>();
    add_whole<rv_bf<24, vector_layout::aligned>>();
    add_whole<rv_fl<48, vector_layout::orthogonal>>();
    add_whole<rv_fl<48, vector_layout::aligned_4>>();
}

}  // namespace

int main(int count, char** arguments) {
    fill_table();
    return tile_ops::main_of_cases(count, arguments);
}
