// A sample of the library's accesses to shared memory, each repeated by one warp in a kernel of its
// own, for ncu to count their wavefronts. Prints "kernel|access|operation|dtype|swizzle|rows x
// cols" for each: the operation as tests/cpp/host_bank_conflicts.cpp names it.
#include <cstdio>

#include "tk/tk.hpp"

namespace {

constexpr int repeats = 64;

template <class S>
__device__ S& shared_tile(int i = 0) {
    return reinterpret_cast<S*>(tk::shared_memory())[i];
}
// Values that might change from turn to turn, so that no access is left out.
template <class R>
__device__ void fill(R& tile, float value) {
    tk::warp::fill(tile, value);
}
// The part of a tile that has the columns of R, behind the first one.
template <class S, class R>
__device__ decltype(auto) target() {
    if constexpr (S::cols == R::cols) {
        return (shared_tile<S>());
    } else {
        return shared_tile<S>().template subtile<S::rows, R::cols>(0, 1);
    }
}
template <class S, class R>
__device__ void store_repeatedly(float value) {
    R tile;
    fill(tile, value);
#pragma unroll 1
    for (int i = 0; i < repeats; ++i) {
        tk::warp::store(target<S, R>(), tile);
        tk::warp::sync();
    }
}
template <class S, class R>
__device__ void load_repeatedly(float* out) {
    R tile, sums;
    fill(sums, 0.0f);
#pragma unroll 1
    for (int i = 0; i < repeats; ++i) {
        tk::warp::load(tile, target<S, R>());
        tk::warp::add(sums, sums, tile);
        tk::warp::sync();
    }
    float sum = 0.0f;
    for (int i = 0; i < R::elements; ++i) sum += float(sums.data[i]);
    out[threadIdx.x] = sum;
}

using bf = tk::st_bf<64, 64>;
using bf_64 = tk::st_bf<64, 64, 64>;
using fl = tk::st_fl<64, 32, 128>;
using fl_64 = tk::st_fl<64, 16, 64>;
using fl_wide = tk::st_fl<64, 64, 128>;
using e4 = tk::st_e4m3<64, 128, 128>;

}  // namespace

extern "C" {
__global__ void store_bf16(float* out, float value) {
    store_repeatedly<bf, tk::rt_bf<64, 64>>(value);
}
__global__ void load_bf16(float* out, float value) { load_repeatedly<bf, tk::rt_bf<64, 64>>(out); }
__global__ void load_bf16_columns(float* out, float value) {
    load_repeatedly<bf, tk::rt_bf<64, 64, tk::col_layout>>(out);
}
__global__ void store_fp32(float* out, float value) {
    store_repeatedly<fl, tk::rt_fl<64, 32>>(value);
}
__global__ void load_fp32(float* out, float value) { load_repeatedly<fl, tk::rt_fl<64, 32>>(out); }
__global__ void store_fp32_64(float* out, float value) {
    store_repeatedly<fl_64, tk::rt_fl<64, 16>>(value);
}
__global__ void store_fp32_part(float* out, float value) {
    store_repeatedly<fl, tk::rt_fl<64, 16>>(value);
}
__global__ void load_fp32_part(float* out, float value) {
    load_repeatedly<fl, tk::rt_fl<64, 16>>(out);
}
__global__ void load_fp32_columns(float* out, float value) {
    load_repeatedly<fl, tk::rt_fl<64, 32, tk::col_layout>>(out);
}
__global__ void load_fp32_columns_64(float* out, float value) {
    load_repeatedly<fl_64, tk::rt_fl<64, 16, tk::col_layout>>(out);
}
__global__ void store_e4m3_columns(float* out, float value) {
    store_repeatedly<e4, tk::rt_e4m3<64, 128, tk::col_layout>>(value);
}
__global__ void fill_shared(float* out, float value) {
#pragma unroll 1
    for (int i = 0; i < repeats; ++i) tk::warp::fill(shared_tile<bf>(), value);
}
__global__ void load_global_64(float* out, float value) {
    const tk::gl_view<const tk::bf16> from(reinterpret_cast<const tk::bf16*>(out), {64, 64},
                                           {0, 0, 64});
#pragma unroll 1
    for (int i = 0; i < repeats; ++i) tk::warp::load(shared_tile<bf_64>(), from, {});
}
__global__ void load_global_by_columns(float* out, float value) {
    const tk::gl_view<const tk::bf16> from(reinterpret_cast<const tk::bf16*>(out), {64, 64},
                                           {0, 0, 1, 64});
#pragma unroll 1
    for (int i = 0; i < repeats; ++i) tk::warp::load(shared_tile<bf>(), from, {});
}
__global__ void for_each8(float* out, float value) {
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < repeats; ++i) {
        tk::warp::for_each8(shared_tile<fl_wide>(), false, [&](int, int, float (&values)[8]) {
            for (float each : values) sum += each;
        });
        tk::warp::sync();
    }
    out[threadIdx.x] = sum;
}
}

namespace {

bool run(void (*kernel)(float*, float), const char* name, const char* access, const char* operation,
         const char* dtype, int swizzle, const char* shape, float* memory) {
    kernel<<<1, 32, 32768>>>(memory, 1.0f);
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", name, cudaGetErrorString(error));
        return false;
    }
    std::printf("%s|%s|%s|%s|%d|%s\n", name, access, operation, dtype, swizzle, shape);
    return true;
}

}  // namespace

int main() {
    float* memory = nullptr;
    if (cudaMalloc(&memory, 1 << 16) != cudaSuccess) return 1;
    const char *rows = "load, store of a register tile, row layout",
               *columns = "load, store of a register tile, column layout";
    bool ok = true;
#define RUN(kernel, ...) ok = run(kernel, #kernel, __VA_ARGS__, memory) && ok
    RUN(store_bf16, "st", rows, "bf16, fp16", 128, "64x64");
    RUN(load_bf16, "ld", rows, "bf16, fp16", 128, "64x64");
    RUN(load_bf16_columns, "ld", columns, "bf16, fp16", 128, "64x64");
    RUN(store_fp32, "st", rows, "fp32", 128, "64x32");
    RUN(load_fp32, "ld", rows, "fp32", 128, "64x32");
    RUN(store_fp32_64, "st", rows, "fp32", 64, "64x16");
    RUN(store_fp32_part, "st", rows, "fp32", 128, "64x16");
    RUN(load_fp32_part, "ld", rows, "fp32", 128, "64x16");
    RUN(load_fp32_columns, "ld", columns, "fp32", 128, "64x32");
    RUN(load_fp32_columns_64, "ld", columns, "fp32", 64, "64x16");
    RUN(store_e4m3_columns, "st", columns, "e4m3, e5m2", 128, "64x128");
    RUN(fill_shared, "st", "operations on shared tiles", "bf16, fp16", 128, "64x64");
    RUN(load_global_64, "st", "load, store of global memory, aligned", "bf16, fp16", 64, "64x64");
    RUN(load_global_by_columns, "st", "load, store of global memory, unaligned down columns",
        "bf16, fp16", 128, "64x64");
    RUN(for_each8, "ld", "for_each8 along rows", "fp32", 128, "64x64");
    return ok ? 0 : 1;
}
