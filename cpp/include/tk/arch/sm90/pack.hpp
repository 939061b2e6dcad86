// Two neighbouring elements of a register tile, rounded and packed by one instruction (PTX ISA,
// "cvt").
#pragma once
#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <element_16bit T>
TK_DEVICE uint32_t pack(float low, float high) {
    uint32_t result;
    if constexpr (std::is_same_v<T, bf16>) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    }
    return result;
}
template <element_8bit T>
TK_DEVICE uint16_t pack(float low, float high) {
    uint16_t result;
    if constexpr (std::is_same_v<T, e4m3>) {
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(result) : "f"(high), "f"(low));
    }
    return result;
}

// `to` is a place of an even number in a register tile's data.
template <element T>
TK_DEVICE void store_pair(T* to, float first, float second) {
    if constexpr (sizeof(T) == 4) {
        to[0] = first, to[1] = second;
    } else if constexpr (sizeof(T) == 2) {
        *reinterpret_cast<uint32_t*>(to) = pack<T>(first, second);
    } else {
        *reinterpret_cast<uint16_t*>(to) = pack<T>(first, second);
    }
}

// The same backwards. bf16 is the upper half of a float, and a pair of them takes an instruction
// each; through elements of 16 bits the compiler takes two for the upper one.
template <element T>
TK_DEVICE void load_pair(float& first, float& second, const T* from) {
    if constexpr (std::is_same_v<T, bf16>) {
        const uint32_t pair = *reinterpret_cast<const uint32_t*>(from);
        first = __uint_as_float(pair << 16), second = __uint_as_float(pair & 0xffff0000u);
    } else {
        first = convert<float>(from[0]), second = convert<float>(from[1]);
    }
}

}  // namespace detail

TK_NAMESPACE_END
