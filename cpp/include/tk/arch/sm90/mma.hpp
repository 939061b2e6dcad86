// Warpgroup matrix products on sm90: CuTe's GMMA atoms over whole tiles.
#pragma once
#include <cute/arch/mma_sm90.hpp>
#include <cute/atom/mma_atom.hpp>

#include "tk/tile/register_tile.hpp"
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <int Warps>
struct mma_ops {
    // acc = a b + (accumulate ? acc : 0). acc is (4 * rows, cols) over the warpgroup, fp32; a is
    // (M, K), or (K, M) when transposed; b is (K, N), or (N, K) when transposed. The product is
    // asynchronous: a and b must stay as they are, and acc must not be touched, until
    // `mma_async_wait`.
    template <bool TransposeA, bool TransposeB, class Acc, shared_tile A, shared_tile B>
    static TK_DEVICE void mma(Acc& acc, const A& a, const B& b, bool accumulate = true) {
        static_assert(Warps == 4, "mma on shared tiles is an operation of a warpgroup");
        using T = typename A::dtype;
        constexpr int M = TransposeA ? A::cols : A::rows, K = TransposeA ? A::rows : A::cols;
        constexpr int N = TransposeB ? B::rows : B::cols;
        static_assert(std::is_same_v<T, typename B::dtype>, "mma: a and b must have one dtype");
        static_assert(M == Acc::rows * 4, "mma: a must have four times the rows of acc");
        static_assert(N == Acc::cols, "mma: b must have the columns of acc");
        static_assert(K == (TransposeB ? B::cols : B::rows), "mma: a and b must agree in K");
        static_assert(K % 16 == 0, "mma: K must be a multiple of 16");
        constexpr auto major_a = TransposeA ? cute::GMMA::Major::MN : cute::GMMA::Major::K;
        constexpr auto major_b = TransposeB ? cute::GMMA::Major::K : cute::GMMA::Major::MN;
        using op =
            decltype(cute::GMMA::ss_op_selector<T, T, float,
                                                cute::Shape<cute::_64, cute::Int<N>, cute::_16>,
                                                major_a, major_b>());
        auto tiled = cute::make_tiled_mma(op{});
        auto slice = tiled.get_thread_slice(0);
        auto operand_a = [&] {
            if constexpr (TransposeA) {
                return slice.make_fragment_A(slice.partition_A(a.tensor_t()));
            } else {
                return slice.make_fragment_A(slice.partition_A(a.tensor()));
            }
        }();  // (MMA,MMA_M,MMA_K)
        auto operand_b = [&] {
            if constexpr (TransposeB) {
                return slice.make_fragment_B(slice.partition_B(b.tensor()));
            } else {
                return slice.make_fragment_B(slice.partition_B(b.tensor_t()));
            }
        }();  // (MMA,MMA_N,MMA_K)
        auto accumulator = acc.tensor();  // (MMA,MMA_M,MMA_N)
        tiled.accumulate_ = accumulate ? cute::GMMA::ScaleOut::One : cute::GMMA::ScaleOut::Zero;
        cute::warpgroup_fence_operand(accumulator);
        cute::warpgroup_arrive();
        TK_UNROLL
        for (int k = 0; k < K / 16; ++k) {
            cute::gemm(tiled, operand_a(cute::_, cute::_, k), operand_b(cute::_, cute::_, k),
                       accumulator);
            tiled.accumulate_ = cute::GMMA::ScaleOut::One;
        }
        cute::warpgroup_commit_batch();
        cute::warpgroup_fence_operand(accumulator);
    }

    template <class Acc, shared_tile A, shared_tile B>
    static TK_DEVICE void mma_AB(Acc& acc, const A& a, const B& b, bool accumulate = true) {
        mma<false, false>(acc, a, b, accumulate);
    }
    template <class Acc, shared_tile A, shared_tile B>
    static TK_DEVICE void mma_ABt(Acc& acc, const A& a, const B& b, bool accumulate = true) {
        mma<false, true>(acc, a, b, accumulate);
    }
    template <class Acc, shared_tile A, shared_tile B>
    static TK_DEVICE void mma_AtB(Acc& acc, const A& a, const B& b, bool accumulate = true) {
        mma<true, false>(acc, a, b, accumulate);
    }
    template <class Acc, shared_tile A, shared_tile B>
    static TK_DEVICE void mma_AtBt(Acc& acc, const A& a, const B& b, bool accumulate = true) {
        mma<true, true>(acc, a, b, accumulate);
    }

    // Waits until at most `InFlight` of the products issued so far are unfinished. Every register
    // tile in flight must be named, so that the compiler keeps its hands off them.
    template <int InFlight, class... Acc>
    static TK_DEVICE void mma_async_wait(Acc&... acc) {
        cute::warpgroup_wait<InFlight>();
        (fence(acc), ...);
    }

  private:
    template <class Acc>
    static TK_DEVICE void fence(Acc& acc) {
        auto accumulator = acc.tensor();
        cute::warpgroup_fence_operand(accumulator);
    }
};

}  // namespace detail

TK_NAMESPACE_END
