// Pairs of kernels that do the same between registers and shared memory: `ours_x` by the library,
// `hand_x` in CUDA C++ and PTX as one would write it by hand. tests/test_sass.py compares their
// instructions.
#include "frame.hpp"

namespace {

using tile =
    tk::st_bf<64, 64>;  // a warpgroup's; 128 bytes a row, 16-byte units swizzled by row % 8
using piece = tk::st_fl<16, 64>;  // a warp's; two panels of 16 rows of 128 bytes

__device__ __forceinline__ uint32_t shared_base() {
    return uint32_t(__cvta_generic_to_shared(tk::shared_memory()));
}
__device__ __forceinline__ tile& shared_tile() {
    return *reinterpret_cast<tile*>(tk::shared_memory());
}
__device__ __forceinline__ piece& shared_piece() {
    return *reinterpret_cast<piece*>(tk::shared_memory());
}
// The address of the 16 bytes that the calling lane names of the first four 8 x 8 matrices of the
// warp's 16 rows: two down, then two across.
__device__ __forceinline__ uint32_t first_matrices() {
    const uint32_t lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
    return shared_base() + row * 128 + ((lane / 16) ^ (lane % 8)) * 16;
}

}  // namespace

extern "C" {

__global__ void ours_store_bf16(const uint4* in) {
    tk::rt_fl<16, 64> x;
    read_registers(x, in);
    tk::warpgroup::store(shared_tile(), x);
}
__global__ void hand_store_bf16(const uint4* in) {
    float x[32];
    uint32_t pairs[16];
    read_floats(x, in);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pairs[i]) : "f"(x[2 * i + 1]), "f"(x[2 * i]));
    }
    const uint32_t first = first_matrices();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         first ^ (j * 32)),
                     "r"(pairs[4 * j]), "r"(pairs[4 * j + 1]), "r"(pairs[4 * j + 2]),
                     "r"(pairs[4 * j + 3])
                     : "memory");
    }
}

__global__ void ours_load_row(uint4* out) {
    tk::rt_bf<16, 64> x;
    tk::warpgroup::load(x, shared_tile());
    write_registers(out, x);
}
__global__ void hand_load_row(uint4* out) {
    uint32_t x[16];
    const uint32_t first = first_matrices();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[4 * j]), "=r"(x[4 * j + 1]), "=r"(x[4 * j + 2]), "=r"(x[4 * j + 3])
                     : "r"(first ^ (j * 32)));
    }
    write_words(out, x);
}

// The right operand: all of a tile of 64 rows by 64 columns in one warp.
__global__ void ours_load_col(uint4* out) {
    tk::rt_bf<64, 64, tk::col_layout> x;
    tk::warp::load(x, shared_tile());
    write_registers(out, x);
}
__global__ void hand_load_col(uint4* out) {
    uint32_t x[64];
    const uint32_t lane = threadIdx.x % 32;
    // two matrices across (columns), then two down
    const uint32_t first =
        shared_base() + (lane / 16 * 8 + lane % 8) * 128 + ((lane / 8 % 2) ^ (lane % 8)) * 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // 16 columns
#pragma unroll
        for (int j = 0; j < 4; ++j) {  // 16 rows
            uint32_t* to = x + (i * 4 + j) * 4;
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                         : "r"((first ^ (i * 32)) + j * 2048));
        }
    }
    write_words(out, x);
}

// fp32 by pairs: of two rows whose units would meet in the same banks, one is two blocks of 8
// columns on.
__global__ void ours_store_fp32(const uint4* in) {
    tk::rt_fl<16, 64> x;
    read_registers(x, in);
    tk::warp::store(shared_piece(), x);
}
__global__ void hand_store_fp32(const uint4* in) {
    float x[32];
    read_floats(x, in);
    const uint32_t lane = threadIdx.x % 32, row = lane / 4, place = lane % 4;
    const bool swaps = row % 2 == 1;
    const uint32_t first = shared_base() + row * 128 + ((place / 2) ^ row) * 16 + place % 2 * 8;
    const uint32_t own = first ^ (swaps ? 64 : 0);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
            const int mine = j * 4 + upper * 2, other = (j ^ 2) * 4 + upper * 2;
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"((own ^ (j % 4 * 32)) +
                                                                  j / 4 * 2048 + upper * 1024),
                         "f"(swaps ? x[other] : x[mine]), "f"(swaps ? x[other + 1] : x[mine + 1])
                         : "memory");
        }
    }
}

__global__ void ours_load_fp32(uint4* out) {
    tk::rt_fl<16, 64> x;
    tk::warp::load(x, shared_piece());
    write_registers(out, x);
}
__global__ void hand_load_fp32(uint4* out) {
    float loaded[32], x[32];
    const uint32_t lane = threadIdx.x % 32, row = lane / 4, place = lane % 4;
    const bool swaps = row % 2 == 1;
    const uint32_t first = shared_base() + row * 128 + ((place / 2) ^ row) * 16 + place % 2 * 8;
    const uint32_t own = first ^ (swaps ? 64 : 0);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
            const int i = j * 4 + upper * 2;
            asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                         : "=f"(loaded[i]), "=f"(loaded[i + 1])
                         : "r"((own ^ (j % 4 * 32)) + j / 4 * 2048 + upper * 1024));
        }
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) x[i] = swaps ? loaded[i ^ 8] : loaded[i];
    write_floats(out, x);
}

// Element by element in shared memory, by a warpgroup, 8 elements a lane at a time.
__global__ void ours_shared_add() {
    tile* tiles = reinterpret_cast<tile*>(tk::shared_memory());
    tk::warpgroup::add(tiles[0], tiles[1], tiles[2]);
}
__global__ void hand_shared_add() {
    uint4* to = reinterpret_cast<uint4*>(tk::shared_memory());
#pragma unroll 1
    for (int i = int(threadIdx.x) % 128; i < 512; i += 128) {
        // tiles of one layout: what lies at one place in memory belongs together
        uint4 a = to[512 + i], b = to[1024 + i], sum;
        const uint32_t as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
        uint32_t sums[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float low = __uint_as_float(as[k] << 16) + __uint_as_float(bs[k] << 16);
            const float high =
                __uint_as_float(as[k] & 0xffff0000u) + __uint_as_float(bs[k] & 0xffff0000u);
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(sums[k]) : "f"(high), "f"(low));
        }
        sum.x = sums[0], sum.y = sums[1], sum.z = sums[2], sum.w = sums[3];
        to[i] = sum;
    }
}

}  // extern "C"
