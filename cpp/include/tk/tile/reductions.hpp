// Reductions of register tiles and vectors: along rows and columns, and of all elements.
//
// `row_x` gives a value for each row, `col_x` one for each column. With a third operand the result
// goes on from those values. Sums are in fp32, rounded once at the end; in what order they are
// added is the architecture's. A maximum or a minimum over a NaN is NaN.
#pragma once
#include "tk/tile/maps.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/lanes.hpp"
#else
#include "tk/arch/host/lanes.hpp"
#endif

TK_NAMESPACE_BEGIN

namespace detail {

template <int Warps>
struct reduction_ops {
    // --- Along rows: dst[row] = f over the row; f(src[row], ...) with an accumulator ---

    template <register_vector V, register_tile R, class F>
    static TK_DEVICE void reduce_row(V& dst, const R& src, F&& f) {
        check_row_values<R, V>();
        constexpr auto lanes = R::is_row ? lanes_of::group : lanes_of::place;
        float values[V::elements];
        partial<lanes, V::elements>(values, src, f, [](int, int of_row) { return of_row; });
        assign(dst, [&](int i) { return values[i]; });
    }
    template <register_vector V, register_tile R, register_vector A, class F>
    static TK_DEVICE void reduce_row(V& dst, const R& src, const A& accumulator, F&& f) {
        rv<float, V::length, V::layout> sums;
        reduce_row(sums, src, f);
        group<Warps>::map(dst, accumulator, sums, f);
    }
    // --- Along columns: a warp's rows alone, so for a single warp ---

    template <register_vector V, register_tile R, class F>
    static TK_DEVICE void reduce_col(V& dst, const R& src, F&& f) {
        static_assert(Warps == 1,
                      "a reduction along columns is an operation of one warp, over its own rows: "
                      "combine the warps' results through shared memory");
        check_col_values<R, V>();
        constexpr auto lanes = R::is_row ? lanes_of::place : lanes_of::group;
        float values[V::elements];
        partial<lanes, V::elements>(values, src, f, [](int of_col, int) { return of_col; });
        assign(dst, [&](int i) { return values[i]; });
    }
    template <register_vector V, register_tile R, register_vector A, class F>
    static TK_DEVICE void reduce_col(V& dst, const R& src, const A& accumulator, F&& f) {
        rv<float, V::length, V::layout> sums;
        reduce_col(sums, src, f);
        group<Warps>::map(dst, accumulator, sums, f);
    }

    template <class V, class R>
    static TK_DEVICE void row_sum(V& dst, const R& src) {
        reduce_row(dst, src, functions::add{});
    }
    template <class V, class R, class A>
    static TK_DEVICE void row_sum(V& dst, const R& src, const A& accumulator) {
        reduce_row(dst, src, accumulator, functions::add{});
    }
    // A sum over many tiles, kept apart by lanes: dst = accumulator + what the calling lane has of
    // the row. `finish_row_sum` adds the lanes up once, at the end.
    template <register_vector V, register_tile R, register_vector A>
    static TK_DEVICE void lane_row_sum(V& dst, const R& src, const A& accumulator) {
        check_row_values<R, V>(), check_places<V, A>();
        float values[V::elements];
        by_lane<V::elements>(values, src, functions::add{}, [](int, int of_row) { return of_row; });
        assign(dst, [&](int i) { return value_of(accumulator, i) + values[i]; });
    }
    template <register_vector V>
    static TK_DEVICE void finish_row_sum(V& dst, const V& src) {
        constexpr auto lanes =
            V::layout == vector_layout::orthogonal ? lanes_of::group : lanes_of::place;
        static_assert(V::layout != vector_layout::naive,
                      "finish_row_sum: the vector must be a tile's col_vec");
        assign(dst,
               [&](int i) { return combine_lanes<lanes>(value_of(src, i), functions::add{}); });
    }
    template <class V, class R>
    static TK_DEVICE void row_prod(V& dst, const R& src) {
        reduce_row(dst, src, functions::mul{});
    }
    template <class V, class R, class A>
    static TK_DEVICE void row_prod(V& dst, const R& src, const A& accumulator) {
        reduce_row(dst, src, accumulator, functions::mul{});
    }
    template <class V, class R>
    static TK_DEVICE void row_max(V& dst, const R& src) {
        reduce_row(dst, src, functions::max{});
    }
    template <class V, class R, class A>
    static TK_DEVICE void row_max(V& dst, const R& src, const A& accumulator) {
        reduce_row(dst, src, accumulator, functions::max{});
    }
    template <class V, class R>
    static TK_DEVICE void row_min(V& dst, const R& src) {
        reduce_row(dst, src, functions::min{});
    }
    template <class V, class R, class A>
    static TK_DEVICE void row_min(V& dst, const R& src, const A& accumulator) {
        reduce_row(dst, src, accumulator, functions::min{});
    }
    template <class V, class R>
    static TK_DEVICE void col_sum(V& dst, const R& src) {
        reduce_col(dst, src, functions::add{});
    }
    template <class V, class R, class A>
    static TK_DEVICE void col_sum(V& dst, const R& src, const A& accumulator) {
        reduce_col(dst, src, accumulator, functions::add{});
    }
    template <class V, class R>
    static TK_DEVICE void col_prod(V& dst, const R& src) {
        reduce_col(dst, src, functions::mul{});
    }
    template <class V, class R, class A>
    static TK_DEVICE void col_prod(V& dst, const R& src, const A& accumulator) {
        reduce_col(dst, src, accumulator, functions::mul{});
    }
    template <class V, class R>
    static TK_DEVICE void col_max(V& dst, const R& src) {
        reduce_col(dst, src, functions::max{});
    }
    template <class V, class R, class A>
    static TK_DEVICE void col_max(V& dst, const R& src, const A& accumulator) {
        reduce_col(dst, src, accumulator, functions::max{});
    }
    template <class V, class R>
    static TK_DEVICE void col_min(V& dst, const R& src) {
        reduce_col(dst, src, functions::min{});
    }
    template <class V, class R, class A>
    static TK_DEVICE void col_min(V& dst, const R& src, const A& accumulator) {
        reduce_col(dst, src, accumulator, functions::min{});
    }

    // --- Of everything that the warp holds; the same number in every lane ---

    template <register_tile R, class F>
    static TK_DEVICE float reduce(const R& src, F&& f) {
        static_assert(Warps == 1, "the reduction of a whole tile is an operation of one warp");
        float values[2] = {convert<float>(src.data[0]), convert<float>(src.data[1])};
        TK_UNROLL
        for (int i = 2; i < R::elements; ++i) {
            values[i % 2] = f(values[i % 2], convert<float>(src.data[i]));
        }
        return combine_lanes<lanes_of::warp>(f(values[0], values[1]), f);
    }
    template <register_vector V, class F>
    static TK_DEVICE float reduce(const V& src, F&& f) {
        static_assert(Warps == 1, "the reduction of a whole vector is an operation of one warp");
        float value = convert<float>(src.data[0]);
        TK_UNROLL
        for (int i = 1; i < V::elements; ++i) {
            // of the last 32 of a naive vector some lanes may have nothing
            if (V::position(i) < V::length) value = f(value, convert<float>(src.data[i]));
        }
        return combine_vector<V>(value, f);
    }
    template <in_registers R>
    static TK_DEVICE float sum(const R& src) {
        return reduce(src, functions::add{});
    }
    template <in_registers R>
    static TK_DEVICE float prod(const R& src) {
        return reduce(src, functions::mul{});
    }
    template <in_registers R>
    static TK_DEVICE float max(const R& src) {
        return reduce(src, functions::max{});
    }
    template <in_registers R>
    static TK_DEVICE float min(const R& src) {
        return reduce(src, functions::min{});
    }
    // Whether f is true of any element, or of any pair of elements of two vectors.
    template <in_registers R, class F>
    static TK_DEVICE bool any(const R& src, F&& f) {
        static_assert(Warps == 1, "any is an operation of one warp");
        bool found = false;
        R::for_each([&](int i, auto...) { found = found || f(convert<float>(src.data[i])); });
        return any_lane(found);
    }
    template <register_vector V, class F>
    static TK_DEVICE bool any(const V& a, const V& b, F&& f) {
        static_assert(Warps == 1, "any is an operation of one warp");
        bool found = false;
        V::for_each([&](int i, int) {
            found = found || f(convert<float>(a.data[i]), convert<float>(b.data[i]));
        });
        return any_lane(found);
    }
    // Whether any element is NaN.
    template <in_registers R>
    static TK_DEVICE bool hasnan(const R& src) {
        return any(src, [](float x) { return x != x; });
    }

  private:
    // values[which(...)] = f over the elements with that index, over all lanes that share it.
    template <lanes_of Lanes, int Values, register_tile R, class F, class Which>
    static TK_DEVICE void partial(float (&values)[Values], const R& src, F&& f, Which&& which) {
        by_lane(values, src, f, which);
        TK_UNROLL
        for (int v = 0; v < Values; ++v) values[v] = combine_lanes<Lanes>(values[v], f);
    }
    // The same of the calling lane alone. Two chains an index, since one would be a single chain of
    // dependent instructions a row.
    template <int Values, register_tile R, class F, class Which>
    static TK_DEVICE void by_lane(float (&values)[Values], const R& src, F&& f, Which&& which) {
        float chains[2][Values] = {};
        int seen[Values] = {};
        R::for_each([&](int i, int, int, int of_col, int of_row) {
            const int v = which(of_col, of_row), chain = seen[v] % 2;
            const float value = convert<float>(src.data[i]);
            chains[chain][v] = seen[v] < 2 ? value : f(chains[chain][v], value);
            ++seen[v];
        });
        TK_UNROLL
        for (int v = 0; v < Values; ++v) {
            values[v] = seen[v] < 2 ? chains[0][v] : f(chains[0][v], chains[1][v]);
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
