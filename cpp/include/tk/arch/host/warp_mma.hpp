// A warp's matrix products on the host: of whole register tiles, which one thread holds.
#pragma once
#include "tk/arch/host/context.hpp"
#include "tk/arch/host/product.hpp"
#include "tk/tile/mma_words.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

// The calling warp's own room for `floats`, one of a few.
inline float* buffer(int index, size_t floats) {
    auto& values = self().buffers[size_t(index)];
    if (values.size() < floats) values.resize(floats);
    return values.data();
}

// A register tile's elements, widened, as rows x cols; transposed if it is (cols, rows).
template <bool Transpose, class T>
void widen_registers(const T* data, int rows, int cols, float* out) {
    if constexpr (Transpose) {
        float* as_it_is = buffer(2, size_t(rows * cols));
        widen<T>(data, as_it_is, rows * cols);
        transpose(out, as_it_is, cols, rows);
    } else {
        widen<T>(data, out, rows * cols);
    }
}

inline void negate(float* values, int count) {
    for (int i = 0; i < count; ++i) values[i] = -values[i];
}

}  // namespace machine

namespace detail {

struct warp_mma {
    template <class D>
    static void start(D& dst, const D& c, bool accumulate) {
        for (int i = 0; i < D::elements; ++i) {
            dst.data[i] = accumulate ? c.data[i] : typename D::dtype(0.0f);
        }
    }

    // dst += a b, or -= .
    template <bool TransposeA, bool TransposeB, bool Subtract, class D, class A, class B>
    static void add(D& dst, const A& a, const B& b) {
        constexpr int m = D::rows, n = D::cols, k = TransposeA ? A::rows : A::cols;
        float* left = machine::buffer(1, size_t(m * k));
        float* right = machine::buffer(0, size_t(n * k));
        machine::widen_registers<TransposeA>(a.data, m, k, left);
        machine::widen_registers<TransposeB>(b.data, k, n, right);
        if constexpr (Subtract) machine::negate(left, m * k);
        if constexpr (std::is_same_v<typename D::dtype, float>) {
            machine::multiply(dst.data, left, right, m, n, k);
        } else {
            float* sums = machine::buffer(3, size_t(m * n));
            machine::widen<typename D::dtype>(dst.data, sums, m * n);
            machine::multiply(sums, left, right, m, n, k);
            for (int i = 0; i < m * n; ++i) dst.data[i] = convert<typename D::dtype>(sums[i]);
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
