// What a matrix product asks of its operands, on every architecture: static checks in words.
#pragma once
#include "tk/tile/register_tile.hpp"
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// One instruction of the tensor cores takes 32 bytes of K.
template <class T>
inline constexpr int mma_k = 32 / int(sizeof(T));

// 8-bit operands may be of two kinds.
template <class A, class B>
concept mma_dtypes_agree = std::is_same_v<typename A::dtype, typename B::dtype> ||
                           (element_8bit<typename A::dtype> && element_8bit<typename B::dtype>);

// A part of a shared tile, whose matrices the tensor cores find only in some places.
template <class S>
concept shared_part = shared_tile<S> && !whole_shared_tile<S>;

// A product of register tiles: a is (M, K), or (K, M) when transposed; b is (K, N), or (N, K).
template <bool TransposeA, bool TransposeB, class D, class A, class B>
constexpr bool is_warp_mma() {
    static_assert(register_tile<D>, "mma: the destination must be a register tile");
    static_assert(
        register_tile<A> && register_tile<B>,
        "mma: a warp's operands must be register tiles; warpgroup::mma takes shared ones");
    static_assert(A::is_row != TransposeA,
                  "mma: a must have the row layout as (M, K), the column layout as (K, M): AtB, "
                  "AtBt");
    static_assert(B::is_row == TransposeB,
                  "mma: b must have the column layout as (K, N), the row layout as (N, K): ABt, "
                  "AtBt");
    static_assert(D::is_row, "mma: the destination must have the row layout");
    static_assert(mma_dtypes_agree<A, B>, "mma: a and b must have one dtype, or both be of 8 bits");
    static_assert(
        std::is_same_v<typename D::dtype, float> ||
            (std::is_same_v<typename D::dtype, half> && std::is_same_v<typename A::dtype, half>),
        "mma: the destination must be float; half too if a and b are half");
    constexpr int M = TransposeA ? A::cols : A::rows, K = TransposeA ? A::rows : A::cols;
    static_assert(M == D::rows, "mma: a must have the rows of the destination");
    static_assert((TransposeB ? B::rows : B::cols) == D::cols,
                  "mma: b must have the columns of the destination");
    static_assert(K == (TransposeB ? B::cols : B::rows), "mma: a and b must agree in K");
    static_assert(K % mma_k<typename A::dtype> == 0,
                  "mma: K must be a multiple of 32 bytes: 8 floats, 16 bf16 or half, 32 of 8 bits");
    return true;
}

// What lies in shared memory, with K contiguous or with M or N.
template <class S, bool KContiguous>
constexpr bool is_shared_operand() {
    using T = typename S::dtype;
    static_assert(KContiguous || element_16bit<T>,
                  "mma: only bf16 and half may have M or N contiguous in shared memory; with 8-bit "
                  "elements and floats a must be (M, K) and b (N, K): mma_ABt");
    if constexpr (shared_part<S>) {
        static_assert(S::is_operand,
                      "mma: a part of a shared tile must have a multiple of 8 rows, and of 16 "
                      "bytes of columns");
        static_assert(S::cols % S::panel_cols == 0 || (KContiguous && S::panel_cols % S::cols == 0),
                      "mma: a part of a shared tile must have whole panels (of the swizzle's "
                      "bytes); with K contiguous it may also divide one panel");
    }
    return true;
}

// A product of a warpgroup: a is (M, K), or (K, M) when transposed, in shared memory or in
// registers, each warp its own rows; b is (K, N), or (N, K) when transposed, in shared memory.
template <bool TransposeA, bool TransposeB, class D, class A, class B>
constexpr bool is_warpgroup_mma() {
    static_assert(register_tile<D>, "mma: the destination must be a register tile");
    static_assert(shared_tile<A> || register_tile<A>,
                  "mma: a warpgroup's a must be a shared or a register tile");
    static_assert(shared_tile<B>,
                  "mma: a warpgroup's b must be a shared tile; warp::mma takes register tiles");
    using T = typename A::dtype;
    constexpr bool from_registers = register_tile<A>;
    constexpr int M = TransposeA ? A::cols : A::rows, K = TransposeA ? A::rows : A::cols;
    constexpr int N = TransposeB ? B::rows : B::cols;
    static_assert(mma_dtypes_agree<A, B>, "mma: a and b must have one dtype, or both be of 8 bits");
    static_assert(std::is_same_v<typename D::dtype, float> && D::is_row,
                  "mma: the destination must be float, in the row layout");
    static_assert(N == D::cols, "mma: b must have the columns of the destination");
    static_assert(N % 8 == 0 && N <= 256, "mma: N must be a multiple of 8, at most 256");
    static_assert(K == (TransposeB ? B::cols : B::rows), "mma: a and b must agree in K");
    static_assert(K % mma_k<T> == 0,
                  "mma: K must be a multiple of 32 bytes: 8 floats, 16 bf16 or half, 32 of 8 bits");
    is_shared_operand<B, TransposeB>();
    if constexpr (from_registers) {
        static_assert(A::is_row != TransposeA,
                      "mma: a in registers must have the row layout as (M, K), the column layout "
                      "as (K, M): AtB, AtBt");
        static_assert(M == D::rows, "mma: a in registers must have the rows of the destination");
        // The fragment of tf32 has columns q and q + 4 where a register tile has 2 q and 2 q + 1.
        // A warp's product permutes K in both operands; here b's lies in shared memory.
        static_assert(sizeof(T) < 4,
                      "mma: a warpgroup's floats (tf32) must come from shared memory: store a, or "
                      "convert it to bf16 or half");
    } else {
        static_assert(M == D::rows * 4, "mma: a must have four times the rows of the destination");
        is_shared_operand<A, !TransposeA>();
    }
    return true;
}

}  // namespace detail

TK_NAMESPACE_END
