// WGMMA of the widths that CuTe leaves out unless asked: 24, 40, 48, 56, 72, ... 248 columns. As
// CuTe has them (CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED) they make every file of a kernel take a
// minute longer to compile; here dtypes and signs are text that a template puts in (the constraint
// "C" of nvcc's inline assembly), so that a width is one instruction.
#pragma once
#include <cute/arch/mma_sm90.hpp>
#include <cute/atom/mma_atom.hpp>

#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// The dtypes in the instruction's name.
template <class A, class B>
struct wgmma_dtypes;
#define TK_WGMMA_DTYPES(a, b, name)          \
    template <>                              \
    struct wgmma_dtypes<a, b> {              \
        static constexpr char text[] = name; \
    };
TK_WGMMA_DTYPES(bf16, bf16, "k16.f32.bf16.bf16")
TK_WGMMA_DTYPES(half, half, "k16.f32.f16.f16")
TK_WGMMA_DTYPES(cute::tfloat32_t, cute::tfloat32_t, "k8.f32.tf32.tf32")
TK_WGMMA_DTYPES(e4m3, e4m3, "k32.f32.e4m3.e4m3")
TK_WGMMA_DTYPES(e4m3, e5m2, "k32.f32.e4m3.e5m2")
TK_WGMMA_DTYPES(e5m2, e4m3, "k32.f32.e5m2.e4m3")
TK_WGMMA_DTYPES(e5m2, e5m2, "k32.f32.e5m2.e5m2")
#undef TK_WGMMA_DTYPES

// The signs of a and b, and, for 16 bits, which of those in shared memory have M or N contiguous.
template <bool Negate, bool IsWide, bool FromRegisters, bool MContiguous, bool NContiguous>
struct wgmma_flags {
    static constexpr char text[] = {Negate ? '-' : ' ',
                                    '1',
                                    ',',
                                    '1',
                                    IsWide && !FromRegisters ? ',' : ' ',
                                    IsWide && !FromRegisters ? char('0' + MContiguous) : ' ',
                                    IsWide ? ',' : ' ',
                                    IsWide ? char('0' + NContiguous) : ' ',
                                    0};
};

// One instruction, by its width: accumulators, a by its descriptor or in registers, b.
template <int N>
struct wgmma_instruction;

// clang-format off
#define TK_REGISTERS_1 "%0, %1, %2, %3"
#define TK_REGISTERS_2 TK_REGISTERS_1 ", %4, %5, %6, %7"
#define TK_REGISTERS_3 TK_REGISTERS_2 ", %8, %9, %10, %11"
#define TK_REGISTERS_4 TK_REGISTERS_3 ", %12, %13, %14, %15"
#define TK_REGISTERS_5 TK_REGISTERS_4 ", %16, %17, %18, %19"
#define TK_REGISTERS_6 TK_REGISTERS_5 ", %20, %21, %22, %23"
#define TK_REGISTERS_7 TK_REGISTERS_6 ", %24, %25, %26, %27"
#define TK_REGISTERS_8 TK_REGISTERS_7 ", %28, %29, %30, %31"
#define TK_REGISTERS_9 TK_REGISTERS_8 ", %32, %33, %34, %35"
#define TK_REGISTERS_10 TK_REGISTERS_9 ", %36, %37, %38, %39"
#define TK_REGISTERS_11 TK_REGISTERS_10 ", %40, %41, %42, %43"
#define TK_REGISTERS_12 TK_REGISTERS_11 ", %44, %45, %46, %47"
#define TK_REGISTERS_13 TK_REGISTERS_12 ", %48, %49, %50, %51"
#define TK_REGISTERS_14 TK_REGISTERS_13 ", %52, %53, %54, %55"
#define TK_REGISTERS_15 TK_REGISTERS_14 ", %56, %57, %58, %59"
#define TK_REGISTERS_16 TK_REGISTERS_15 ", %60, %61, %62, %63"
#define TK_REGISTERS_17 TK_REGISTERS_16 ", %64, %65, %66, %67"
#define TK_REGISTERS_18 TK_REGISTERS_17 ", %68, %69, %70, %71"
#define TK_REGISTERS_19 TK_REGISTERS_18 ", %72, %73, %74, %75"
#define TK_REGISTERS_20 TK_REGISTERS_19 ", %76, %77, %78, %79"
#define TK_REGISTERS_21 TK_REGISTERS_20 ", %80, %81, %82, %83"
#define TK_REGISTERS_22 TK_REGISTERS_21 ", %84, %85, %86, %87"
#define TK_REGISTERS_23 TK_REGISTERS_22 ", %88, %89, %90, %91"
#define TK_REGISTERS_24 TK_REGISTERS_23 ", %92, %93, %94, %95"
#define TK_REGISTERS_25 TK_REGISTERS_24 ", %96, %97, %98, %99"
#define TK_REGISTERS_26 TK_REGISTERS_25 ", %100, %101, %102, %103"
#define TK_REGISTERS_27 TK_REGISTERS_26 ", %104, %105, %106, %107"
#define TK_REGISTERS_28 TK_REGISTERS_27 ", %108, %109, %110, %111"
#define TK_REGISTERS_29 TK_REGISTERS_28 ", %112, %113, %114, %115"
#define TK_REGISTERS_30 TK_REGISTERS_29 ", %116, %117, %118, %119"
#define TK_REGISTERS_31 TK_REGISTERS_30 ", %120, %121, %122, %123"
#define TK_ACCUMULATORS_1 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define TK_ACCUMULATORS_2 TK_ACCUMULATORS_1, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define TK_ACCUMULATORS_3 TK_ACCUMULATORS_2, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define TK_ACCUMULATORS_4 TK_ACCUMULATORS_3, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define TK_ACCUMULATORS_5 TK_ACCUMULATORS_4, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define TK_ACCUMULATORS_6 TK_ACCUMULATORS_5, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define TK_ACCUMULATORS_7 TK_ACCUMULATORS_6, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define TK_ACCUMULATORS_8 TK_ACCUMULATORS_7, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define TK_ACCUMULATORS_9 TK_ACCUMULATORS_8, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define TK_ACCUMULATORS_10 TK_ACCUMULATORS_9, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define TK_ACCUMULATORS_11 TK_ACCUMULATORS_10, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define TK_ACCUMULATORS_12 TK_ACCUMULATORS_11, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define TK_ACCUMULATORS_13 TK_ACCUMULATORS_12, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define TK_ACCUMULATORS_14 TK_ACCUMULATORS_13, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define TK_ACCUMULATORS_15 TK_ACCUMULATORS_14, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define TK_ACCUMULATORS_16 TK_ACCUMULATORS_15, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define TK_ACCUMULATORS_17 TK_ACCUMULATORS_16, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define TK_ACCUMULATORS_18 TK_ACCUMULATORS_17, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define TK_ACCUMULATORS_19 TK_ACCUMULATORS_18, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define TK_ACCUMULATORS_20 TK_ACCUMULATORS_19, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define TK_ACCUMULATORS_21 TK_ACCUMULATORS_20, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define TK_ACCUMULATORS_22 TK_ACCUMULATORS_21, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define TK_ACCUMULATORS_23 TK_ACCUMULATORS_22, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define TK_ACCUMULATORS_24 TK_ACCUMULATORS_23, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define TK_ACCUMULATORS_25 TK_ACCUMULATORS_24, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define TK_ACCUMULATORS_26 TK_ACCUMULATORS_25, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define TK_ACCUMULATORS_27 TK_ACCUMULATORS_26, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define TK_ACCUMULATORS_28 TK_ACCUMULATORS_27, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define TK_ACCUMULATORS_29 TK_ACCUMULATORS_28, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define TK_ACCUMULATORS_30 TK_ACCUMULATORS_29, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define TK_ACCUMULATORS_31 TK_ACCUMULATORS_30, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
// n columns are `blocks` of 8; i0 to i7 number the operands after the accumulators.
#define TK_WGMMA(n, blocks, i0, i1, i2, i3, i4, i5, i6, i7)                                       \
    template <>                                                                                   \
    struct wgmma_instruction<n> {                                                                 \
        template <class Dtypes, class Flags>                                                      \
        static TK_DEVICE void run(float* d, uint64_t a, uint64_t b, int accumulate) {             \
            asm volatile(                                                                         \
                "{\n.reg .pred p;\nsetp.ne.b32 p, %" #i2 ", 0;\n"                                 \
                "wgmma.mma_async.sync.aligned.m64n" #n "%" #i0 " {" TK_REGISTERS_##blocks "}, "   \
                "%" #i4 ", %" #i3 ", p, %" #i1 ";\n}\n"                                           \
                : TK_ACCUMULATORS_##blocks                                                        \
                : "C"(Dtypes::text), "C"(Flags::text), "r"(accumulate), "l"(b), "l"(a));          \
        }                                                                                         \
        template <class Dtypes, class Flags>                                                      \
        static TK_DEVICE void run(float* d, const uint32_t* a, uint64_t b, int accumulate) {      \
            asm volatile(                                                                         \
                "{\n.reg .pred p;\nsetp.ne.b32 p, %" #i2 ", 0;\n"                                 \
                "wgmma.mma_async.sync.aligned.m64n" #n "%" #i0 " {" TK_REGISTERS_##blocks "}, "   \
                "{%" #i4 ", %" #i5 ", %" #i6 ", %" #i7 "}, %" #i3 ", p, %" #i1 ";\n}\n"           \
                : TK_ACCUMULATORS_##blocks                                                        \
                : "C"(Dtypes::text), "C"(Flags::text), "r"(accumulate), "l"(b), "r"(a[0]),        \
                  "r"(a[1]), "r"(a[2]), "r"(a[3]));                                               \
        }                                                                                         \
    };
TK_WGMMA(24, 3, 12, 13, 14, 15, 16, 17, 18, 19)
TK_WGMMA(40, 5, 20, 21, 22, 23, 24, 25, 26, 27)
TK_WGMMA(48, 6, 24, 25, 26, 27, 28, 29, 30, 31)
TK_WGMMA(56, 7, 28, 29, 30, 31, 32, 33, 34, 35)
TK_WGMMA(72, 9, 36, 37, 38, 39, 40, 41, 42, 43)
TK_WGMMA(80, 10, 40, 41, 42, 43, 44, 45, 46, 47)
TK_WGMMA(88, 11, 44, 45, 46, 47, 48, 49, 50, 51)
TK_WGMMA(104, 13, 52, 53, 54, 55, 56, 57, 58, 59)
TK_WGMMA(112, 14, 56, 57, 58, 59, 60, 61, 62, 63)
TK_WGMMA(120, 15, 60, 61, 62, 63, 64, 65, 66, 67)
TK_WGMMA(136, 17, 68, 69, 70, 71, 72, 73, 74, 75)
TK_WGMMA(144, 18, 72, 73, 74, 75, 76, 77, 78, 79)
TK_WGMMA(152, 19, 76, 77, 78, 79, 80, 81, 82, 83)
TK_WGMMA(160, 20, 80, 81, 82, 83, 84, 85, 86, 87)
TK_WGMMA(168, 21, 84, 85, 86, 87, 88, 89, 90, 91)
TK_WGMMA(176, 22, 88, 89, 90, 91, 92, 93, 94, 95)
TK_WGMMA(184, 23, 92, 93, 94, 95, 96, 97, 98, 99)
TK_WGMMA(200, 25, 100, 101, 102, 103, 104, 105, 106, 107)
TK_WGMMA(208, 26, 104, 105, 106, 107, 108, 109, 110, 111)
TK_WGMMA(216, 27, 108, 109, 110, 111, 112, 113, 114, 115)
TK_WGMMA(224, 28, 112, 113, 114, 115, 116, 117, 118, 119)
TK_WGMMA(232, 29, 116, 117, 118, 119, 120, 121, 122, 123)
TK_WGMMA(240, 30, 120, 121, 122, 123, 124, 125, 126, 127)
TK_WGMMA(248, 31, 124, 125, 126, 127, 128, 129, 130, 131)
#undef TK_WGMMA
// clang-format on

// The operation as CuTe's atoms have it.
template <class A, class B, int N, cute::GMMA::Major MajorA, cute::GMMA::Major MajorB, bool Negate,
          bool FromRegisters>
struct wide_wgmma_config {
    using dtype_a = A;
    using dtype_b = B;
    static constexpr int n = N, k = 32 / int(sizeof(A));
    static constexpr auto major_a = MajorA, major_b = MajorB;
    static constexpr bool from_registers = FromRegisters;
    using dtypes = wgmma_dtypes<A, B>;
    using flags = wgmma_flags<Negate, sizeof(A) == 2, FromRegisters,
                              MajorA == cute::GMMA::Major::MN, MajorB == cute::GMMA::Major::MN>;
};
template <class Config>
struct wide_wgmma {};

// Called by cute::gemm, which finds it by the operation's namespace.
template <class Config, class TD, class DLayout, class TA, class ALayout, class TB, class BLayout,
          class TC, class CLayout>
TK_DEVICE void mma_unpack(const cute::MMA_Traits<wide_wgmma<Config>>& traits,
                          cute::Tensor<TD, DLayout>& d, const cute::Tensor<TA, ALayout>& a,
                          const cute::Tensor<TB, BLayout>& b, const cute::Tensor<TC, CLayout>&) {
    using instruction = wgmma_instruction<Config::n>;
    static_assert(decltype(cute::size(d))::value == Config::n / 2);
    const uint64_t descriptor_b = cute::recast<uint64_t>(b)(0);
    if constexpr (Config::from_registers) {
        const auto words = cute::recast<uint32_t>(a);
        const uint32_t left[4] = {words(0), words(1), words(2), words(3)};
        instruction::template run<typename Config::dtypes, typename Config::flags>(
            &d(0), left, descriptor_b, int(traits.accumulate_));
    } else {
        const uint64_t descriptor_a = cute::recast<uint64_t>(a)(0);
        instruction::template run<typename Config::dtypes, typename Config::flags>(
            &d(0), descriptor_a, descriptor_b, int(traits.accumulate_));
    }
}

// Where the operation finds a, and what of it lies in which lane.
template <class Config, bool FromRegisters = Config::from_registers>
struct wide_wgmma_operand {
    using FrgTypeA = cute::GMMA::smem_desc<Config::major_a>;
    using ALayout = cute::GMMA::ABLayout<64, Config::k>;
};
template <class Config>
struct wide_wgmma_operand<Config, true> {
    using ALayout = std::conditional_t<
        Config::k == 32, cute::GMMA::ALayout_64x32,
        std::conditional_t<Config::k == 16, cute::GMMA::ALayout_64x16, cute::GMMA::ALayout_64x8>>;
};

}  // namespace detail

TK_NAMESPACE_END

template <class Config>
struct cute::MMA_Traits<tk::detail::wide_wgmma<Config>> : tk::detail::wide_wgmma_operand<Config> {
    using ValTypeD = float;
    using ValTypeA = typename Config::dtype_a;
    using ValTypeB = typename Config::dtype_b;
    using ValTypeC = float;
    using FrgTypeB = GMMA::smem_desc<Config::major_b>;
    using Shape_MNK = Shape<_64, Int<Config::n>, Int<Config::k>>;
    using ThrID = Layout<_128>;
    using BLayout = GMMA::ABLayout<Config::n, Config::k>;
    using CLayout = GMMA::CLayout_64xN<Config::n>;

    GMMA::ScaleOut accumulate_ = GMMA::ScaleOut::One;
};
