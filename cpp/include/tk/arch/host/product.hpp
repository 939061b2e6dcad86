// The arithmetic of a warp's matrix product on the host, in plain fp32: rows of 16-bit elements are
// widened first, then a register-blocked loop that the compiler vectorises.
#pragma once
#include <cstdint>
#include <cstring>

#include "tk/arch/host/sanitizer.hpp"
#include "tk/tile/types.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#define TK_HOST_X86 1
#endif

TK_NAMESPACE_BEGIN

namespace machine {

// Eight 16-bit elements to fp32. Integers and one multiplication, so that it vectorises anywhere.
template <element_16bit T>
inline void widen_8(const void* from, float* to) {
    uint16_t raw[8];
    uint32_t bits[8];
    std::memcpy(raw, from, sizeof(raw));
    if constexpr (std::is_same_v<T, bf16>) {
        for (int i = 0; i < 8; ++i) bits[i] = uint32_t(raw[i]) << 16;
        std::memcpy(to, bits, sizeof(bits));
    } else {
        // The exponent moves from a bias of 15 to one of 127 by a factor of 2^112, which also makes
        // subnormals normal; infinity and NaN get the largest exponent.
        float scaled[8];
        for (int i = 0; i < 8; ++i) bits[i] = uint32_t(raw[i] & 0x7fff) << 13;
        std::memcpy(scaled, bits, sizeof(bits));
        for (int i = 0; i < 8; ++i) scaled[i] *= 0x1p112f;
        std::memcpy(bits, scaled, sizeof(bits));
        for (int i = 0; i < 8; ++i) {
            bits[i] |= (raw[i] & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
            bits[i] |= uint32_t(raw[i] & 0x8000) << 16;
        }
        std::memcpy(to, bits, sizeof(bits));
    }
}

// out (cols, rows) = in (rows, cols); both multiples of 4.
TK_HOST_PRIVATE_DATA inline void transpose(float* out, const float* in, int rows, int cols) {
    for (int r = 0; r < rows; r += 4) {
        for (int c = 0; c < cols; c += 4) {
            float block[4][4];
            for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) block[j][i] = in[(r + i) * cols + c + j];
            }
            for (int j = 0; j < 4; ++j) std::memcpy(out + (c + j) * rows + r, block[j], 16);
        }
    }
}

// c (Rows, 8 Vectors of n) += a (Rows, k) b (k, 8 Vectors of n), all of it in registers.
template <int Rows, int Vectors>
TK_HOST_PRIVATE_DATA inline __attribute__((always_inline)) void multiply_block(float* c,
                                                                               const float* a,
                                                                               const float* b,
                                                                               int n, int k) {
    typedef float vector __attribute__((vector_size(32)));
    vector sum[Rows][Vectors] = {};
    for (int kk = 0; kk < k; ++kk) {
        vector right[Vectors];
        for (int v = 0; v < Vectors; ++v) std::memcpy(&right[v], b + kk * n + v * 8, 32);
        for (int r = 0; r < Rows; ++r) {
            for (int v = 0; v < Vectors; ++v) sum[r][v] += a[r * k + kk] * right[v];
        }
    }
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < Vectors; ++v) {
            vector before;
            std::memcpy(&before, c + r * n + v * 8, 32);
            before += sum[r][v];
            std::memcpy(c + r * n + v * 8, &before, 32);
        }
    }
}

TK_HOST_PRIVATE_DATA inline __attribute__((always_inline)) void multiply_any(
    float* c, const float* a, const float* b, int rows, int n, int k) {
    for (int row = 0; row < rows; row += 4) {
        int col = 0;
        for (; col + 16 <= n; col += 16) {
            multiply_block<4, 2>(c + row * n + col, a + row * k, b + col, n, k);
        }
        for (; col < n; col += 8) {
            multiply_block<4, 1>(c + row * n + col, a + row * k, b + col, n, k);
        }
    }
}

#if defined(TK_HOST_X86)
TK_HOST_PRIVATE_DATA
__attribute__((target("avx2,fma"))) inline void multiply_avx2(float* c, const float* a,
                                                              const float* b, int rows, int n,
                                                              int k) {
    multiply_any(c, a, b, rows, n, k);
}
#endif

// c (rows, n) += a (rows, k) b (k, n), rows a multiple of 4, n of 8. The sum over k comes first.
inline void multiply(float* c, const float* a, const float* b, int rows, int n, int k) {
#if defined(TK_HOST_X86)
    static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (fast) return multiply_avx2(c, a, b, rows, n, k);
#endif
    multiply_any(c, a, b, rows, n, k);
}

}  // namespace machine

TK_NAMESPACE_END
