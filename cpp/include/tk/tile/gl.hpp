// Global tensors: a pointer, sizes and strides; and, for the tile they are copied by, a TMA
// descriptor.
#pragma once
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

// A (batch, rows, cols) tensor in global memory; strides in elements, any of them.
template <class T>
struct gl_view {
    using dtype = T;
    T* data = nullptr;
    int64_t batch = 1, rows = 0, cols = 0;
    int64_t batch_stride = 0, row_stride = 0, col_stride = 1;

    TK_HOST_DEVICE int64_t offset(int64_t b, int64_t r, int64_t c) const {
        return b * batch_stride + r * row_stride + c * col_stride;
    }
};

// How one tile copy is shared by the blocks of a cluster: each block loads part `part` of `parts`
// and multicasts it to the blocks in `mask`. `parts` is a power of two.
struct multicast {
    int parts = 1;
    int part = 0;
    uint16_t mask = 1;
};

// The box of one TMA copy of tile S when `parts` blocks share it: whole panels where they can be
// dealt out, otherwise rows of every panel.
template <shared_tile S>
struct tma_box {
    TK_HOST_DEVICE static constexpr bool by_panel(int parts) { return S::panels % parts == 0; }
    TK_HOST_DEVICE static constexpr int rows(int parts) {
        return by_panel(parts) ? S::rows : S::rows / parts;
    }
    TK_HOST_DEVICE static constexpr bool legal(int parts) {
        return by_panel(parts) || (S::rows % (8 * parts) == 0);
    }
};

// How long the second-level cache is asked to keep what a TMA load brings.
enum class eviction { normal, first };

// A global tensor with the TMA descriptor for copies of tile S. `tma_descriptor` is the
// architecture's; columns are contiguous, and a batch stride of 0 (the same matrix for every
// batch) is expressed by a batch size of 1 in the descriptor.
template <class T, shared_tile S, class Descriptor>
struct gl_tma : gl_view<T> {
    using tile = S;
    Descriptor descriptor;
    bool batch_is_broadcast = false;
    eviction keep = eviction::normal;

    TK_HOST_DEVICE int batch_coord(int batch) const { return batch_is_broadcast ? 0 : batch; }
};

// The element type of a tensor that is known only at run time.
enum class dtype_tag : int { bf16 = 0, half = 1, fp32 = 2 };

template <element T>
constexpr dtype_tag tag_of = std::is_same_v<T, bf16>   ? dtype_tag::bf16
                             : std::is_same_v<T, half> ? dtype_tag::half
                                                       : dtype_tag::fp32;

// A (batch, rows, cols) tensor of any dtype and any strides, read and written as fp32.
struct any_gl {
    void* data = nullptr;
    dtype_tag tag = dtype_tag::fp32;
    int64_t batch_stride = 0, row_stride = 0, col_stride = 1;
    bool by_vectors = false;  // 8 neighbouring columns from a multiple of 8 are aligned vectors

    TK_HOST_DEVICE explicit operator bool() const { return data != nullptr; }

    TK_HOST_DEVICE int64_t offset(coord at) const {
        return at.batch * batch_stride + at.row * row_stride + at.col * col_stride;
    }
    // f(pointer to the first element, with its type).
    template <class F>
    TK_HOST_DEVICE void visit(F&& f) const {
        if (tag == dtype_tag::bf16) {
            f(static_cast<bf16*>(data));
        } else if (tag == dtype_tag::half) {
            f(static_cast<half*>(data));
        } else {
            f(static_cast<float*>(data));
        }
    }
    // The 8 columns from `at`, those below `limit` alone; values[i] is untouched from there on.
    TK_HOST_DEVICE void get8(float (&values)[8], coord at, int limit) const {
        visit([&](const auto* elements) {
            using T = std::remove_cvref_t<decltype(*elements)>;
            const T* from = elements + offset(at);
            if (by_vectors && at.col + 8 <= limit) {
                const vector8<T> vector = *reinterpret_cast<const vector8<T>*>(from);
                TK_UNROLL
                for (int i = 0; i < 8; ++i) values[i] = convert<float>(vector.data[i]);
            } else {
                TK_UNROLL
                for (int i = 0; i < 8; ++i) {
                    if (at.col + i < limit) values[i] = convert<float>(from[i * col_stride]);
                }
            }
        });
    }
    TK_HOST_DEVICE void set8(const float (&values)[8], coord at, int limit) const {
        visit([&](auto* elements) {
            using T = std::remove_cvref_t<decltype(*elements)>;
            T* to = elements + offset(at);
            if (by_vectors && at.col + 8 <= limit) {
                vector8<T> vector;
                TK_UNROLL
                for (int i = 0; i < 8; ++i) vector.data[i] = convert<T>(values[i]);
                *reinterpret_cast<vector8<T>*>(to) = vector;
            } else {
                TK_UNROLL
                for (int i = 0; i < 8; ++i) {
                    if (at.col + i < limit) to[i * col_stride] = convert<T>(values[i]);
                }
            }
        });
    }

  private:
    template <class T>
    struct alignas(16) vector8 {
        T data[8];
    };
};

TK_NAMESPACE_END
