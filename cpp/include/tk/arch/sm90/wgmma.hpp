// A warpgroup's matrix products on sm90: CuTe's GMMA atoms over whole tiles.
#pragma once
#include <cute/arch/mma_sm90.hpp>
#include <cute/atom/mma_atom.hpp>

#include "tk/arch/sm90/wgmma_wide.hpp"
#include "tk/tile/mma_words.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// Whether CuTe has the width without being asked for more; wgmma_wide.hpp has the others.
constexpr bool is_width_of_cute(int n) {
    return n == 8 || n == 16 || n == 32 || n == 64 || n == 96 || n == 128 || n == 192 || n == 256;
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
        auto tiled = cute::make_tiled_mma(op<TransposeA, TransposeB, Subtract, A, B, N>{});
        auto slice = tiled.get_thread_slice(0);
        auto operand_a = [&] {
            if constexpr (register_tile<A>) {
                return registers_of_a(const_cast<A&>(a));
            } else if constexpr (TransposeA) {
                return slice.make_fragment_A(slice.partition_A(typed(a.tensor_t())));
            } else {
                return slice.make_fragment_A(slice.partition_A(typed(a.tensor())));
            }
        }();  // (MMA,MMA_M,MMA_K)
        auto operand_b = [&] {
            if constexpr (TransposeB) {
                return slice.make_fragment_B(slice.partition_B(typed(b.tensor())));
            } else {
                return slice.make_fragment_B(slice.partition_B(typed(b.tensor_t())));
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

    // A tensor of floats as one of tf32.
    template <class Tensor>
    static TK_DEVICE auto typed(const Tensor& tensor) {
        if constexpr (std::is_same_v<typename Tensor::value_type, float>) {
            return cute::recast<const cute::tfloat32_t>(tensor);
        } else {
            return tensor;
        }
    }

    template <bool TransposeA, bool TransposeB, bool Subtract, class A, class B, int N>
    static constexpr auto select_op() {
        using cute::GMMA::Major, cute::GMMA::ScaleIn;
        using T = operand_type<typename A::dtype>;
        using U = operand_type<typename B::dtype>;
        using shape = cute::Shape<cute::_64, cute::Int<N>, cute::Int<mma_k<typename A::dtype>>>;
        constexpr auto sign = Subtract ? ScaleIn::Neg : ScaleIn::One;
        constexpr bool from_registers = register_tile<A>;
        constexpr auto major_a = TransposeA && !from_registers ? Major::MN : Major::K;
        constexpr auto major_b = TransposeB ? Major::K : Major::MN;
        if constexpr (!is_width_of_cute(N)) {
            return wide_wgmma<
                wide_wgmma_config<T, U, N, major_a, major_b, Subtract, from_registers>>{};
        } else if constexpr (from_registers) {
            return cute::GMMA::rs_op_selector<T, U, float, shape, major_a, major_b, sign,
                                              ScaleIn::One>();
        } else {
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
        using layout = cute::Layout<cute::Shape<cute::Shape<Int<n>, _2, _2>, Int<A::blocks_across>,
                                                Int<A::blocks_along / 2>>,
                                    cute::Stride<cute::Stride<cute::_1, Int<n>, Int<2 * n>>,
                                                 Int<2 * n * A::blocks_along>, Int<4 * n>>>;
        return cute::make_tensor(cute::make_rmem_ptr(a.data), layout{});
    }
};

}  // namespace detail

TK_NAMESPACE_END
