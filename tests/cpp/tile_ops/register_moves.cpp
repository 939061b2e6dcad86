// Reductions, masks and changes of layout of register tiles and vectors, against plain loops.
#include "harness.hpp"

namespace {

using namespace tile_ops;

// Runs f<Kernel>() as a case of each operation in turn.
template <class D>
std::string check(const std::vector<float>& got, const std::function<wanted(size_t)>& want) {
    return compare(got, format_of<typename D::dtype>(), want);
}

// --- Reductions ---

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

template <int Warps, class V, class R>
struct reduce_rows {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        using G = group<Warps>;
        R r;
        V v, start;
        read<Warps>(r, g.in[0]);
        read<Warps>(start, g.in[1]);
        switch (g.operation) {
            case 0:
                G::row_sum(v, r);
                break;
            case 1:
                G::row_prod(v, r);
                break;
            case 2:
                G::row_max(v, r);
                break;
            case 3:
                G::row_min(v, r);
                break;
            case 4:
                G::row_sum(v, r, start);
                break;
            case 5:
                G::row_prod(v, r, start);
                break;
            case 6:
                G::row_max(v, r, start);
                break;
            case 7:
                G::row_min(v, r, start);
                break;
            case 8:
                G::reduce_row(v, r, functions::max{});
                break;
        }
        write<Warps>(g.out, v);
    }
};
template <class V, class R>
struct reduce_columns {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<1>()) return;
        R r;
        V v, start;
        read<1>(r, g.in[0]);
        read<1>(start, g.in[1]);
        switch (g.operation) {
            case 0:
                warp::col_sum(v, r);
                break;
            case 1:
                warp::col_prod(v, r);
                break;
            case 2:
                warp::col_max(v, r);
                break;
            case 3:
                warp::col_min(v, r);
                break;
            case 4:
                warp::col_sum(v, r, start);
                break;
            case 5:
                warp::col_prod(v, r, start);
                break;
            case 6:
                warp::col_max(v, r, start);
                break;
            case 7:
                warp::col_min(v, r, start);
                break;
            case 8:
                warp::reduce_col(v, r, functions::max{});
                break;
        }
        write<1>(g.out, v);
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
    }
};

inputs for_kind(kind which, int seed) {
    return {uint64_t(seed), seed == 1 ? 0 : 30, which == kind::prod};
}

template <bool Rows, int Warps, class V, class R>
void add_reductions() {
    constexpr int rows = R::rows * Warps, cols = R::cols;
    const std::string axis = Rows ? "row_" : "col_";
    for (int operation = 0; operation < 9; ++operation) {
        const kind which = operation == 8 ? kind::max : kind(operation % 4);
        const bool onward = operation >= 4 && operation < 8;
        add_case(
            operation == 8 ? (Rows ? "reduce_row" : "reduce_col") : axis + kind_names[int(which)],
            scope_name<Warps>() + " " + register_name<V>() + " of " + register_name<R>() +
                (onward ? " onwards" : ""),
            [=] {
                std::string problem;
                for (int seed = 1; seed <= 6 && problem.empty(); ++seed) {
                    const int count = Rows ? rows : cols, length = Rows ? cols : rows;
                    const auto x = generate(format_of<typename R::dtype>(), size_t(rows * cols),
                                            for_kind(which, seed));
                    const auto start = generate(format_of<typename V::dtype>(), size_t(count),
                                                for_kind(which, seed + 50));
                    using kernel =
                        std::conditional_t<Rows, reduce_rows<Warps, V, R>, reduce_columns<V, R>>;
                    const auto got =
                        run<kernel>({x, start}, size_t(count) * size_t(copies<V>()), operation);
                    problem = check<V>(got, [&](size_t at) {
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
    }
}
template <class R>
void add_whole() {
    const char* const names[] = {"sum", "prod", "max", "min", "hasnan", "reduce"};
    for (int operation = 0; operation < 6; ++operation) {
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
                const auto got = run<reduce_all<R>>({x}, 6, 0);
                bool found = false;
                for (const float each : x) found = found || std::isnan(each);
                problem = compare({got[size_t(operation)]}, format_of<float>(), [&](size_t) {
                    return operation == 4 ? exactly(found ? 1.0f : 0.0f) : reduced(which, x);
                });
            }
            return problem;
        });
    }
}

// --- Masks ---

struct checkerboard {
    TK_DEVICE bool operator()(int row, int col) const { return (row + col) % 2 == 0; }
};
template <int Warps, class R>
struct masks {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        using G = group<Warps>;
        R r;
        read<Warps>(r, g.in[0]);
        const int a = g.integers[0], b = g.integers[1], c = g.integers[2], d = g.integers[3];
        switch (g.operation) {
            case 0:
                G::make_causal(r, r, -2.0f, a, b, c);
                break;
            case 1:
                G::make_window(r, r, -2.0f, a, b, c, d, 3);
                break;
            case 2:
                G::tril(r, r, a);
                break;
            case 3:
                G::triu(r, r, a, -2.0f);
                break;
            case 4:
                G::left_fill(r, r, a, -2.0f);
                break;
            case 5:
                G::right_fill(r, r, a);
                break;
            case 6:
                G::upper_fill(r, r, a, -2.0f);
                break;
            case 7:
                G::lower_fill(r, r, a);
                break;
            case 8:
                G::mask(r, r, -2.0f, checkerboard{});
                break;
        }
        write<Warps>(g.out, r);
    }
};
template <int Warps, class R>
void add_masks() {
    const char* const names[] = {"make_causal", "make_window", "tril",       "triu", "left_fill",
                                 "right_fill",  "upper_fill",  "lower_fill", "mask"};
    for (int operation = 0; operation < 9; ++operation) {
        add_case(names[operation], scope_name<Warps>() + " " + register_name<R>(), [=] {
            std::string problem;
            constexpr int rows = R::rows * Warps, cols = R::cols;
            generator random(7);
            for (int trial = 0; trial < 8 && problem.empty(); ++trial) {
                const auto x = generate(format_of<typename R::dtype>(), size_t(rows * cols),
                                        {uint64_t(trial + 1), 5, false});
                const int a = random.below(60) - 20, b = random.below(60) - 20,
                          c = random.below(60) - 20, d = random.below(60) - 20;
                const auto got = run<masks<Warps, R>>({x}, x.size(), operation, {a, b, c, d});
                problem = check<R>(got, [&](size_t at) {
                    const int r = int(at) / cols, k = int(at) % cols;
                    const int query = r + c + 3, key = k + d;  // of the window
                    const bool keeps[] = {
                        b + k <= a + r + c,
                        (a < 0 || key >= query - a) && (b < 0 || key <= query + b),
                        k <= r + a,
                        k >= r + a,
                        k >= a,
                        k < a,
                        r >= a,
                        r < a,
                        (r + k) % 2 == 0};
                    const bool zero = operation == 2 || operation == 5 || operation == 7;
                    return exactly(keeps[operation] ? x[at] : zero ? 0.0f : -2.0f);
                });
            }
            return problem;
        });
    }
}

// --- Changes of dtype and layout ---

struct copying {
    static constexpr const char* name = "copy";
    template <class G, class D, class A>
    static TK_DEVICE void apply(D& d, const A& a) {
        G::copy(d, a);
    }
};
struct swapping {
    static constexpr const char* name = "swap_layout";
    template <class G, class D, class A>
    static TK_DEVICE void apply(D& d, const A& a) {
        G::swap_layout(d, a);
    }
};
struct transposing {
    static constexpr const char* name = "transpose";
    template <class G, class D, class A>
    static TK_DEVICE void apply(D& d, const A& a) {
        G::transpose(d, a);
    }
};
struct transposing_inplace {
    static constexpr const char* name = "transpose_inplace";
    template <class G, class D, class A>
    static TK_DEVICE void apply(D& d, const A& a) {
        d = a;
        G::transpose_inplace(d);
    }
};
struct rewrapping {
    static constexpr const char* name = "register_tile_of";
    template <class G, class D, class A>
    static TK_DEVICE void apply(D& d, const A& a) {
        d = register_tile_of<D>(a.tensor());
    }
};
template <class Operation, int Warps, class D, class A>
struct move {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        A a;
        D d;
        read<Warps>(a, g.in[0]);
        Operation::template apply<group<Warps>>(d, a);
        write<Warps>(g.out, d);
    }
};
template <class Operation, int Warps, class D, class A>
void add_move() {
    add_case(Operation::name,
             scope_name<Warps>() + " " + register_name<D>() + " of " + register_name<A>(), [] {
                 std::string problem;
                 for (int seed = 1; seed <= 4 && problem.empty(); ++seed) {
                     size_t size = 0, copied = 1;
                     if constexpr (register_tile<A>) {
                         size = size_t(A::rows * A::cols * Warps);
                     } else {
                         size = size_t(A::length), copied = size_t(copies<D>());
                     }
                     const auto x =
                         generate(format_of<typename A::dtype>(), size, {uint64_t(seed), 4, false});
                     problem = check<D>(
                         run<move<Operation, Warps, D, A>>({x}, size * copied, 0), [&](size_t at) {
                             size_t from = at % size;
                             if constexpr (std::is_same_v<Operation, transposing> ||
                                           std::is_same_v<Operation, transposing_inplace>) {
                                 from =
                                     at % size_t(D::cols) * size_t(A::cols) + at / size_t(D::cols);
                             }
                             return exactly(x[from]);
                         });
                 }
                 return problem;
             });
}

template <class A, class B>
void add_between() {
    add_move<copying, 1, A, B>();
    add_move<copying, 1, B, A>();
}

void fill_table() {
    add_reductions<true, 1, rv_fl<16, vector_layout::orthogonal>, rt_fl<16, 16>>();
    add_reductions<true, 4, rv_fl<32, vector_layout::orthogonal>, rt_bf<32, 24>>();
    add_reductions<true, 4, rv_bf<32, vector_layout::aligned>, rt_fl<32, 32, col_layout>>();
    add_reductions<true, 1, rv_fl<16, vector_layout::orthogonal>, rt_hf<16, 8>>();
    add_reductions<false, 1, rv_fl<48, vector_layout::aligned>, rt_fl<32, 48>>();
    add_reductions<false, 1, rv_hf<16, vector_layout::orthogonal>, rt_hf<64, 16, col_layout>>();
    add_reductions<false, 1, rv_fl<32, vector_layout::aligned_4>, rt_e4m3<16, 32>>();
    add_whole<rt_fl<16, 24>>();
    add_whole<rt_bf<32, 16, col_layout>>();
    add_whole<rt_e4m3<16, 32>>();
    add_whole<rv_fl<64>>();
    add_whole<rv_fl<40>>();
    add_whole<rv_bf<7>>();
    add_whole<rv_bf<24, vector_layout::aligned>>();
    add_whole<rv_fl<48, vector_layout::orthogonal>>();
    add_whole<rv_fl<48, vector_layout::aligned_4>>();

    add_masks<1, rt_fl<16, 32>>();
    add_masks<4, rt_bf<32, 16, col_layout>>();
    add_masks<4, rt_e4m3<16, 32>>();

    add_between<rt_bf<16, 24>, rt_fl<16, 24>>();
    add_between<rt_hf<16, 32>, rt_bf<16, 32>>();
    add_between<rt_e4m3<32, 32>, rt_fl<32, 32>>();
    add_between<rt_e5m2<32, 32, col_layout>, rt_bf<32, 32, col_layout>>();
    add_between<rt_e4m3<16, 64>, rt_hf<16, 64>>();
    add_between<rt_e4m3<16, 32>, rt_e5m2<16, 32>>();
    add_move<copying, 4, rt_e4m3<16, 32>, rt_fl<16, 32>>();
    add_move<swapping, 1, rt_fl<32, 48, col_layout>, rt_fl<32, 48>>();
    add_move<swapping, 4, rt_bf<32, 16>, rt_bf<32, 16, col_layout>>();
    add_move<swapping, 1, rt_hf<16, 48, col_layout>, rt_hf<16, 48>>();
    add_move<swapping, 1, rt_e4m3<32, 96, col_layout>, rt_e4m3<32, 96>>();
    add_move<swapping, 4, rt_e5m2<64, 32>, rt_e5m2<64, 32, col_layout>>();
    add_move<transposing, 1, rt_e5m2<64, 32>, rt_e5m2<32, 64>>();
    add_move<transposing, 1, rt_e4m3<32, 64, col_layout>, rt_e4m3<64, 32, col_layout>>();
    add_move<transposing_inplace, 1, rt_e4m3<32, 32>, rt_e4m3<32, 32>>();
    add_move<transposing, 1, rt_fl<32, 16>, rt_fl<16, 32>>();
    add_move<transposing, 1, rt_bf<48, 16, col_layout>, rt_bf<16, 48, col_layout>>();
    add_move<transposing, 1, rt_e4m3<32, 16, col_layout>, rt_e4m3<16, 32>>();
    add_move<transposing_inplace, 1, rt_hf<32, 32>, rt_hf<32, 32>>();
    add_move<rewrapping, 1, rt_fl<32, 16>, rt_fl<32, 16>>();

    using naive = rv_fl<48>;
    using aligned = rv_bf<48, vector_layout::aligned>;
    using orthogonal = rv_hf<48, vector_layout::orthogonal>;
    add_between<naive, aligned>();
    add_between<naive, orthogonal>();
    add_between<aligned, orthogonal>();
    using aligned_4 = rv_fl<48, vector_layout::aligned_4>;
    add_between<naive, aligned_4>();
    add_between<aligned, aligned_4>();
    add_between<aligned_4, orthogonal>();
    add_between<naive, rv_bf<48>>();
    add_between<rv_fl<64>, rv_fl<64, vector_layout::aligned>>();
    add_between<rv_fl<64>, rv_fl<64, vector_layout::orthogonal>>();
}

}  // namespace

int main(int count, char** arguments) {
    fill_table();
    return tile_ops::main_of_cases(count, arguments);
}
