// Pairs of kernels that do the same to tiles in registers: `ours_x` by the library, `hand_x` in
// CUDA C++ and PTX as one would write it by hand. tests/test_sass.py compares their instructions.
#include "frame.hpp"

namespace {

using tile = tk::rt_fl<16, 128>;  // 64 floats a lane: of every 8 columns two, of rows g and g + 8
using rows = tk::rv<float, 16, tk::vector_layout::orthogonal>;
constexpr int n = 64;

// Which of a lane's two rows element i is of.
__device__ constexpr int row_of(int i) { return i / 2 % 2; }

__device__ __forceinline__ float max_nan(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

}  // namespace

extern "C" {

__global__ void ours_row_max(float* out, const uint4* in) {
    tile x;
    read_registers(x, in);
    rows result;
    tk::warp::row_max(result, x);
    out[threadIdx.x] = result.data[0], out[threadIdx.x + 32] = result.data[1];
}
__global__ void hand_row_max(float* out, const uint4* in) {
    float x[n];
    read_floats(x, in);
    float upper = x[0], lower = x[2], upper_2 = x[1], lower_2 = x[3];
#pragma unroll
    for (int i = 4; i < n; i += 4) {
        upper = max_nan(upper, x[i]), upper_2 = max_nan(upper_2, x[i + 1]);
        lower = max_nan(lower, x[i + 2]), lower_2 = max_nan(lower_2, x[i + 3]);
    }
    upper = max_nan(upper, upper_2), lower = max_nan(lower, lower_2);
#pragma unroll
    for (int mask = 2; mask > 0; mask /= 2) {
        upper = max_nan(upper, __shfl_xor_sync(~0u, upper, mask));
        lower = max_nan(lower, __shfl_xor_sync(~0u, lower, mask));
    }
    out[threadIdx.x] = upper, out[threadIdx.x + 32] = lower;
}

__global__ void ours_row_sum(float* out, const uint4* in) {
    tile x;
    read_registers(x, in);
    rows result;
    tk::warp::row_sum(result, x);
    out[threadIdx.x] = result.data[0], out[threadIdx.x + 32] = result.data[1];
}
__global__ void hand_row_sum(float* out, const uint4* in) {
    float x[n];
    read_floats(x, in);
    float upper = x[0], lower = x[2], upper_2 = x[1], lower_2 = x[3];
#pragma unroll
    for (int i = 4; i < n; i += 4) {
        upper += x[i], upper_2 += x[i + 1], lower += x[i + 2], lower_2 += x[i + 3];
    }
    upper += upper_2, lower += lower_2;
#pragma unroll
    for (int mask = 2; mask > 0; mask /= 2) {
        upper += __shfl_xor_sync(~0u, upper, mask);
        lower += __shfl_xor_sync(~0u, lower, mask);
    }
    out[threadIdx.x] = upper, out[threadIdx.x + 32] = lower;
}

__global__ void ours_col_sum(uint4* out, const uint4* in) {
    tile x;
    read_registers(x, in);
    tile::row_vec result;
    tk::warp::col_sum(result, x);
    write_registers(out, result);
}
__global__ void hand_col_sum(uint4* out, const uint4* in) {
    float x[n], sums[n / 2];
    read_floats(x, in);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
        float sum = x[i / 2 * 4 + i % 2] + x[i / 2 * 4 + i % 2 + 2];
        sum += __shfl_xor_sync(~0u, sum, 16);
        sum += __shfl_xor_sync(~0u, sum, 8);
        sums[i] = sum + __shfl_xor_sync(~0u, sum, 4);
    }
    write_floats(out, sums);
}

__global__ void ours_exp2_scaled_sub_row(uint4* out, const uint4* in, const float* maxima,
                                         float scale) {
    tile x;
    read_registers(x, in);
    rows of_rows;
    of_rows.data[0] = maxima[threadIdx.x], of_rows.data[1] = maxima[threadIdx.x + 32];
    tk::warp::exp2_scaled_sub_row(x, x, of_rows, scale);
    write_registers(out, x);
}
__global__ void hand_exp2_scaled_sub_row(uint4* out, const uint4* in, const float* maxima,
                                         float scale) {
    float x[n];
    read_floats(x, in);
    float scaled[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const float maximum = maxima[threadIdx.x + 32 * r];
        scaled[r] = maximum == -INFINITY ? 0.0f : maximum * scale;
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
        const float power = fmaf(x[i], scale, -scaled[row_of(i)]);
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(x[i]) : "f"(power));
    }
    write_floats(out, x);
}

__global__ void ours_mul_row(uint4* out, const uint4* in, const float* factors) {
    tile x;
    read_registers(x, in);
    rows of_rows;
    of_rows.data[0] = factors[threadIdx.x], of_rows.data[1] = factors[threadIdx.x + 32];
    tk::warp::mul_row(x, x, of_rows);
    write_registers(out, x);
}
__global__ void hand_mul_row(uint4* out, const uint4* in, const float* factors) {
    float x[n];
    read_floats(x, in);
    const float of_rows[2] = {factors[threadIdx.x], factors[threadIdx.x + 32]};
#pragma unroll
    for (int i = 0; i < n; ++i) x[i] *= of_rows[row_of(i)];
    write_floats(out, x);
}

__global__ void ours_make_causal(uint4* out, const uint4* in, int row_0, int col_0) {
    tile x;
    read_registers(x, in);
    tk::warp::make_causal(x, x, -INFINITY, row_0, col_0);
    write_registers(out, x);
}
__global__ void hand_make_causal(uint4* out, const uint4* in, int row_0, int col_0) {
    float x[n];
    read_floats(x, in);
    const int lane = int(threadIdx.x) % 32;
    // the last diagonal to keep, less that of the lane's first element
    const int last = row_0 - col_0 + lane / 4 - lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < n; ++i) {
        if (i / 4 * 8 + i % 2 - row_of(i) * 8 > last) x[i] = -INFINITY;
    }
    write_floats(out, x);
}

__global__ void ours_copy_to_bf16(uint4* out, const uint4* in) {
    tile x;
    read_registers(x, in);
    tk::rt_bf<16, 128> narrow;
    tk::warp::copy(narrow, x);
    write_registers(out, narrow);
}
__global__ void hand_copy_to_bf16(uint4* out, const uint4* in) {
    float x[n];
    uint32_t narrow[n / 2];
    read_floats(x, in);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(narrow[i]) : "f"(x[2 * i + 1]), "f"(x[2 * i]));
    }
    write_words(out, narrow);
}

__global__ void ours_add(uint4* out, const uint4* in_a, const uint4* in_b) {
    tile a, b;
    read_registers(a, in_a);
    read_registers(b, in_b);
    tk::warp::add(a, a, b);
    write_registers(out, a);
}
__global__ void hand_add(uint4* out, const uint4* in_a, const uint4* in_b) {
    float a[n], b[n];
    read_floats(a, in_a);
    read_floats(b, in_b);
#pragma unroll
    for (int i = 0; i < n; ++i) a[i] += b[i];
    write_floats(out, a);
}

__global__ void ours_swap_layout(uint4* out, const uint4* in) {
    tk::rt_bf<16, 128> x;
    read_registers(x, in);
    tk::rt_bf<16, 128, tk::col_layout> result;
    tk::warp::swap_layout(result, x);
    write_registers(out, result);
}
__global__ void hand_swap_layout(uint4* out, const uint4* in) {
    uint32_t x[n / 2], result[n / 2];
    read_words(x, in);
    // Blocks of 8 x 8 stay where they are but for the order: 16 columns of 16 rows at a time, the
    // upper right and the lower left one change places.
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
        const int from = i / 4 * 4 + i % 2 * 2 + i / 2 % 2;
        asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result[i]) : "r"(x[from]));
    }
    write_words(out, result);
}

}  // extern "C"
