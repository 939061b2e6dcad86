// Operations element by element. Those on registers are the same source for every architecture,
// since each holds some of a tile's elements in `data`; shared_ops.hpp has those on shared memory,
// under the same names.
//
// The destination comes first, the sources after it; a destination may be a source. Arithmetic is
// in fp32 and rounded once, to nearest even, to the destination's dtype. `x_row` takes a value for
// each row (a `col_vec`), `x_col` one for each column (a `row_vec`), as ThunderKittens names them.
#pragma once
#include "tk/tile/functions.hpp"
#include "tk/tile/place.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/pack.hpp"
#else
#include "tk/arch/host/pack.hpp"
#endif

TK_NAMESPACE_BEGIN

namespace detail {

// dst.data[i] = value(i) for all i, neighbours together, so that 16-bit ones are packed at once.
template <in_registers R, class F>
TK_DEVICE void assign(R& dst, F&& value) {
    using T = typename R::dtype;
    TK_UNROLL
    for (int i = 0; i + 1 < R::elements; i += 2) store_pair(dst.data + i, value(i), value(i + 1));
    if constexpr (R::elements % 2 == 1) {
        dst.data[R::elements - 1] = convert<T>(value(R::elements - 1));
    }
}

// dst.data[i] = value(i, row, col, index of the column's value, index of the row's) for all.
template <register_tile R, class F>
TK_DEVICE void assign_each(R& dst, F&& value) {
    float values[R::elements];
    R::for_each([&](int i, int row, int col, int of_col, int of_row) {
        values[i] = value(i, row, col, of_col, of_row);
    });
    assign(dst, [&](int i) { return values[i]; });
}

// Element i of a tile, or a number.
template <in_registers A>
TK_DEVICE float value_of(const A& a, int i) {
    return convert<float>(a.data[i]);
}
TK_DEVICE float value_of(float a, int) { return a; }

template <class D, class A>
constexpr void check_places() {
    static_assert(std::is_convertible_v<A, float> || same_places<D, A>,
                  "a source must be a number, or have the shape and the register layout of the "
                  "destination (8-bit tiles lie otherwise in the lanes than wider ones: copy)");
}

template <class Tile, class V>
constexpr void check_row_values() {
    static_assert(same_places<V, rv<typename V::dtype, Tile::rows, Tile::col_vec::layout>>,
                  "the vector of values for each row must be the tile's col_vec, of any dtype");
}
template <class Tile, class V>
constexpr void check_col_values() {
    static_assert(same_places<V, rv<typename V::dtype, Tile::cols, Tile::row_vec::layout>>,
                  "the vector of values for each column must be the tile's row_vec, of any dtype");
}

template <int Warps>
struct map_ops {
    // --- With a function of one's own: f(x), f(a, b), f(a, b, c), of fp32 values ---

    template <in_registers D, class A, class F>
    static TK_DEVICE void map(D& dst, const A& a, F&& f) {
        check_places<D, A>();
        assign(dst, [&](int i) { return f(value_of(a, i)); });
    }
    template <in_registers D, class A, class B, class F>
    static TK_DEVICE void map(D& dst, const A& a, const B& b, F&& f) {
        check_places<D, A>(), check_places<D, B>();
        assign(dst, [&](int i) { return f(value_of(a, i), value_of(b, i)); });
    }
    template <in_registers D, class A, class B, class C, class F>
    static TK_DEVICE void map(D& dst, const A& a, const B& b, const C& c, F&& f) {
        check_places<D, A>(), check_places<D, B>(), check_places<D, C>();
        assign(dst, [&](int i) { return f(value_of(a, i), value_of(b, i), value_of(c, i)); });
    }
    // f(x, value of its row), f(x, value of its column).
    template <register_tile D, register_tile A, register_vector V, class F>
    static TK_DEVICE void map_row(D& dst, const A& src, const V& values, F&& f) {
        check_places<D, A>(), check_row_values<D, V>();
        assign_each(dst, [&](int i, int, int, int, int v) {
            return f(value_of(src, i), value_of(values, v));
        });
    }
    template <register_tile D, register_tile A, register_vector V, class F>
    static TK_DEVICE void map_col(D& dst, const A& src, const V& values, F&& f) {
        check_places<D, A>(), check_col_values<D, V>();
        assign_each(dst, [&](int i, int, int, int v, int) {
            return f(value_of(src, i), value_of(values, v));
        });
    }
    // f(row, column, x) with the place in the group's tile; f(place, x) of a vector.
    template <register_tile D, register_tile A, class F>
    static TK_DEVICE void apply(D& dst, const A& src, F&& f) {
        check_places<D, A>();
        assign_each(dst, [&](int i, int row, int col, int, int) {
            return f(group_row<Warps>(row), col, value_of(src, i));
        });
    }
    template <register_vector D, register_vector A, class F>
    static TK_DEVICE void apply(D& dst, const A& src, F&& f) {
        check_places<D, A>();
        D::for_each([&](int i, int place) {
            dst.data[i] = convert<typename D::dtype>(f(place, value_of(src, i)));
        });
    }

    // --- Constants ---

    template <in_registers D>
    static TK_DEVICE void fill(D& dst, float value) {
        assign(dst, [&](int) { return value; });
    }
    template <class D>
    static TK_DEVICE void zero(D& dst) {
        group<Warps>::fill(dst, 0.0f);
    }
    template <class D>
    static TK_DEVICE void one(D& dst) {
        group<Warps>::fill(dst, 1.0f);
    }
    // Of 8-bit elements, which saturate, the largest finite number.
    template <class D>
    static TK_DEVICE void pos_infty(D& dst) {
        group<Warps>::fill(dst, std::numeric_limits<float>::infinity());
    }
    template <class D>
    static TK_DEVICE void neg_infty(D& dst) {
        group<Warps>::fill(dst, -std::numeric_limits<float>::infinity());
    }

    // --- Functions of one operand, dst = f(src) ---

    template <class D, class A>
    static TK_DEVICE void exp(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::exp{});
    }
    template <class D, class A>
    static TK_DEVICE void exp2(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::exp2{});
    }
    template <class D, class A>
    static TK_DEVICE void log(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::log{});
    }
    template <class D, class A>
    static TK_DEVICE void log2(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::log2{});
    }
    template <class D, class A>
    static TK_DEVICE void abs(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::abs{});
    }
    template <class D, class A>
    static TK_DEVICE void relu(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::relu{});
    }
    template <class D, class A>
    static TK_DEVICE void sqrt(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::sqrt{});
    }
    template <class D, class A>
    static TK_DEVICE void rsqrt(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::rsqrt{});
    }
    template <class D, class A>
    static TK_DEVICE void sin(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::sin{});
    }
    template <class D, class A>
    static TK_DEVICE void cos(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::cos{});
    }
    template <class D, class A>
    static TK_DEVICE void tanh(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::tanh{});
    }
    template <class D, class A>
    static TK_DEVICE void sigmoid(D& dst, const A& src) {
        group<Warps>::map(dst, src, functions::logistic{});
    }

    // --- Of two operands, dst = f(a, b): b a tile, a vector (for a vector) or a number ---

    template <class D, class A, class B>
    static TK_DEVICE void add(D& dst, const A& a, const B& b) {
        group<Warps>::map(dst, a, b, functions::add{});
    }
    template <class D, class A, class B>
    static TK_DEVICE void sub(D& dst, const A& a, const B& b) {
        group<Warps>::map(dst, a, b, functions::sub{});
    }
    template <class D, class A, class B>
    static TK_DEVICE void mul(D& dst, const A& a, const B& b) {
        group<Warps>::map(dst, a, b, functions::mul{});
    }
    template <class D, class A, class B>
    static TK_DEVICE void div(D& dst, const A& a, const B& b) {
        group<Warps>::map(dst, a, b, functions::div{});
    }
    template <class D, class A, class B>
    static TK_DEVICE void max(D& dst, const A& a, const B& b) {
        group<Warps>::map(dst, a, b, functions::max{});
    }
    template <class D, class A, class B>
    static TK_DEVICE void min(D& dst, const A& a, const B& b) {
        group<Warps>::map(dst, a, b, functions::min{});
    }

    template <class D, class A, class V>
    static TK_DEVICE void add_row(D& dst, const A& src, const V& values) {
        group<Warps>::map_row(dst, src, values, functions::add{});
    }
    template <class D, class A, class V>
    static TK_DEVICE void sub_row(D& dst, const A& src, const V& values) {
        group<Warps>::map_row(dst, src, values, functions::sub{});
    }
    template <class D, class A, class V>
    static TK_DEVICE void mul_row(D& dst, const A& src, const V& values) {
        group<Warps>::map_row(dst, src, values, functions::mul{});
    }
    template <class D, class A, class V>
    static TK_DEVICE void div_row(D& dst, const A& src, const V& values) {
        group<Warps>::map_row(dst, src, values, functions::div{});
    }
    template <class D, class A, class V>
    static TK_DEVICE void max_row(D& dst, const A& src, const V& values) {
        group<Warps>::map_row(dst, src, values, functions::max{});
    }
    template <class D, class A, class V>
    static TK_DEVICE void min_row(D& dst, const A& src, const V& values) {
        group<Warps>::map_row(dst, src, values, functions::min{});
    }
    template <class D, class A, class V>
    static TK_DEVICE void add_col(D& dst, const A& src, const V& values) {
        group<Warps>::map_col(dst, src, values, functions::add{});
    }
    template <class D, class A, class V>
    static TK_DEVICE void sub_col(D& dst, const A& src, const V& values) {
        group<Warps>::map_col(dst, src, values, functions::sub{});
    }
    template <class D, class A, class V>
    static TK_DEVICE void mul_col(D& dst, const A& src, const V& values) {
        group<Warps>::map_col(dst, src, values, functions::mul{});
    }
    template <class D, class A, class V>
    static TK_DEVICE void div_col(D& dst, const A& src, const V& values) {
        group<Warps>::map_col(dst, src, values, functions::div{});
    }
    template <class D, class A, class V>
    static TK_DEVICE void max_col(D& dst, const A& src, const V& values) {
        group<Warps>::map_col(dst, src, values, functions::max{});
    }
    template <class D, class A, class V>
    static TK_DEVICE void min_col(D& dst, const A& src, const V& values) {
        group<Warps>::map_col(dst, src, values, functions::min{});
    }

    // The value of its row, or of its column, in every place.
    template <register_tile D, register_vector V>
    static TK_DEVICE void broadcast_row(D& dst, const V& values) {
        check_row_values<D, V>();
        assign_each(dst, [&](int, int, int, int, int v) { return value_of(values, v); });
    }
    template <register_tile D, register_vector V>
    static TK_DEVICE void broadcast_col(D& dst, const V& values) {
        check_col_values<D, V>();
        assign_each(dst, [&](int, int, int, int v, int) { return value_of(values, v); });
    }

    // --- Of three: dst = a b + c, rounded once ---

    template <class D, class A, class B, class C>
    static TK_DEVICE void fma(D& dst, const A& a, const B& b, const C& c) {
        group<Warps>::map(dst, a, b, c, functions::fma{});
    }
    // dst = 2^(scale (src - value of its row)): the softmax's numerators, by one multiply-add and
    // one exponential each (a product for the row). A row whose value is -infinity, of a softmax
    // over nothing, is 0.
    template <class D, class A, class V>
    static TK_DEVICE void exp2_scaled_sub_row(D& dst, const A& src, const V& values, float scale) {
        const auto scaled_value = [&](float x) {
            return x == -std::numeric_limits<float>::infinity() ? 0.0f : x * scale;
        };
        const auto power = [&](float x, float scaled) {
            return functions::exp2{}(fmaf(x, scale, -scaled));
        };
        if constexpr (register_vector<V>) {
            rv<float, V::length, V::layout> scaled;
            group<Warps>::map(scaled, values, scaled_value);
            group<Warps>::map_row(dst, src, scaled, power);
        } else {  // of shared memory: a product for each element
            group<Warps>::map_row(dst, src, values, [&](float x, float value) {
                return power(x, scaled_value(value));
            });
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
