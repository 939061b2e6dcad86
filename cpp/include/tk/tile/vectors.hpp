// Elements that lie side by side in memory, read and written as vectors and widened to fp32.
#pragma once
#include "tk/tile/types.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/pack.hpp"
#else
#include "tk/arch/host/pack.hpp"
#endif

TK_NAMESPACE_BEGIN

namespace detail {

// `Count` elements that lie side by side, widened and narrowed; 16 bytes of them at most.
template <int Count, element T>
TK_DEVICE void read_vector(float (&values)[Count], const T* from) {
    struct alignas(Count * sizeof(T)) vector {
        T data[Count];
    };
    const vector read = *reinterpret_cast<const vector*>(from);
    if constexpr (Count % 2 == 0) {
        TK_UNROLL
        for (int i = 0; i < Count; i += 2) load_pair(values[i], values[i + 1], read.data + i);
    } else {
        TK_UNROLL
        for (int i = 0; i < Count; ++i) values[i] = convert<float>(read.data[i]);
    }
}
template <int Count, element T>
TK_DEVICE void write_vector(T* to, const float (&values)[Count]) {
    struct alignas(Count * sizeof(T)) vector {
        T data[Count];
    } written;
    if constexpr (Count % 2 == 0) {
        TK_UNROLL
        for (int i = 0; i < Count; i += 2) {
            store_pair(written.data + i, values[i], values[i + 1]);
        }
    } else {
        TK_UNROLL
        for (int i = 0; i < Count; ++i) written.data[i] = convert<T>(values[i]);
    }
    *reinterpret_cast<vector*>(to) = written;
}

// A vector as it is, of elements of 16 bits.
template <element_16bit T>
struct alignas(16) eight {
    T data[8];
};

// Any number of them, 16 bytes of memory at a time: a multiple of that, aligned to it.
template <int Count, element T>
TK_DEVICE void read_vectors(float (&values)[Count], const T* from) {
    constexpr int width = 16 / int(sizeof(T));
    TK_UNROLL
    for (int i = 0; i < Count; i += width) {
        read_vector(reinterpret_cast<float (&)[width]>(values[i]), from + i);
    }
}
template <int Count, element T>
TK_DEVICE void write_vectors(T* to, const float (&values)[Count]) {
    constexpr int width = 16 / int(sizeof(T));
    TK_UNROLL
    for (int i = 0; i < Count; i += width) {
        write_vector(to + i, reinterpret_cast<const float (&)[width]>(values[i]));
    }
}

}  // namespace detail

TK_NAMESPACE_END
