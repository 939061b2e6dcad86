// A warpgroup's matrix products on sm90: CuTe's GMMA atoms over whole tiles.
#pragma once
#include <cute/arch/mma_sm90.hpp>
#include <cute/atom/mma_atom.hpp>

#include "tk/tile/mma_words.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// CuTe keeps the widths that few need behind a macro, since they take long to compile.
constexpr bool wgmma_has_width(int n) {
#if defined(CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED)
    return n % 8 == 0;
#else
    return n == 8 || n == 16 || n == 32 || n == 64 || n == 96 || n == 128 || n == 192 || n == 256;
#endif
}

struct wgmma {
    // The fences tell the compiler that a register tile changes, and is read, out of its sight.
    template <class R>
    static TK_DEVICE void fence_registers(R& tile) {
        if constexpr (complex_tile<R>) {
            fence_registers(tile.real);
            fence_registers(tile.imag);
        } else if constexpr (register_tile<R>) {
            // An operand is const to its product, not to its owner.
            auto fragment = const_cast<std::remove_const_t<R>&>(tile).tensor();
            cute::warpgroup_fence_operand(fragment);
        }
    }

    template <class Acc, class A>
    static TK_DEVICE void begin(Acc& acc, const A& a) {
        fence_registers(acc);
        fence_registers(a);
        cute::warpgroup_arrive();
    }
    template <class Acc, class A>
    static TK_DEVICE void end(Acc& acc, const A& a) {
        cute::warpgroup_commit_batch();
        fence_registers(acc);
        fence_registers(a);
    }

    // acc = (Subtract ? -1 : 1) a b + (accumulate ? acc : 0), in the group under way.
    template <bool TransposeA, bool TransposeB, bool Subtract, bool Commits, class Acc, class A,
              class B>
    static TK_DEVICE void issue(Acc& acc, const A& a, const B& b, bool accumulate) {
        constexpr int K = TransposeA ? A::rows : A::cols, N = Acc::cols;
        constexpr int step = mma_k<typename A::dtype>;
        static_assert(wgmma_has_width(N),
                      "mma: N must be 8, 16, 32, 64, 96, 128, 192 or 256; for other multiples of 8 "
                      "compile with -DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED, which takes longer");
        auto tiled = cute::make_tiled_mma(op<TransposeA, TransposeB, Subtract, A, B, N>{});
        auto slice = tiled.get_thread_slice(0);
        auto operand_a = [&] {
            if constexpr (register_tile<A>) {
                return registers_of_a(const_cast<A&>(a));
            } else if constexpr (TransposeA) {
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
        TK_UNROLL
        for (int k = 0; k < K / step; ++k) {
            cute::gemm(tiled, operand_a(cute::_, cute::_, k), operand_b(cute::_, cute::_, k),
                       accumulator);
            tiled.accumulate_ = cute::GMMA::ScaleOut::One;
        }
    }

  private:
    template <class T>
    using operand_type = std::conditional_t<std::is_same_v<T, float>, cute::tfloat32_t, T>;

    template <bool TransposeA, bool TransposeB, bool Subtract, class A, class B, int N>
    static constexpr auto select_op() {
        using cute::GMMA::Major, cute::GMMA::ScaleIn;
        using T = operand_type<typename A::dtype>;
        using U = operand_type<typename B::dtype>;
        using shape = cute::Shape<cute::_64, cute::Int<N>, cute::Int<mma_k<typename A::dtype>>>;
        constexpr auto sign = Subtract ? ScaleIn::Neg : ScaleIn::One;
        constexpr auto major_b = TransposeB ? Major::K : Major::MN;
        if constexpr (register_tile<A>) {
            return cute::GMMA::rs_op_selector<T, U, float, shape, Major::K, major_b, sign,
                                              ScaleIn::One>();
        } else {
            constexpr auto major_a = TransposeA ? Major::MN : Major::K;
            return cute::GMMA::ss_op_selector<T, U, float, shape, major_a, major_b, sign,
                                              ScaleIn::One>();
        }
    }
    template <bool TransposeA, bool TransposeB, bool Subtract, class A, class B, int N>
    using op = decltype(select_op<TransposeA, TransposeB, Subtract, A, B, N>());

    // The fragments of a register tile, one a K step: those of its blocks of neighbours along K.
    template <class A>
    static TK_DEVICE auto registers_of_a(A& a) {  // (MMA,MMA_M,MMA_K)
        using cute::Int, cute::_2;
        constexpr int n = A::neighbours;
        using layout = cute::Layout<
            cute::Shape<cute::Shape<Int<n>, _2, _2>, Int<A::blocks_across>,
                        Int<A::blocks_along / 2>>,
            cute::Stride<cute::Stride<cute::_1, Int<n>, Int<2 * n>>, Int<2 * n * A::blocks_along>,
                         Int<4 * n>>>;
        return cute::make_tensor(cute::make_rmem_ptr(a.data), layout{});
    }
};

}  // namespace detail

TK_NAMESPACE_END
