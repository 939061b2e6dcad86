// Matrix products of a warp and a warpgroup, in one source for both architectures. A case counts
// its wrong elements; elements of a tile beside the part that is multiplied hold other numbers.
#pragma once
#include <cstdio>

#include "mma_operands.hpp"

namespace mma_cases {

template <bool TransposeA, bool TransposeB, class Scope, class... Args>
TK_DEVICE void call_mma(Args&&... args) {
    if constexpr (TransposeA && TransposeB) {
        Scope::mma_AtBt(args...);
    } else if constexpr (TransposeA) {
        Scope::mma_AtB(args...);
    } else if constexpr (TransposeB) {
        Scope::mma_ABt(args...);
    } else {
        Scope::mma_AB(args...);
    }
}
template <bool TransposeA, bool TransposeB, class Scope, class... Args>
TK_DEVICE void call_mm(Args&&... args) {
    if constexpr (TransposeA && TransposeB) {
        Scope::mm_AtBt(args...);
    } else if constexpr (TransposeA) {
        Scope::mm_AtB(args...);
    } else if constexpr (TransposeB) {
        Scope::mm_ABt(args...);
    } else {
        Scope::mm_AB(args...);
    }
}

// acc += a b; dst = a b + c; dst = a b
enum class form { in_place, from_c, overwrite };

template <bool TransposeA, bool TransposeB, class D, class T, class U, int M, int N, int K,
          form Form = form::in_place>
struct warp_case {
    static constexpr int64_t bytes = 0;
    using a_tile = std::conditional_t<TransposeA, rt<T, K, M, col_layout>, rt<T, M, K>>;
    using b_tile = std::conditional_t<TransposeB, rt<U, N, K>, rt<U, K, N, col_layout>>;
    static constexpr int num_threads = 128;
    using globals = mma_cases::globals;

    static TK_DEVICE void run(const globals& g) {
        a_tile a;
        b_tile b;
        rt<D, M, N> c, result;
        fill_registers<a_real, TransposeA, false>(a);
        fill_registers<b_real, TransposeB, false>(b);
        fill_registers<c_real, false, false>(c);
        if constexpr (Form == form::in_place) {
            call_mma<TransposeA, TransposeB, warp>(c, a, b);
            result = c;
        } else if constexpr (Form == form::from_c) {
            call_mma<TransposeA, TransposeB, warp>(result, a, b, c);
        } else {
            call_mm<TransposeA, TransposeB, warp>(result, a, b);
        }
        compare<false>(g, result, [](int row, int col) {
            return sum_of_products(a_real, b_real, row, col, K) +
                   (Form == form::overwrite ? 0 : number(c_real, row, col));
        });
    }
};

enum class source { whole, part, registers };

// A tile for a Rows x Cols operand: of its size, or with two such parts either way.
template <class T, int Rows, int Cols, int Swizzle, source Source>
using operand_tile = std::conditional_t<Source == source::part, st<T, 2 * Rows, 2 * Cols, Swizzle>,
                                        st<T, Rows, Cols, Swizzle>>;

template <source Source, int Rows, int Cols, class S>
TK_DEVICE decltype(auto) operand_of(S& tile, int part) {
    if constexpr (Source == source::part) {
        return tile.template subtile<Rows, Cols>(part, part);
    } else {
        return (tile);
    }
}

template <bool TransposeA, bool TransposeB, class T, class U, int M, int N, int K,
          source SourceA = source::whole, source SourceB = source::whole,
          int SwizzleA = swizzle_auto, int SwizzleB = swizzle_auto>
struct warpgroup_case {
    static constexpr int a_rows = TransposeA ? K : M, a_cols = TransposeA ? M : K;
    static constexpr int b_rows = TransposeB ? N : K, b_cols = TransposeB ? K : N;
    static constexpr bool from_registers = SourceA == source::registers;
    struct shared {
        operand_tile<T, a_rows, a_cols, SwizzleA, SourceA> a;
        operand_tile<U, b_rows, b_cols, SwizzleB, SourceB> b;
    };
    static constexpr int64_t bytes = sizeof(shared);
    static constexpr int num_threads = 128;
    using globals = mma_cases::globals;

    static TK_DEVICE void run(const globals& g) {
        shared& memory = *reinterpret_cast<shared*>(shared_memory());
        const int part_a = SourceA == source::part ? g.part : 0;
        const int part_b = SourceB == source::part ? g.part : 0;
        if constexpr (!from_registers) {
            fill<a_real, TransposeA>(memory.a, part_a * a_rows, part_a * a_cols, a_rows, a_cols);
        }
        fill<b_real, TransposeB>(memory.b, part_b * b_rows, part_b * b_cols, b_rows, b_cols);
        fence_async_proxy();
        warpgroup::sync(1);
        const auto& b = operand_of<SourceB, b_rows, b_cols>(memory.b, part_b);
        rt_fl<M / 4, N> result;
        fill_registers<c_real, false, true>(result);
        if constexpr (from_registers) {
            std::conditional_t<TransposeA, rt<T, K, M / 4, col_layout>, rt<T, M / 4, K>> a;
            fill_registers<a_real, TransposeA, true>(a);
            call_mm<TransposeA, TransposeB, warpgroup>(result, a, b);
            call_mma<TransposeA, TransposeB, warpgroup>(result, a, b);
            warpgroup::mma_async_wait<0>(result, a);
            auto untouched = a;
            fill_registers<a_real, TransposeA, true>(untouched);
            TK_UNROLL
            for (int i = 0; i < a.elements; ++i) {
                count_wrong(g, float(a.data[i]) != float(untouched.data[i]));
            }
        } else {
            const auto& a = operand_of<SourceA, a_rows, a_cols>(memory.a, part_a);
            call_mm<TransposeA, TransposeB, warpgroup>(result, a, b);
            call_mma<TransposeA, TransposeB, warpgroup>(result, a, b);
            warpgroup::mma_async_wait<0>(result);
        }
        compare<true>(g, result, [](int row, int col) {
            return 2 * sum_of_products(a_real, b_real, row, col, K);
        });
    }
};

// Complex products, of a warp or a warpgroup, a in registers or shared.
template <bool TransposeA, bool TransposeB, class T, int M, int N, int K, bool OfWarpgroup,
          bool FromRegisters>
struct complex_case {
    static constexpr int a_rows = TransposeA ? K : M, a_cols = TransposeA ? M : K;
    static constexpr int b_rows = TransposeB ? N : K, b_cols = TransposeB ? K : N;
    static constexpr int rows = OfWarpgroup ? M / 4 : M;
    struct shared {
        cst<T, a_rows, a_cols> a;
        cst<T, b_rows, b_cols> b;
    };
    static constexpr int64_t bytes = OfWarpgroup ? sizeof(shared) : 0;
    static constexpr int num_threads = 128;
    using globals = mma_cases::globals;
    using a_registers =
        std::conditional_t<TransposeA, crt<T, K, rows, col_layout>, crt<T, rows, K>>;
    using b_registers = std::conditional_t<TransposeB, crt<T, N, K>, crt<T, K, N, col_layout>>;

    static TK_DEVICE void run(const globals& g) {
        crt_fl<rows, N> result;
        fill_registers<c_real, false, OfWarpgroup>(result.real);
        fill_registers<c_imag, false, OfWarpgroup>(result.imag);
        a_registers a;
        fill_registers<a_real, TransposeA, OfWarpgroup>(a.real);
        fill_registers<a_imag, TransposeA, OfWarpgroup>(a.imag);
        if constexpr (OfWarpgroup) {
            shared& memory = *reinterpret_cast<shared*>(shared_memory());
            fill<a_real, TransposeA>(memory.a.real, 0, 0, a_rows, a_cols);
            fill<a_imag, TransposeA>(memory.a.imag, 0, 0, a_rows, a_cols);
            fill<b_real, TransposeB>(memory.b.real, 0, 0, b_rows, b_cols);
            fill<b_imag, TransposeB>(memory.b.imag, 0, 0, b_rows, b_cols);
            fence_async_proxy();
            warpgroup::sync(1);
            if constexpr (FromRegisters) {
                call_mma<TransposeA, TransposeB, warpgroup>(result, a, memory.b);
                warpgroup::mma_async_wait<0>(result, a);
            } else {
                call_mma<TransposeA, TransposeB, warpgroup>(result, memory.a, memory.b);
                warpgroup::mma_async_wait<0>(result);
            }
        } else {
            b_registers b;
            fill_registers<b_real, TransposeB, false>(b.real);
            fill_registers<b_imag, TransposeB, false>(b.imag);
            call_mma<TransposeA, TransposeB, warp>(result, a, b);
        }
        compare<OfWarpgroup>(g, result.real, [](int row, int col) {
            return sum_of_products(a_real, b_real, row, col, K) -
                   sum_of_products(a_imag, b_imag, row, col, K) + number(c_real, row, col);
        });
        compare<OfWarpgroup>(g, result.imag, [](int row, int col) {
            return sum_of_products(a_real, b_imag, row, col, K) +
                   sum_of_products(a_imag, b_real, row, col, K) + number(c_imag, row, col);
        });
    }
};

// Two groups in flight, the first of two products, one of them from registers; arithmetic kept
// before a wait.
struct group_case {
    struct shared {
        st_bf<64, 64> a;
        st_bf<64, 64> b;
    };
    static constexpr int64_t bytes = sizeof(shared);
    static constexpr int num_threads = 128;
    using globals = mma_cases::globals;

    static TK_DEVICE void run(const globals& g) {
        using uncommitted = warpgroup::uncommitted;
        shared& memory = *reinterpret_cast<shared*>(shared_memory());
        fill<a_real, false>(memory.a, 0, 0, 64, 64);
        fill<b_real, false>(memory.b, 0, 0, 64, 64);
        fence_async_proxy();
        warpgroup::sync(1);
        rt_fl<16, 64> one, two;
        rt_bf<16, 64> a;
        fill_registers<a_real, false, true>(a);
        fill_registers<c_real, false, true>(one);
        warpgroup::mma_fence(one, a);
        uncommitted::mma_AB(one, memory.a, memory.b);
        uncommitted::mma_AB(one, a, memory.b);
        warpgroup::mma_commit_group();
        warpgroup::mm_AB(two, memory.a, memory.b);
        warpgroup::mma_async_wait<1>(one, two, a);
        float sum = 0;
        TK_UNROLL
        for (int i = 0; i < one.elements; ++i) sum += one.data[i];
        warpgroup::keep_before_wait(sum);
        warpgroup::mma_async_wait<0>(two);
        count_wrong(g, !(sum < 1e30f));
        compare<true>(g, one, [](int row, int col) {
            return 2 * sum_of_products(a_real, b_real, row, col, 64) + number(c_real, row, col);
        });
        compare<true>(
            g, two, [](int row, int col) { return sum_of_products(a_real, b_real, row, col, 64); });
    }
};

// Wrong elements of a case.
template <class Case>
int run() {
    checks::device_memory<int> wrong(1, 0);
    checks::device_memory<float> results(most_results);
    launch<Case>(globals{wrong.data(), results.data(), 1}, {1, 1, Case::bytes, 0, nullptr});
    checks::finish_kernels();
    return wrong[0];
}

// f(name, function that gives the number of wrong elements), for a sample of everything, in two
// halves: of operands in shared memory, and of all others.
#define TK_MMA_CASE(...) f(#__VA_ARGS__, &run<__VA_ARGS__>)
template <class F>
void for_each_case_of_shared_operands(F&& f) {
    constexpr auto whole = source::whole, part = source::part;
    TK_MMA_CASE(warpgroup_case<false, false, bf16, bf16, 128, 64, 64>);
    TK_MMA_CASE(warpgroup_case<false, true, half, half, 64, 256, 32>);
    TK_MMA_CASE(warpgroup_case<true, false, bf16, bf16, 64, 176, 64>);
    TK_MMA_CASE(warpgroup_case<true, true, half, half, 128, 40, 32>);
    TK_MMA_CASE(warpgroup_case<false, true, e4m3, e4m3, 64, 128, 64>);
    TK_MMA_CASE(warpgroup_case<false, true, e5m2, e4m3, 64, 8, 32>);
    TK_MMA_CASE(warpgroup_case<false, true, e4m3, e5m2, 64, 80, 96>);
    TK_MMA_CASE(warpgroup_case<false, true, float, float, 64, 64, 32>);
    TK_MMA_CASE(warpgroup_case<false, true, float, float, 128, 24, 8>);
    TK_MMA_CASE(warpgroup_case<false, false, bf16, bf16, 64, 32, 32, whole, whole, 0, 0>);
    TK_MMA_CASE(warpgroup_case<true, true, bf16, bf16, 64, 32, 64, whole, whole, 0, 0>);
    TK_MMA_CASE(warpgroup_case<false, false, bf16, bf16, 64, 32, 64, whole, whole, 32, 32>);
    TK_MMA_CASE(warpgroup_case<true, true, bf16, bf16, 64, 32, 64, whole, whole, 32, 64>);
    TK_MMA_CASE(warpgroup_case<true, false, bf16, bf16, 128, 64, 32, whole, whole, 64, 64>);
    TK_MMA_CASE(warpgroup_case<false, true, bf16, bf16, 64, 32, 32, part, part>);
    TK_MMA_CASE(warpgroup_case<false, true, bf16, bf16, 64, 32, 16, part, part, 64, 64>);
    TK_MMA_CASE(warpgroup_case<false, false, bf16, bf16, 64, 64, 128, part, part>);
    TK_MMA_CASE(warpgroup_case<true, false, bf16, bf16, 64, 32, 16, part, part, 128, 32>);
    TK_MMA_CASE(warpgroup_case<true, true, bf16, bf16, 64, 16, 16, part, part, 0, 0>);
    TK_MMA_CASE(warpgroup_case<false, true, e4m3, e4m3, 64, 64, 32, part, part, 64, 32>);
    TK_MMA_CASE(warpgroup_case<false, true, float, float, 64, 16, 16, part, part, 64, 128>);
}
template <class F>
void for_each_case_of_registers(F&& f) {
    constexpr auto registers = source::registers;
    TK_MMA_CASE(warp_case<false, false, float, bf16, bf16, 32, 32, 32>);
    TK_MMA_CASE(warp_case<false, true, float, bf16, bf16, 16, 32, 16, form::from_c>);
    TK_MMA_CASE(warp_case<true, false, float, half, half, 16, 16, 32, form::overwrite>);
    TK_MMA_CASE(warp_case<true, true, half, half, half, 32, 16, 32>);
    TK_MMA_CASE(warp_case<false, false, float, e4m3, e4m3, 32, 32, 64>);
    TK_MMA_CASE(warp_case<false, true, float, e4m3, e5m2, 16, 16, 32>);
    TK_MMA_CASE(warp_case<true, false, float, e5m2, e4m3, 32, 32, 32>);
    TK_MMA_CASE(warp_case<true, true, float, e5m2, e5m2, 32, 16, 32>);
    TK_MMA_CASE(warp_case<false, false, float, float, float, 32, 32, 16>);
    TK_MMA_CASE(warp_case<true, true, float, float, float, 16, 16, 32>);
    TK_MMA_CASE(complex_case<false, false, bf16, 16, 16, 32, false, true>);
    TK_MMA_CASE(complex_case<true, true, float, 16, 16, 16, false, true>);
    TK_MMA_CASE(warpgroup_case<false, false, bf16, bf16, 128, 64, 64, registers>);
    TK_MMA_CASE(warpgroup_case<false, true, half, half, 64, 80, 32, registers>);
    TK_MMA_CASE(warpgroup_case<true, false, bf16, bf16, 64, 32, 32, registers>);
    TK_MMA_CASE(warpgroup_case<false, true, e4m3, e5m2, 64, 32, 64, registers>);
    TK_MMA_CASE(complex_case<false, false, bf16, 64, 64, 32, true, false>);
    TK_MMA_CASE(complex_case<false, true, half, 64, 24, 32, true, true>);
    TK_MMA_CASE(group_case);
}
#undef TK_MMA_CASE

}  // namespace mma_cases
