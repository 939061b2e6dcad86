// Operations on shared tiles and vectors: maps, constants, copies, and the way between registers
// and shared vectors. All warps of the group share the elements; the next reader among them needs
// the group's `sync`, and an asynchronous one `fence_async_proxy` before it.
#pragma once
#include <numeric>

#include "tk/tile/maps.hpp"
#include "tk/tile/st.hpp"
#include "tk/tile/vectors.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/deal.hpp"
#else
#include "tk/arch/host/deal.hpp"
#endif

TK_NAMESPACE_BEGIN

namespace detail {

// How many columns of a shared tile are taken at once: 16 bytes of the widest element, fewer where
// a part is narrower.
template <shared_tile S, int Bytes>
inline constexpr int vector_cols = std::gcd(16 / Bytes, S::cols);

template <class A>
concept in_shared = shared_tile<A> || shared_vector<A>;
template <class A, class B>
inline constexpr bool have_one_shape = false;
template <shared_tile A, shared_tile B>
inline constexpr bool have_one_shape<A, B> = A::rows == B::rows && A::cols == B::cols;
template <shared_vector A, shared_vector B>
inline constexpr bool have_one_shape<A, B> = A::length == B::length;

// A source of an operation on shared memory: of the destination's shape, or a number.
template <class A, class D>
concept source_of = std::is_convertible_v<A, float> || have_one_shape<A, D>;

// Whether the elements of a source lie where those of the whole tile D do; a number is anywhere.
template <class A, class D>
inline constexpr bool is_laid_out_as = std::is_convertible_v<A, float>;
template <whole_shared_tile A, whole_shared_tile D>
inline constexpr bool is_laid_out_as<A, D> = std::is_same_v<typename A::dtype, typename D::dtype> &&
                                             std::is_same_v<typename A::layout, typename D::layout>;

template <int Warps>
struct shared_ops {
    // dst = f(sources...), element by element, f of fp32 values; a source may be a number, or dst.
    template <in_shared D, class F, source_of<D>... Sources>
    static TK_DEVICE void map_shared(D& dst, F&& f, const char* operation,
                                     const Sources&... sources) {
        (note_source(sources, operation), ...);
        if constexpr (shared_tile<D>) {
            using T = typename D::dtype;
            // as many columns as 16 bytes of the widest take
            constexpr int width = vector_cols<D, widest_of<T, Sources...>()>;
            note_tile<Warps>(dst, true, operation);
            const auto one_vector = [&](const auto& index, T* to) {
                float results[width];
                map_values(results, f, vector_at<width, Sources>(sources, index)...);
                write_vector(to, results);
            };
            if constexpr (whole_shared_tile<D> && (is_laid_out_as<Sources, D> && ...)) {
                // what belongs together lies at one index, whatever row and column that is
                deal_memory<Warps, width, D>(
                    [&](int i) { one_vector([&](const auto&) { return i; }, dst.data + i); });
            } else {
                deal_panels<Warps, width, D>([&](int row, int col) {
                    one_vector([&](const auto& tile) { return tile.index(row, col); },
                               dst.data + dst.index(row, col));
                });
            }
        } else {
            note_vector<Warps>(dst, true, operation);
            deal_vector<Warps, D::length>([&](int i) {
                dst.data[i] = convert<typename D::dtype>(f(element_at(sources, i)...));
            });
        }
    }
    // dst = f(src, value of its row), or of its column; the values a shared vector.
    template <shared_tile D, shared_tile A, shared_vector V, class F>
    static TK_DEVICE void map_row(D& dst, const A& src, const V& values, F&& f) {
        static_assert(V::length == D::rows,
                      "the vector of values for each row must have as many as the tile has rows");
        map_places(dst, src, values,
                   [&](int row, int, float x) { return f(x, convert<float>(values.data[row])); });
    }
    template <shared_tile D, shared_tile A, shared_vector V, class F>
    static TK_DEVICE void map_col(D& dst, const A& src, const V& values, F&& f) {
        static_assert(V::length == D::cols,
                      "the vector of values for each column must have as many as the tile has");
        map_places(dst, src, values,
                   [&](int, int col, float x) { return f(x, convert<float>(values.data[col])); });
    }
    // The value of its row, or of its column, in every place; the values a shared vector.
    template <shared_tile D, shared_vector V>
    static TK_DEVICE void broadcast_row(D& dst, const V& values) {
        static_assert(V::length == D::rows,
                      "broadcast_row: the vector must have as many values as the tile has rows");
        broadcast_places(dst, values,
                         [&](int row, int) { return convert<float>(values.data[row]); });
    }
    template <shared_tile D, shared_vector V>
    static TK_DEVICE void broadcast_col(D& dst, const V& values) {
        static_assert(V::length == D::cols,
                      "broadcast_col: the vector must have as many values as the tile has columns");
        broadcast_places(dst, values,
                         [&](int, int col) { return convert<float>(values.data[col]); });
    }
    // f(row, column, x); f(place, x) of a vector.
    template <shared_tile D, shared_tile A, class F>
    static TK_DEVICE void apply(D& dst, const A& src, F&& f) {
        note_source(src, "apply");
        map_each(dst, src, "apply", f);
    }
    template <shared_vector D, shared_vector A, class F>
    static TK_DEVICE void apply(D& dst, const A& src, F&& f) {
        note_source(src, "apply");
        note_vector<Warps>(dst, true, "apply");
        deal_vector<Warps, D::length>([&](int i) {
            dst.data[i] = convert<typename D::dtype>(f(i, convert<float>(src.data[i])));
        });
    }

    template <in_shared D, class A, class F>
    static TK_DEVICE void map(D& dst, const A& a, F&& f) {
        map_shared(dst, f, "map", a);
    }
    template <in_shared D, class A, class B, class F>
    static TK_DEVICE void map(D& dst, const A& a, const B& b, F&& f) {
        map_shared(dst, f, "map", a, b);
    }
    template <in_shared D, class A, class B, class C, class F>
    static TK_DEVICE void map(D& dst, const A& a, const B& b, const C& c, F&& f) {
        map_shared(dst, f, "map", a, b, c);
    }
    template <in_shared D>
    static TK_DEVICE void fill(D& dst, float value) {
        map_shared(dst, [](float x) { return x; }, "fill", value);
    }
    // dst = src, converted; of one shape.
    template <in_shared D, source_of<D> A>
    static TK_DEVICE void copy(D& dst, const A& src) {
        map_shared(dst, [](float x) { return x; }, "copy", src);
    }

    // --- Between registers and shared vectors: every warp of the group has the whole vector. ---

    template <register_vector R, shared_vector V>
    static TK_DEVICE void load(R& dst, const V& src) {
        static_assert(R::length == V::length, "load: the vectors must have one length");
        note_vector<Warps>(src, false, "load", true);
        R::for_each(
            [&](int i, int place) { dst.data[i] = convert<typename R::dtype>(src.data[place]); });
    }
    // By the first warp of the group.
    template <shared_vector V, register_vector R>
    static TK_DEVICE void store(V& dst, const R& src) {
        static_assert(R::length == V::length, "store: the vectors must have one length");
        if (Warps > 1 && warp_index() % Warps != 0) return;
        note_vector<Warps>(dst, true, "store", true);
        if (!R::is_owner()) return;
        R::for_each(
            [&](int i, int place) { dst.data[place] = convert<typename V::dtype>(src.data[i]); });
    }
    // A column vector's part of the group's tile: what a warp has of a value for each row.
    template <register_vector R, shared_vector V>
    static TK_DEVICE void load_rows(R& dst, const V& src) {
        static_assert(
            R::length * Warps == V::length,
            "load_rows: the shared vector must have a value for each of the group's rows");
        note_vector<1>(src, false, "load_rows");
        R::for_each([&](int i, int place) {
            dst.data[i] = convert<typename R::dtype>(src.data[group_row<Warps>(place)]);
        });
    }
    template <shared_vector V, register_vector R>
    static TK_DEVICE void store_rows(V& dst, const R& src) {
        static_assert(R::length * Warps == V::length,
                      "store_rows: the shared vector must have a value for each of the group's "
                      "rows");
        if constexpr (Warps == 1) {
            note_vector<1>(dst, true, "store_rows");
        } else {
            TK_UNROLL
            for (int row = 0; row < R::length; row += 16) {
                note_part(dst, group_row<Warps>(row), "store_rows");
            }
        }
        if (!R::is_owner()) return;
        R::for_each([&](int i, int place) {
            dst.data[group_row<Warps>(place)] = convert<typename V::dtype>(src.data[i]);
        });
    }

  private:
    template <class A>
    static TK_DEVICE void note_source(const A& source, const char* operation) {
        if constexpr (shared_tile<A>) note_tile<Warps>(source, false, operation);
        if constexpr (shared_vector<A>) note_vector<Warps>(source, false, operation);
    }

    template <class T, class... Sources>
    static constexpr int widest_of() {
        int widest = int(sizeof(T));
        const auto look = [&]<class A>(const A*) {
            if constexpr (shared_tile<A>) {
                if (int(sizeof(typename A::dtype)) > widest) widest = sizeof(typename A::dtype);
            }
        };
        (look(static_cast<const Sources*>(nullptr)), ...);
        return widest;
    }

    template <class A>
    static TK_DEVICE float element_at(const A& source, int i) {
        if constexpr (shared_vector<A>) {
            return convert<float>(source.data[i]);
        } else {
            return source;
        }
    }
    template <int Width, class A>
    struct vector_at {
        float values[Width];
        template <class Index>
        TK_DEVICE vector_at(const A& source, const Index& index) {
            if constexpr (shared_tile<A>) {
                read_vector(values, source.data + index(source));
            } else {
                TK_UNROLL
                for (float& value : values) value = float(source);
            }
        }
    };
    template <int Width, class F, class... Vectors>
    static TK_DEVICE void map_values(float (&results)[Width], F&& f, const Vectors&... vectors) {
        TK_UNROLL
        for (int i = 0; i < Width; ++i) results[i] = f(vectors.values[i]...);
    }

    template <class D, class A, class V, class F>
    static TK_DEVICE void map_places(D& dst, const A& src, const V& values, F&& f) {
        note_vector<Warps>(values, false, "map", true);
        note_source(src, "map");
        map_each(dst, src, "map", f);
    }
    template <class D, class V, class F>
    static TK_DEVICE void broadcast_places(D& dst, const V& values, F&& f) {
        note_vector<Warps>(values, false, "broadcast", true);
        note_tile<Warps>(dst, true, "broadcast");
        constexpr int width = vector_cols<D, int(sizeof(typename D::dtype))>;
        deal_panels<Warps, width, D>([&](int row, int col) {
            float results[width];
            for (int i = 0; i < width; ++i) results[i] = f(row, col + i);
            write_vector(dst.data + dst.index(row, col), results);
        });
    }
    template <class D, class A, class F>
    static TK_DEVICE void map_each(D& dst, const A& src, const char* operation, F&& f) {
        static_assert(D::rows == A::rows && D::cols == A::cols,
                      "the shared tiles must have one shape");
        constexpr int width = vector_cols<D, widest_of<typename D::dtype, A>()>;
        note_tile<Warps>(dst, true, operation);
        deal_panels<Warps, width, D>([&](int row, int col) {
            vector_at<width, A> from(src, [&](const A& tile) { return tile.index(row, col); });
            TK_UNROLL
            for (int i = 0; i < width; ++i) from.values[i] = f(row, col + i, from.values[i]);
            write_vector(dst.data + dst.index(row, col), from.values);
        });
    }
};

}  // namespace detail

TK_NAMESPACE_END
