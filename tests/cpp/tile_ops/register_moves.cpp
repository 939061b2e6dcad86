// Masks, copies and changes of layout of register tiles and vectors, against plain loops.
#include "harness.hpp"

namespace {

using namespace tile_ops;

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
                problem = compare(got, format_of<typename R::dtype>(), [&](size_t at) {
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
struct rewrapping_vector {
    static constexpr const char* name = "register_vector_of";
    template <class G, class D, class A>
    static TK_DEVICE void apply(D& d, const A& a) {
        d = register_vector_of<D>(a.tensor());
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
                     problem =
                         compare(run<move<Operation, Warps, D, A>>({x}, size * copied, 0),
                                 format_of<typename D::dtype>(), [&](size_t at) {
                                     size_t from = at % size;
                                     if constexpr (std::is_same_v<Operation, transposing> ||
                                                   std::is_same_v<Operation, transposing_inplace>) {
                                         from = at % size_t(D::cols) * size_t(A::cols) +
                                                at / size_t(D::cols);
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

    add_move<rewrapping_vector, 1, rv_bf<48>, rv_bf<48>>();

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
