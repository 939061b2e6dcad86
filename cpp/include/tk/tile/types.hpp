// Element types, scalar conversions and coordinates shared by every tile.
#pragma once
#include <cstdint>
#include <cute/tensor.hpp>

#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

using bf16 = cutlass::bfloat16_t;
using half = cutlass::half_t;
using e4m3 = cutlass::float_e4m3_t;
using e5m2 = cutlass::float_e5m2_t;

// Where a tile starts in a global tensor, in elements: (batch, depth, row, col), of which
// the first one or two may be left out.
struct coord {
    int batch = 0, depth = 0, row = 0, col = 0;

    coord() = default;
    TK_HOST_DEVICE constexpr coord(int row_, int col_) : row(row_), col(col_) {}
    TK_HOST_DEVICE constexpr coord(int depth_, int row_, int col_)
        : depth(depth_), row(row_), col(col_) {}
    TK_HOST_DEVICE constexpr coord(int batch_, int depth_, int row_, int col_)
        : batch(batch_), depth(depth_), row(row_), col(col_) {}
};

// Of parts that follow one another: which, and the places before it.
struct located {
    int index, before;
};

template <class T>
concept element_8bit = std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>;

template <class T>
concept element_16bit = std::is_same_v<T, bf16> || std::is_same_v<T, half>;

template <class T>
concept element = element_8bit<T> || element_16bit<T> || std::is_same_v<T, float>;

// Round to nearest even on both architectures. The 8-bit types saturate: what is larger than their
// largest finite number becomes that number, as PTX's cvt.satfinite has it; NaN stays NaN.
template <element To, element From>
TK_HOST_DEVICE To convert(From value) {
    if constexpr (std::is_same_v<To, From>) {
        return value;
    } else if constexpr (std::is_same_v<To, float> || std::is_same_v<From, float>) {
        return static_cast<To>(value);
    } else {
        return static_cast<To>(static_cast<float>(value));
    }
}

TK_NAMESPACE_END
