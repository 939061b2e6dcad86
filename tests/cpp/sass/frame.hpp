// What both kernels of a pair have around the operation that is compared: fragments that come from
// global memory and go there, 16 bytes at a time.
#pragma once
#include <cstdint>

#include "tk/tk.hpp"

// `Words` 32-bit words of the calling lane, a multiple of 4.
template <int Words>
__device__ __forceinline__ void read_words(uint32_t (&words)[Words], const uint4* from) {
#pragma unroll
    for (int i = 0; i < Words / 4; ++i) {
        const uint4 four = from[i * blockDim.x + threadIdx.x];
        words[4 * i] = four.x, words[4 * i + 1] = four.y;
        words[4 * i + 2] = four.z, words[4 * i + 3] = four.w;
    }
}
template <int Words>
__device__ __forceinline__ void write_words(uint4* to, const uint32_t (&words)[Words]) {
#pragma unroll
    for (int i = 0; i < Words / 4; ++i) {
        to[i * blockDim.x + threadIdx.x] =
            make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    }
}
template <int Floats>
__device__ __forceinline__ void read_floats(float (&values)[Floats], const uint4* from) {
    read_words(reinterpret_cast<uint32_t (&)[Floats]>(values), from);
}
template <int Floats>
__device__ __forceinline__ void write_floats(uint4* to, const float (&values)[Floats]) {
    write_words(to, reinterpret_cast<const uint32_t (&)[Floats]>(values));
}
// A register tile's or vector's data, as it lies in the lanes.
template <class R>
__device__ __forceinline__ void read_registers(R& tile, const uint4* from) {
    constexpr int words = int(sizeof(tile.data)) / 4;
    read_words(reinterpret_cast<uint32_t (&)[words]>(tile.data), from);
}
template <class R>
__device__ __forceinline__ void write_registers(uint4* to, const R& tile) {
    constexpr int words = int(sizeof(tile.data)) / 4;
    write_words(to, reinterpret_cast<const uint32_t (&)[words]>(tile.data));
}
