// Copies between global memory and registers or shared memory by ordinary loads and stores: any
// strides and alignment; what lies outside of the tensor is 0 when loaded, and is not stored.
#pragma once
#include "tk/tile/gl.hpp"
#include "tk/tile/shared_ops.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// A tensor's matrix from a place on: where elements are, which are inside, and whether `Count`
// neighbours from a multiple of Count on are a vector of memory.
template <class T, int Count>
struct global_window {
    T* data;
    int64_t row_stride, col_stride, rows, cols;
    int row_0, col_0;
    bool aligned;

    template <class G>
    TK_DEVICE global_window(const G& tensor, coord at)
        : data(tensor.data + tensor.offset(at)),
          row_stride(tensor.row_stride),
          col_stride(tensor.col_stride),
          rows(has_matrix(tensor, at) ? tensor.rows() : 0),
          cols(tensor.cols()),
          row_0(at.row),
          col_0(at.col),
          aligned(Count > 1 && col_stride == 1 &&
                  (reinterpret_cast<uintptr_t>(data) | uint64_t(row_stride) * sizeof(T)) %
                          (Count * sizeof(T)) ==
                      0) {}

    // A batch or a depth outside of the tensor has no matrix.
    template <class G>
    static TK_DEVICE bool has_matrix(const G& tensor, coord at) {
        return uint64_t(at.batch) < uint64_t(tensor.batch()) &&
               uint64_t(at.depth) < uint64_t(tensor.depth());
    }
    // Before the first row or column is outside as well.
    TK_DEVICE bool inside(int row, int col) const {
        return uint64_t(int64_t(row_0) + row) < uint64_t(rows) &&
               uint64_t(int64_t(col_0) + col) < uint64_t(cols);
    }
    TK_DEVICE bool vector_inside(int row, int col) const {
        return inside(row, col) && inside(row, col + Count - 1);
    }
    TK_DEVICE T* address(int row, int col) const {
        return data + row * row_stride + col * col_stride;
    }
    TK_DEVICE void read(float (&values)[Count], int row, int col) const {
        if (aligned && vector_inside(row, col)) {
            read_vector(values, address(row, col));
        } else {
            TK_UNROLL
            for (int i = 0; i < Count; ++i) {
                values[i] = inside(row, col + i) ? convert<float>(*address(row, col + i)) : 0.0f;
            }
        }
    }
    TK_DEVICE void write(int row, int col, const float (&values)[Count]) const {
        using U = std::remove_const_t<T>;
        if (aligned && vector_inside(row, col)) {
            write_vector(address(row, col), values);
        } else {
            TK_UNROLL
            for (int i = 0; i < Count; ++i) {
                if (inside(row, col + i)) *address(row, col + i) = convert<U>(values[i]);
            }
        }
    }
};

template <class G>
using global_element = std::remove_pointer_t<decltype(std::declval<const G&>().data)>;

template <int Warps>
struct global_copy_ops {
    // The group's tile, with its corner at `at`; converted.
    template <register_tile R, global_tensor G>
    static TK_DEVICE void load(R& dst, const G& src, coord at) {
        constexpr int count = R::is_row ? neighbours<typename R::dtype> : 1;
        const global_window<global_element<G>, count> window(src, at);
        float values[count], all[R::elements];
        R::for_each([&](int i, int row, int col, int, int) {
            if (i % count != 0) return;
            window.read(values, group_row<Warps>(row), col);
            TK_UNROLL
            for (int n = 0; n < count; ++n) all[i + n] = values[n];
        });
        assign(dst, [&](int i) { return all[i]; });
    }
    template <global_tensor G, register_tile R>
    static TK_DEVICE void store(const G& dst, const R& src, coord at) {
        constexpr int count = R::is_row ? neighbours<typename R::dtype> : 1;
        const global_window<global_element<G>, count> window(dst, at);
        R::for_each([&](int i, int row, int col, int, int) {
            if (i % count != 0) return;
            float values[count];
            TK_UNROLL
            for (int n = 0; n < count; ++n) values[n] = convert<float>(src.data[i + n]);
            window.write(group_row<Warps>(row), col, values);
        });
    }
    // A vector along the columns; every warp of the group loads it, the first stores it.
    template <register_vector R, global_tensor G>
    static TK_DEVICE void load(R& dst, const G& src, coord at) {
        const global_window<global_element<G>, 1> window(src, at);
        R::for_each([&](int i, int place) {
            float value[1];
            window.read(value, 0, place);
            dst.data[i] = convert<typename R::dtype>(value[0]);
        });
    }
    template <global_tensor G, register_vector R>
    static TK_DEVICE void store(const G& dst, const R& src, coord at) {
        if (Warps > 1 && warp_index() % Warps != 0) return;
        if (!R::is_owner()) return;
        const global_window<global_element<G>, 1> window(dst, at);
        R::for_each([&](int i, int place) {
            const float value[1] = {convert<float>(src.data[i])};
            window.write(0, place, value);
        });
    }

    // A shared tile, all warps of the group together; converted. Ordinary loads and stores: the
    // reader of an asynchronous proxy needs `fence_async_proxy`.
    template <shared_tile S, global_tensor G>
    static TK_DEVICE void load(S& dst, const G& src, coord at) {
        constexpr int count = vector_cols<S, int(sizeof(typename S::dtype))>;
        note_tile<Warps>(dst, true, "load");
        if constexpr (strided_tile<S, global_element<G>, Warps * 32>) {
            copy_strided<true, Warps>(dst,
                                      strided_matrix<global_element<G>>(src, at, S::rows, S::cols));
            return;
        }
        if (load_by<count>(dst, src, at)) return;
        // Sizes that are no multiple of a vector are often even.
        if constexpr (count > 2) {
            if (load_by<2>(dst, src, at)) return;
        }
        load_by<1>(dst, src, at);
    }
    template <global_tensor G, shared_tile S>
    static TK_DEVICE void store(const G& dst, const S& src, coord at) {
        constexpr int count = vector_cols<S, int(sizeof(typename S::dtype))>;
        note_tile<Warps>(src, false, "store to global memory");
        if constexpr (strided_tile<S, global_element<G>, Warps * 32>) {
            copy_strided<false, Warps>(
                src, strided_matrix<global_element<G>>(dst, at, S::rows, S::cols));
            return;
        }
        const global_window<global_element<G>, count> window(dst, at);
        if (window.aligned) {
            deal<Warps, count, S::rows, S::cols>(false, [&](int row, int col) {
                float values[count];
                read_vector(values, src.data + src.index(row, col));
                window.write(row, col, values);
            });
        } else {
            const global_window<global_element<G>, 1> single(dst, at);
            deal<Warps, 1, S::rows, S::cols>(
                dst.row_stride < dst.col_stride, [&](int row, int col) {
                    const float value[1] = {convert<float>(src.data[src.index(row, col)])};
                    single.write(row, col, value);
                });
        }
    }
    template <shared_vector V, global_tensor G>
    static TK_DEVICE void load(V& dst, const G& src, coord at) {
        note_vector<Warps>(dst, true, "load");
        const global_window<global_element<G>, 1> window(src, at);
        deal_vector<Warps, V::length>([&](int i) {
            float value[1];
            window.read(value, 0, i);
            dst.data[i] = convert<typename V::dtype>(value[0]);
        });
    }
    template <global_tensor G, shared_vector V>
    static TK_DEVICE void store(const G& dst, const V& src, coord at) {
        note_vector<Warps>(src, false, "store to global memory");
        const global_window<global_element<G>, 1> window(dst, at);
        deal_vector<Warps, V::length>([&](int i) {
            const float value[1] = {convert<float>(src.data[i])};
            window.write(0, i, value);
        });
    }

  private:
    // Whether the tensor can be read by so many neighbours; if so, has loaded the tile.
    template <int Count, shared_tile S, global_tensor G>
    static TK_DEVICE bool load_by(S& dst, const G& src, coord at) {
        const global_window<global_element<G>, Count> window(src, at);
        if (Count > 1 && !window.aligned) return false;
        // Lanes read neighbours: single elements follow the smaller stride.
        deal_loads<Warps, Count, S::rows, S::cols>(
            Count == 1 && src.row_stride < src.col_stride,
            [&](float (&values)[Count], int row, int col) { window.read(values, row, col); },
            [&](int row, int col, const float (&values)[Count]) {
                auto* to = dst.data + dst.index(row, col);
                if constexpr (Count > 1) {
                    write_vector(to, values);
                } else {
                    *to = convert<typename S::dtype>(values[0]);
                }
            });
        return true;
    }
};

}  // namespace detail

TK_NAMESPACE_END
