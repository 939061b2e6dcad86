// Maps of register tiles and vectors, against plain loops.
#include "map_operations.hpp"

namespace {

using namespace tile_ops;

template <int Warps, class D, class A, class... Operations>
struct of_one {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        D d;
        A a;
        read<Warps>(a, g.in[0]);
        choose<Operations...>(
            g.operation, [&]<class Operation>() { Operation::template apply<group<Warps>>(d, a); });
        write<Warps>(g.out, d);
    }
};
// Two tiles; with `Of` a vector of values for each row or column, a number, or a tile again.
enum class second { like, row, col, number };
template <class A, second Of>
using second_type = std::conditional_t<Of == second::row, col_vec<A>, row_vec<A>>;
template <int Warps, class D, class A, second Of, class... Operations>
struct of_two {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        D d;
        A a;
        read<Warps>(a, g.in[0]);
        const auto apply = [&](const auto& b) {
            choose<Operations...>(g.operation, [&]<class Operation>() {
                Operation::template apply<group<Warps>>(d, a, b);
            });
        };
        if constexpr (Of == second::like) {
            A b;
            read<Warps>(b, g.in[1]);
            apply(b);
        } else if constexpr (Of == second::number) {
            apply(g.in[1][0]);
        } else if constexpr (Of == second::row) {
            col_vec<A> b;
            read<Warps>(b, g.in[1]);
            apply(b);
        } else {
            row_vec<A> b;
            read<1>(b, g.in[1]);
            apply(b);
        }
        write<Warps>(g.out, d);
    }
};
template <int Warps, class D, class A, class... Operations>
struct of_three {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        D d;
        A a, b, c;
        read<Warps>(a, g.in[0]);
        read<Warps>(b, g.in[1]);
        read<Warps>(c, g.in[2]);
        choose<Operations...>(g.operation, [&]<class Operation>() {
            Operation::template apply<group<Warps>>(d, a, b, c);
        });
        write<Warps>(g.out, d);
    }
};
template <int Warps, class D, class A>
struct places {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        D d;
        A a;
        read<Warps>(a, g.in[0]);
        group<Warps>::apply(d, a, plus_place{});
        write<Warps>(g.out, d);
    }
};

template <int Warps, class R>
constexpr size_t size_of() {
    if constexpr (register_tile<R>) {
        return size_t(Warps * R::rows * R::cols);
    } else {
        return size_t(R::length);
    }
}
template <class R>
constexpr size_t copies_of() {
    if constexpr (register_tile<R>) {
        return 1;
    } else {
        return size_t(copies<R>());
    }
}
template <int Warps, class D, class A>
std::string case_name(const char* more = "") {
    return scope_name<Warps>() + " " + register_name<D>() + " of " + register_name<A>() + more;
}
template <class A>
std::vector<float> operand(size_t size, int seed, int special_every = 4) {
    return generate(format_of<typename A::dtype>(), size, {uint64_t(seed), special_every, false});
}

constexpr int num_seeds = 3;

template <int Warps, class D, class A, class... Operations>
void add_ones() {
    int place = 0;
    const auto add = [&]<class Operation>() {
        add_case(Operation::name, case_name<Warps, D, A>(), [operation = place++] {
            std::string problem;
            for (int seed = 1; seed <= num_seeds && problem.empty(); ++seed) {
                constexpr size_t size = size_of<Warps, A>();
                const auto a = operand<A>(size, seed);
                problem = compare(
                    run<of_one<Warps, D, A, Operations...>>({a}, size * copies_of<D>(), operation),
                    format_of<typename D::dtype>(),
                    [&](size_t i) { return Operation::reference(a[i % size]); });
            }
            return problem;
        });
    };
    (add.template operator()<Operations>(), ...);
}
template <int Warps, class D, class A, second Of, class... Operations>
void add_twos() {
    int place = 0;
    const char* const more[] = {"", " and its rows", " and its columns", " and a number"};
    const auto add = [&]<class Operation>() {
        add_case(Operation::name, case_name<Warps, D, A>(more[int(Of)]), [operation = place++] {
            std::string problem;
            for (int seed = 1; seed <= num_seeds + 9 && problem.empty(); ++seed) {
                constexpr size_t size = size_of<Warps, A>();
                size_t cols = size;
                if constexpr (register_tile<A>) cols = size_t(A::cols);
                const size_t second_size = Of == second::like  ? size
                                           : Of == second::row ? size / cols
                                           : Of == second::col ? cols
                                                               : 1;
                const auto a = operand<A>(size, seed);
                // A number is fp32; one in two is special.
                const auto b = Of == second::number ? operand<rv_fl<1>>(1, seed, 2)
                                                    : operand<A>(second_size, seed + 100);
                problem = compare(run<of_two<Warps, D, A, Of, Operations...>>(
                                      {a, b}, size * copies_of<D>(), operation),
                                  format_of<typename D::dtype>(), [&](size_t at) {
                                      const size_t i = at % size;
                                      const size_t j = Of == second::like  ? i
                                                       : Of == second::row ? i / cols
                                                       : Of == second::col ? i % cols
                                                                           : 0;
                                      return Operation::reference(a[i], b[j]);
                                  });
            }
            return problem;
        });
    };
    (add.template operator()<Operations>(), ...);
}
template <int Warps, class D, class A, class... Operations>
void add_threes() {
    int place = 0;
    const auto add = [&]<class Operation>() {
        add_case(Operation::name, case_name<Warps, D, A>(), [operation = place++] {
            std::string problem;
            for (int seed = 1; seed <= num_seeds && problem.empty(); ++seed) {
                constexpr size_t size = size_of<Warps, A>();
                const auto a = operand<A>(size, seed), b = operand<A>(size, seed + 100),
                           c = operand<A>(size, seed + 200);
                problem = compare(run<of_three<Warps, D, A, Operations...>>(
                                      {a, b, c}, size * copies_of<D>(), operation),
                                  format_of<typename D::dtype>(), [&](size_t at) {
                                      const size_t i = at % size;
                                      return Operation::reference(a[i], b[i], c[i]);
                                  });
            }
            return problem;
        });
    };
    (add.template operator()<Operations>(), ...);
}
template <int Warps, class D, class A>
void add_places() {
    add_case("apply", case_name<Warps, D, A>(), [] {
        constexpr size_t size = size_of<Warps, A>();
        const auto a = operand<A>(size, 1);
        return compare(run<places<Warps, D, A>>({a}, size * copies_of<D>(), 0),
                       format_of<typename D::dtype>(), [&](size_t at) {
                           const size_t i = at % size;
                           size_t place = i;
                           if constexpr (register_tile<A>) {
                               place = i / size_t(A::cols) * 1000 + i % size_t(A::cols);
                           }
                           return exactly(a[i] + float(place));
                       });
    });
}
template <int Warps, class D, class A>
void add_constants() {
    add_ones<Warps, D, A, zero_constant, one_constant, pos_infty_constant, neg_infty_constant,
             fill_constant, copy_constant>();
}
template <int Warps, class D, class A>
void add_functions() {
    add_ones<Warps, D, A, exp_of_one, exp2_of_one, log_of_one, log2_of_one, abs_of_one, relu_of_one,
             sqrt_of_one, rsqrt_of_one, sin_of_one, cos_of_one, tanh_of_one, sigmoid_of_one,
             map_of_one>();
}
template <int Warps, class D, class A, second Of>
void add_arithmetic() {
    add_twos<Warps, D, A, Of, add_of_two, sub_of_two, mul_of_two, div_of_two, max_of_two,
             min_of_two, map_of_two>();
}
template <int Warps, class D, class A>
void add_rows_and_columns() {
    add_twos<Warps, D, A, second::row, add_row_of_two, sub_row_of_two, mul_row_of_two,
             div_row_of_two, max_row_of_two, min_row_of_two, map_row_of_two, broadcast_row_of_two,
             exp2_scaled_sub_row_of_two>();
    add_twos<Warps, D, A, second::col, add_col_of_two, sub_col_of_two, mul_col_of_two,
             div_col_of_two, max_col_of_two, min_col_of_two, map_col_of_two,
             broadcast_col_of_two>();
}

void fill_table() {
    // Every function on fp32, where nothing hides its error; few of the rest, since code is as long
    // as a lane's elements.
    using single = rt_fl<16, 16>;
    add_functions<1, single, single>();
    add_arithmetic<1, single, single, second::like>();
    add_arithmetic<1, single, single, second::number>();
    add_rows_and_columns<1, single, single>();
    add_threes<1, single, single, fma_of_three, map_of_three>();
    add_constants<1, single, single>();
    add_places<1, single, single>();

    // bf16 from fp32, an odd number of blocks, the column layout, a warpgroup.
    using from = rt_fl<32, 16, col_layout>;
    using to = rt_bf<32, 16, col_layout>;
    add_ones<4, to, from, abs_of_one, relu_of_one, sqrt_of_one>();
    add_arithmetic<4, to, from, second::like>();
    add_rows_and_columns<4, to, from>();
    add_constants<4, to, from>();
    add_places<4, to, from>();

    using wide = rt_hf<16, 24>;
    add_arithmetic<4, rt_fl<16, 24>, wide, second::number>();
    add_rows_and_columns<4, wide, wide>();
    add_places<4, wide, wide>();
    add_threes<4, wide, wide, fma_of_three, map_of_three>();

    using eight = rt_e4m3<16, 32>;
    add_ones<4, eight, eight, abs_of_one, relu_of_one, exp2_of_one>();
    add_rows_and_columns<4, eight, eight>();
    add_constants<1, eight, eight>();
    add_places<1, eight, eight>();
    using eight_columns = rt_e5m2<32, 16, col_layout>;
    add_arithmetic<1, eight_columns, eight_columns, second::like>();
    add_rows_and_columns<1, rt_e4m3<32, 16, col_layout>, eight_columns>();
    add_constants<4, eight_columns, eight_columns>();

    // Vectors.
    using naive = rv_fl<40>;
    add_functions<1, naive, naive>();
    add_arithmetic<1, rv_bf<40>, naive, second::like>();
    add_places<1, naive, naive>();
    using short_one = rv_hf<7>;
    add_arithmetic<1, short_one, short_one, second::number>();
    add_constants<1, short_one, short_one>();
    using aligned = rv_bf<24, vector_layout::aligned>;
    add_arithmetic<1, aligned, aligned, second::like>();
    add_ones<1, aligned, aligned, abs_of_one, exp_of_one>();
    add_places<1, aligned, aligned>();
    using orthogonal = rv_fl<48, vector_layout::orthogonal>;
    add_arithmetic<1, rv_hf<48, vector_layout::orthogonal>, orthogonal, second::number>();
    add_constants<1, orthogonal, orthogonal>();
    add_places<1, orthogonal, orthogonal>();
    add_threes<1, orthogonal, orthogonal, fma_of_three, map_of_three>();
}

}  // namespace

int main(int count, char** arguments) {
    fill_table();
    return tile_ops::main_of_cases(count, arguments);
}
