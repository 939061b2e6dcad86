// A warp's matrix products on sm90: mma.sync over the fragments of register tiles.
#pragma once
#include <cute/arch/mma_sm80.hpp>
#include <cute/arch/mma_sm89.hpp>

#include "tk/tile/mma_words.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// The instruction for these operands and accumulators.
template <class D, class A, class B>
constexpr auto warp_mma_atom() {
    if constexpr (std::is_same_v<A, bf16>) {
        return cute::SM80_16x8x16_F32BF16BF16F32_TN{};
    } else if constexpr (std::is_same_v<A, half> && std::is_same_v<D, half>) {
        return cute::SM80_16x8x16_F16F16F16F16_TN{};
    } else if constexpr (std::is_same_v<A, half>) {
        return cute::SM80_16x8x16_F32F16F16F32_TN{};
    } else if constexpr (std::is_same_v<A, float>) {
        return cute::SM80_16x8x8_F32TF32TF32F32_TN{};
    } else if constexpr (std::is_same_v<A, e4m3> && std::is_same_v<B, e4m3>) {
        return cute::SM89_16x8x32_F32E4M3E4M3F32_TN{};
    } else if constexpr (std::is_same_v<A, e4m3>) {
        return cute::SM89_16x8x32_F32E4M3E5M2F32_TN{};
    } else if constexpr (std::is_same_v<B, e4m3>) {
        return cute::SM89_16x8x32_F32E5M2E4M3F32_TN{};
    } else {
        return cute::SM89_16x8x32_F32E5M2E5M2F32_TN{};
    }
}

struct warp_mma {
    template <class D>
    static TK_DEVICE void start(D& dst, const D& c, bool accumulate) {
        TK_UNROLL
        for (int i = 0; i < D::elements; ++i) {
            dst.data[i] = accumulate ? c.data[i] : typename D::dtype(0.0f);
        }
    }

    // dst += a b, or -= . Transposed or not, M and N lie across the lanes' groups, and K along the
    // lanes of a group: the fragments are the same.
    template <bool TransposeA, bool TransposeB, bool Subtract, class D, class A, class B>
    static TK_DEVICE void add(D& dst, const A& a, const B& b) {
        constexpr int k_steps = (TransposeA ? A::rows : A::cols) / mma_k<typename A::dtype>;
        TK_UNROLL
        for (int k = 0; k < k_steps; ++k) {
            TK_UNROLL
            for (int m = 0; m < D::blocks_across; ++m) {
                uint32_t left[4];
                TK_UNROLL
                for (int i = 0; i < 4; ++i) {
                    left[i] = word(a, m, k, i % 2, i / 2) ^ (Subtract ? signs<A> : 0u);
                }
                TK_UNROLL
                for (int n = 0; n < D::blocks_along; ++n) {
                    const uint32_t right[2] = {word(b, n / 2, k, n % 2, 0),
                                               word(b, n / 2, k, n % 2, 1)};
                    add_atom<A, B>(dst, D::index(m, n, 0, 0), left, right);
                }
            }
        }
    }

  private:
    template <class R>
    static constexpr uint32_t signs = sizeof(typename R::dtype) == 4   ? 0x80000000u
                                      : sizeof(typename R::dtype) == 2 ? 0x80008000u
                                                                       : 0x80808080u;

    // A register of an operand's fragment: block `across` of 16, its upper or lower 8; of the K of
    // step k the first or second half. The fragment of tf32 wants elements q and q + 4 of 8 from
    // lane q, which holds 2 q and 2 q + 1: those are given instead, in both operands alike, which
    // permutes the terms of the sum.
    template <class R>
    static TK_DEVICE uint32_t word(const R& tile, int across, int k, int upper, int second) {
        if constexpr (std::is_same_v<typename R::dtype, float>) {
            return __float_as_uint(tile.data[R::index(across, k, upper, second)]);
        } else {
            return *reinterpret_cast<const uint32_t*>(
                &tile.data[R::index(across, 2 * k + second, upper, 0)]);
        }
    }

    template <class A, class B, class D>
    static TK_DEVICE void add_atom(D& dst, int first, const uint32_t (&a)[4],
                                   const uint32_t (&b)[2]) {
        using T = typename D::dtype;
        using atom = decltype(warp_mma_atom<T, typename A::dtype, typename B::dtype>());
        if constexpr (std::is_same_v<T, half>) {
            auto* d = reinterpret_cast<uint32_t*>(&dst.data[first]);
            atom::fma(d[0], d[1], a[0], a[1], a[2], a[3], b[0], b[1], d[0], d[1]);
        } else {
            float* d = &dst.data[first];
            atom::fma(d[0], d[1], d[2], d[3], a[0], a[1], a[2], a[3], b[0], b[1], d[0], d[1], d[2],
                      d[3]);
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
