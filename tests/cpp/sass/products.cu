// Pairs of kernels that multiply tiles in a warp's registers: `ours_x` by the library, `hand_x` by
// CuTe's atoms and its loop over them. tests/test_sass.py compares their instructions.
#include <cute/algorithm/gemm.hpp>
#include <cute/atom/mma_atom.hpp>

#include "frame.hpp"

namespace {

using cute::_1;
using cute::_16;
using cute::_2;
using cute::_32;
using cute::_4;
using cute::_8;

// 32 x 64 x 32, its accumulators from memory and back.
using accumulators = tk::rt_fl<32, 64>;
using left_tile = tk::rt_bf<32, 32>;
using right_tile = tk::rt_bf<32, 64, tk::col_layout>;  // (K,N)

// The fragments of the atoms, as the tiles above have them in a lane.
using atom = cute::MMA_Atom<cute::SM80_16x8x16_F32BF16BF16F32_TN>;
using accumulator_layout =  // (MMA,MMA_M,MMA_N)
    cute::Layout<cute::Shape<cute::Shape<_2, _2>, _2, _8>,
                 cute::Stride<cute::Stride<_1, _2>, _32, _4>>;
using left_layout =  // (MMA,MMA_M,MMA_K)
    cute::Layout<cute::Shape<cute::Shape<_2, _2, _2>, _2, _2>,
                 cute::Stride<cute::Stride<_1, _2, _4>, _16, _8>>;
using right_layout =  // (MMA,MMA_N,MMA_K)
    cute::Layout<cute::Shape<cute::Shape<_2, _2>, cute::Shape<_2, _4>, _2>,
                 cute::Stride<cute::Stride<_1, _4>, cute::Stride<_2, _16>, _8>>;

template <int Words>
using words = uint32_t[Words];

// The right operand one word at a time, as `ldmatrix` leaves it: the instruction wants its two
// words in neighbouring registers, which the 16 bytes of other loads are not.
__device__ __forceinline__ void read_right(uint32_t (&to)[32], const uint32_t* from) {
#pragma unroll
    for (int i = 0; i < 32; ++i) to[i] = from[i * blockDim.x + threadIdx.x];
}

}  // namespace

extern "C" {

__global__ void ours_mma_AB(uint4* out, const uint4* in, const uint4* in_a, const uint32_t* in_b) {
    accumulators sums;
    left_tile a;
    right_tile b;
    read_registers(sums, in);
    read_registers(a, in_a);
    read_right(reinterpret_cast<words<32>&>(b.data), in_b);
    tk::warp::mma_AB(sums, a, b);
    write_registers(out, sums);
}
__global__ void hand_mma_AB(uint4* out, const uint4* in, const uint4* in_a, const uint32_t* in_b) {
    auto sums = cute::make_tensor<float>(accumulator_layout{});
    auto a = cute::make_tensor<cute::bfloat16_t>(left_layout{});
    auto b = cute::make_tensor<cute::bfloat16_t>(right_layout{});
    read_words(reinterpret_cast<words<64>&>(sums(0)), in);
    read_words(reinterpret_cast<words<16>&>(a(0)), in_a);
    read_right(reinterpret_cast<words<32>&>(b(0)), in_b);
    cute::gemm(atom{}, a, b, sums);
    write_words(out, reinterpret_cast<const words<64>&>(sums(0)));
}

// The scores of an attention: the right operand's rows are the product's columns.
__global__ void ours_mm_ABt(uint4* out, const uint4* in_a, const uint32_t* in_b) {
    accumulators sums;
    left_tile a;
    tk::rt_bf<64, 32> b;  // (N,K)
    read_registers(a, in_a);
    read_right(reinterpret_cast<words<32>&>(b.data), in_b);
    tk::warp::mm_ABt(sums, a, b);
    write_registers(out, sums);
}
__global__ void hand_mm_ABt(uint4* out, const uint4* in_a, const uint32_t* in_b) {
    auto sums = cute::make_tensor<float>(accumulator_layout{});
    auto a = cute::make_tensor<cute::bfloat16_t>(left_layout{});
    auto b = cute::make_tensor<cute::bfloat16_t>(right_layout{});
    read_words(reinterpret_cast<words<16>&>(a(0)), in_a);
    read_right(reinterpret_cast<words<32>&>(b(0)), in_b);
    cute::clear(sums);
    cute::gemm(atom{}, a, b, sums);
    write_words(out, reinterpret_cast<const words<64>&>(sums(0)));
}

}  // extern "C"
