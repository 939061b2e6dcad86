// Global tensors whose element type is known only at run time, as an epilogue's operands are.
#pragma once
#include "tk/tile/gl.hpp"
#include "tk/tile/vectors.hpp"

TK_NAMESPACE_BEGIN

// The element type of a tensor that is known only at run time.
enum class dtype_tag : int { bf16 = 0, half = 1, fp32 = 2 };

template <element T>
constexpr dtype_tag tag_of = std::is_same_v<T, bf16>   ? dtype_tag::bf16
                             : std::is_same_v<T, half> ? dtype_tag::half
                                                       : dtype_tag::fp32;

// A (batch, depth, rows, cols) tensor of any dtype and any strides, read and written as fp32.
struct any_gl {
    void* data = nullptr;
    dtype_tag tag = dtype_tag::fp32;
    int64_t batch_stride = 0, depth_stride = 0, row_stride = 0, col_stride = 1;
    bool by_vectors = false;  // 8 neighbouring columns from a multiple of 8 are aligned vectors

    TK_HOST_DEVICE explicit operator bool() const { return data != nullptr; }

    TK_HOST_DEVICE int64_t offset(coord at) const {
        return at.batch * batch_stride + at.depth * depth_stride + at.row * row_stride +
               at.col * col_stride;
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
    TK_DEVICE void get8(float (&values)[8], coord at, int limit) const {
        visit([&](const auto* elements) {
            using T = std::remove_cvref_t<decltype(*elements)>;
            const T* from = elements + offset(at);
            if (by_vectors && at.col + 8 <= limit) {
                detail::read_vectors(values, from);
            } else {
                TK_UNROLL
                for (int i = 0; i < 8; ++i) {
                    if (at.col + i < limit) values[i] = convert<float>(from[i * col_stride]);
                }
            }
        });
    }
    TK_DEVICE void set8(const float (&values)[8], coord at, int limit) const {
        visit([&](auto* elements) {
            using T = std::remove_cvref_t<decltype(*elements)>;
            T* to = elements + offset(at);
            if (by_vectors && at.col + 8 <= limit) {
                detail::write_vectors(to, values);
            } else {
                TK_UNROLL
                for (int i = 0; i < 8; ++i) {
                    if (at.col + i < limit) to[i * col_stride] = convert<T>(values[i]);
                }
            }
        });
    }
};

TK_NAMESPACE_END
