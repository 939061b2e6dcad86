// Operands of the checks of matrix products, in shared memory and registers, and the comparison of
// results with sums computed element by element, for both architectures. Operands are small
// integers, so that every product and sum is exact.
#pragma once
#include "device_memory.hpp"

#if defined(TK_ARCH_HOST)
#include <atomic>
#endif

namespace mma_cases {

using namespace tk;
using tk::half;  // CUDA has one of its own

struct globals {
    int* wrong;      // the number of wrong elements
    float* results;  // room for those of a case
    int part;        // which part of a tile to multiply: 1, but the compiler must not know
};

enum operand { a_real, b_real, c_real, a_imag, b_imag, c_imag };
TK_HOST_DEVICE int number(operand which, int row, int col) {
    return (row * 3 + col * 5 + row * col % 4 + int(which) * 2) % 5 - 2;
}

TK_DEVICE void count_wrong(const globals& g, bool wrong) {
    if (!wrong) return;
#if defined(TK_ARCH_SM90)
    atomicAdd(g.wrong, 1);
#else
    std::atomic_ref<int>(*g.wrong).fetch_add(1);
#endif
}

// The row of a warpgroup's tile that a warp's register tile has as `row`.
TK_DEVICE int warpgroup_row(int row) {
    return (row / 16 * 4 + warpgroup::warpid()) * 16 + row % 16;
}

// f(row, col) for some of the elements: all of them, over the warps and lanes of a warpgroup.
template <class F>
TK_DEVICE void for_each_element(int rows, int cols, F&& f) {
#if defined(TK_ARCH_SM90)
    const int first = int(threadIdx.x), step = 128;
#else
    const int first = warpgroup::warpid(), step = 4;
#endif
    TK_NO_UNROLL
    for (int i = first; i < rows * cols; i += step) f(i / cols, i % cols);
}

// A shared tile that holds an operand as its part (part, part), or as a whole.
template <operand Which, bool Transposed, class S>
TK_DEVICE void fill(S& tile, int row_0, int col_0, int rows, int cols) {
    for_each_element(S::rows, S::cols, [&](int row, int col) {
        const int r = row - row_0, c = col - col_0;
        const bool inside = r >= 0 && r < rows && c >= 0 && c < cols;
        const int value = !inside ? 7 : Transposed ? number(Which, c, r) : number(Which, r, c);
        tile.data[tile.index(row, col)] = typename S::dtype(float(value));
    });
}

// A warp's register tile; of a warpgroup's operand a the warp's own rows.
template <operand Which, bool Transposed, bool OfWarpgroup, class R>
TK_DEVICE void fill_registers(R& tile) {
    R::for_each([&](int i, int row, int col, int, int) {
        const int r = Transposed ? col : row, c = Transposed ? row : col;
        tile.data[i] =
            typename R::dtype(float(number(Which, OfWarpgroup ? warpgroup_row(r) : r, c)));
    });
}

TK_DEVICE int sum_of_products(operand a, operand b, int row, int col, int k) {
    int sum = 0;
    TK_NO_UNROLL
    for (int i = 0; i < k; ++i) sum += number(a, row, i) * number(b, i, col);
    return sum;
}

// Counts the elements that are not right(row, col), of a warpgroup's tile or of each warp's own.
// They go through memory, so that the comparison is a loop: unrolled it takes long to compile.
inline constexpr int most_results = 128 * 256;
template <bool OfWarpgroup, class R, class F>
TK_DEVICE void compare(const globals& g, const R& result, F&& right) {
    static_assert(4 * R::rows * R::cols <= most_results);
    const int row_0 = warpgroup::warpid() * R::rows;
    R::for_each([&](int i, int row, int col, int, int) {
        g.results[(OfWarpgroup ? warpgroup_row(row) : row_0 + row) * R::cols + col] =
            float(result.data[i]);
    });
    warpgroup::sync(1);
    for_each_element(4 * R::rows, R::cols, [&](int row, int col) {
        const int number = right(OfWarpgroup ? row : row % R::rows, col);
        count_wrong(g, g.results[row * R::cols + col] != float(number));
    });
    warpgroup::sync(1);
}

}  // namespace mma_cases
