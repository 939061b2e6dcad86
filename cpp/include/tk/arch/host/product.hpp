// The arithmetic of a warp's matrix product on the host, in plain fp32: rows of elements are
// widened first, then a register-blocked loop that the compiler vectorises. Products of bf16, half
// and 8-bit elements are exact in fp32; sums are rounded in another order than the tensor cores'.
// Floats are cut to tf32, as the tensor cores do, which ignore the low 13 bits.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "tk/arch/host/sanitizer.hpp"
#include "tk/tile/types.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#define TK_HOST_X86 1
#endif

TK_NAMESPACE_BEGIN

namespace machine {

// Vectors of the compiler's own (GCC, Clang), whatever the processor has.
typedef float float4_vector __attribute__((vector_size(16)));
typedef float float8_vector __attribute__((vector_size(32)));
typedef uint32_t uint8_vector __attribute__((vector_size(32)));
typedef uint16_t ushort8_vector __attribute__((vector_size(16)));

// Eight 16-bit elements to fp32.
template <element_16bit T>
TK_HOST_PRIVATE_DATA inline __attribute__((always_inline)) void widen_8(const void* from,
                                                                        float* to) {
    ushort8_vector raw;
    std::memcpy(&raw, from, sizeof(raw));
    const uint8_vector bits = __builtin_convertvector(raw, uint8_vector);
    uint8_vector wide;
    if constexpr (std::is_same_v<T, bf16>) {
        wide = bits << 16;
    } else {
        // The exponent moves from a bias of 15 to one of 127 by a factor of 2^112, which also makes
        // subnormals normal; infinity and NaN get the largest exponent.
        const uint8_vector magnitude = (bits & 0x7fff) << 13;
        float8_vector scaled;
        std::memcpy(&scaled, &magnitude, sizeof(scaled));
        scaled *= 0x1p112f;
        std::memcpy(&wide, &scaled, sizeof(wide));
        const auto special = uint8_vector((bits & 0x7c00) == 0x7c00);  // all ones, or zero
        wide |= (special & 0x7f800000) | (bits & 0x8000) << 16;
    }
    std::memcpy(to, &wide, sizeof(wide));
}

// out (cols, rows) = in (rows, cols); both multiples of 4.
TK_HOST_PRIVATE_DATA inline void transpose(float* out, const float* in, int rows, int cols) {
    for (int c = 0; c < cols; c += 4) {
        for (int r = 0; r < rows; r += 4) {
            float4_vector a[4], b[4];
            for (int i = 0; i < 4; ++i) std::memcpy(&a[i], in + (r + i) * cols + c, 16);
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector)
            for (int i = 0; i < 2; ++i) {
                b[i] = __builtin_shufflevector(a[i], a[i + 2], 0, 4, 1, 5);
                b[i + 2] = __builtin_shufflevector(a[i], a[i + 2], 2, 6, 3, 7);
            }
            for (int i = 0; i < 2; ++i) {
                a[2 * i] = __builtin_shufflevector(b[2 * i], b[2 * i + 1], 0, 4, 1, 5);
                a[2 * i + 1] = __builtin_shufflevector(b[2 * i], b[2 * i + 1], 2, 6, 3, 7);
            }
#else
            for (int i = 0; i < 4; ++i) b[i] = a[i];
            for (int i = 0; i < 4; ++i) a[i] = float4_vector{b[0][i], b[1][i], b[2][i], b[3][i]};
#endif
            for (int i = 0; i < 4; ++i) std::memcpy(out + (c + i) * rows + r, &a[i], 16);
        }
    }
}

// c (Rows, 8 Vectors of n) += a (Rows, k) b (k, 8 Vectors of n), all of it in registers.
template <int Rows, int Vectors>
TK_HOST_PRIVATE_DATA inline __attribute__((always_inline)) void multiply_block(float* c,
                                                                               const float* a,
                                                                               const float* b,
                                                                               int n, int k) {
    using vector = float8_vector;
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

template <element_16bit T>
TK_HOST_PRIVATE_DATA inline __attribute__((always_inline)) void widen_any(const void* from,
                                                                          float* to, int count) {
    for (int i = 0; i < count; i += 8) {
        widen_8<T>(static_cast<const char*>(from) + i * int(sizeof(T)), to + i);
    }
}

#if defined(TK_HOST_X86)
#define TK_HOST_AVX2 TK_HOST_PRIVATE_DATA __attribute__((target("avx2,fma"))) inline
// The same for processors that have these instructions; asked at run time, since the library is
// built for any.
TK_HOST_AVX2 void multiply_avx2(float* c, const float* a, const float* b, int rows, int n, int k) {
    multiply_any(c, a, b, rows, n, k);
}
template <element_16bit T>
TK_HOST_AVX2 void widen_avx2(const void* from, float* to, int count) {
    widen_any<T>(from, to, count);
}
#undef TK_HOST_AVX2
inline bool has_avx2() {
    static const bool result = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return result;
}
#endif

// The fp32 number of every 8-bit pattern.
template <element_8bit T>
const std::array<float, 256>& numbers_of_8_bits() {
    static const std::array<float, 256> table = [] {
        std::array<float, 256> made{};
        for (int bits = 0; bits < 256; ++bits) {
            made[size_t(bits)] = float(T::bitcast(uint8_t(bits)));
        }
        return made;
    }();
    return table;
}

// `count` elements to fp32, a multiple of 8.
template <element T>
void widen(const void* from, float* to, int count) {
    if constexpr (element_8bit<T>) {
        const auto& numbers = numbers_of_8_bits<T>();
        const auto* bytes = static_cast<const uint8_t*>(from);
        for (int i = 0; i < count; ++i) to[i] = numbers[bytes[i]];
    } else if constexpr (std::is_same_v<T, float>) {
        const auto* floats = static_cast<const float*>(from);
        for (int i = 0; i < count; ++i) {
            to[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(floats[i]) & 0xffffe000u);
        }
    } else {
#if defined(TK_HOST_X86)
        if (has_avx2()) return widen_avx2<T>(from, to, count);
#endif
        widen_any<T>(from, to, count);
    }
}

// c (rows, n) += a (rows, k) b (k, n), rows a multiple of 4, n of 8. The sum over k comes first.
inline void multiply(float* c, const float* a, const float* b, int rows, int n, int k) {
#if defined(TK_HOST_X86)
    if (has_avx2()) return multiply_avx2(c, a, b, rows, n, k);
#endif
    multiply_any(c, a, b, rows, n, k);
}

}  // namespace machine

TK_NAMESPACE_END
