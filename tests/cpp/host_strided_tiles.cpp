// Copies of shared tiles from and to global memory of any strides as sm90 makes them, lane by lane
// on the host, against plain loops: every alignment of a row, every contiguous dimension, edges on
// every side. Prints "ok", or what is wrong. Under a sanitizer no lane reads outside of the tensor.
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tk/tile/gl.hpp"
#include "tk/tile/strided_tiles.hpp"

namespace {

using namespace tk;

int faults = 0;

struct tensor_case {
    int64_t rows, cols, row_stride, col_stride, shift;  // elements past 16 bytes
    coord at;

    std::string text() const {
        return std::to_string(rows) + " x " + std::to_string(cols) + ", strides (" +
               std::to_string(row_stride) + ", " + std::to_string(col_stride) + ") + " +
               std::to_string(shift) + ", tile at (" + std::to_string(at.depth) + ", " +
               std::to_string(at.row) + ", " + std::to_string(at.col) + ")";
    }
    bool has(int row, int col) const {
        const int64_t r = int64_t(at.row) + row, c = int64_t(at.col) + col;
        return at.depth == 0 && r >= 0 && r < rows && c >= 0 && c < cols;
    }
    int64_t index(int row, int col) const {
        return shift + (at.row + row) * row_stride + (at.col + col) * col_stride;
    }
};

// The tensor's elements and no more, the first one `shift` elements past 16 bytes.
struct exact_memory {
    size_t count;
    std::unique_ptr<bf16[]> elements;

    explicit exact_memory(const tensor_case& c)
        : count(size_t(c.shift + (c.rows - 1) * c.row_stride + (c.cols - 1) * c.col_stride + 1)),
          elements(new bf16[count]) {
        for (size_t i = 0; i < count; ++i) elements[i] = number(i);
    }
    static bf16 number(size_t i) {
        bf16 result;
        result.storage = uint16_t(i * 40503u + 12345u);
        return result;
    }
};

uint16_t bits(bf16 x) { return x.storage; }

void fault(const std::string& what) {
    if (++faults <= 20) std::printf("%s\n", what.c_str());
}

// `whole` is the tile's memory; `tile` all of it or a part.
template <int Lanes, class Whole, class S>
void check(Whole& whole, S& tile, const tensor_case& c, const std::string& name) {
    exact_memory memory(c);
    bf16* const data = memory.elements.get() + c.shift;
    const gl_view<const bf16> source(data, {1, 1, c.rows, c.cols},
                                     {0, 0, c.row_stride, c.col_stride});
    const gl_view<bf16> target(data, {1, 1, c.rows, c.cols}, {0, 0, c.row_stride, c.col_stride});
    const std::string where = name + " of " + std::to_string(Lanes) + " lanes, " + c.text();
    const bf16 untouched = exact_memory::number(777777);
    for (bf16& each : whole.data) each = untouched;
    for (int lane = 0; lane < Lanes; ++lane) {
        const detail::strided_matrix<const bf16> global(source, c.at, S::rows, S::cols);
        detail::strided_copy<true, const bf16, Lanes, S>::run(tile, global, lane);
    }
    size_t written = 0;
    for (const bf16& each : whole.data) written += bits(each) != bits(untouched);
    if (written > size_t(S::rows * S::cols)) fault(where + ": wrote outside of the tile");
    for (int row = 0; row < S::rows; ++row) {
        for (int col = 0; col < S::cols; ++col) {
            const uint16_t want =
                c.has(row, col) ? bits(memory.elements[size_t(c.index(row, col))]) : uint16_t(0);
            if (bits(tile.data[tile.index(row, col)]) != want) {
                return fault(where + ": loaded another (" + std::to_string(row) + ", " +
                             std::to_string(col) + ")");
            }
        }
    }

    // Back, as other numbers; what is stored twice, at a stride of 0, has no order.
    if (c.row_stride == 0 || c.col_stride == 0) return;
    std::vector<uint16_t> want(memory.count);
    for (size_t i = 0; i < memory.count; ++i) want[i] = bits(memory.elements[i]);
    for (int row = 0; row < S::rows; ++row) {
        for (int col = 0; col < S::cols; ++col) {
            const bf16 x = exact_memory::number(size_t(1000000 + row * S::cols + col));
            tile.data[tile.index(row, col)] = x;
            if (c.has(row, col)) want[size_t(c.index(row, col))] = bits(x);
        }
    }
    for (int lane = 0; lane < Lanes; ++lane) {
        const detail::strided_matrix<bf16> global(target, c.at, S::rows, S::cols);
        detail::strided_copy<false, bf16, Lanes, S>::run(std::as_const(tile), global, lane);
    }
    for (size_t i = 0; i < memory.count; ++i) {
        if (bits(memory.elements[i]) != want[i]) {
            return fault(where + ": stored another element " + std::to_string(i));
        }
    }
}

template <int Lanes, class Whole, class S>
void check_places(Whole& whole, S& tile, const std::string& name) {
    constexpr int rows = S::rows, cols = S::cols;
    // All inside, cut at the far edges, cut at the near ones, nothing.
    const coord places[] = {
        {0, rows, cols}, {0, rows + 7, cols + 3}, {0, rows + 5, 0}, {0, 1, cols + 1},
        {0, -3, -5},     {0, 2 * rows + 3, 0},    {0, 0, -cols},    {1, 0, 0}};
    for (const coord at : places) {
        const auto place = [&](int64_t row_stride, int64_t col_stride, int64_t shift) {
            const tensor_case c{2 * rows + 3, 2 * cols + 1, row_stride, col_stride, shift, at};
            check<Lanes>(whole, tile, c, name);
        };
        constexpr int64_t wide = 2 * cols + 8, tall = 2 * rows + 8;  // multiples of 8
        for (const int64_t more : {0, 4, 2, 1}) {                    // rows of 16, 8, 4 and 2 bytes
            for (const int64_t shift : {0, 4, 2, 1}) {
                place(wide + more, 1, shift);
                place(1, tall + more, shift);
            }
        }
        place(0, 1, 1), place(1, 0, 0), place(0, 0, 0);  // the same row, column or element
        place(2 * wide, 2, 0), place(3, 3 * tall, 1), place(wide, 0, 2), place(0, tall, 0);
    }
}

template <int Lanes, class S>
void check_tile(const std::string& name) {
    const auto tile = std::make_unique<S>();
    check_places<Lanes>(*tile, *tile, name);
}
template <int Lanes, int Rows, int Cols, class S>
void check_part(const std::string& name) {
    const auto tile = std::make_unique<S>();
    auto part = tile->template subtile<Rows, Cols>(1, 1);
    check_places<Lanes>(*tile, part, name);
}

}  // namespace

int main() {
    check_tile<128, st_bf<128, 64>>("128 x 64");
    check_tile<128, st_bf<64, 128>>("64 x 128");
    check_tile<128, st_bf<24, 72>>("24 x 72");
    check_tile<128, st_bf<8, 8>>("8 x 8");
    check_tile<32, st_bf<40, 32>>("40 x 32");
    check_tile<32, st_bf<16, 64>>("16 x 64");
    check_tile<256, st_bf<192, 16>>("192 x 16");
    check_tile<128, st_bf<64, 64, 64>>("64 x 64 of 64-byte swizzles");
    check_tile<128, st_bf<32, 64, 32>>("32 x 64 of 32-byte swizzles");
    check_tile<64, st_bf<32, 32, 0>>("32 x 32 without a swizzle");
    check_part<128, 32, 64, st_bf<64, 128>>("32 x 64 of 64 x 128");
    check_part<32, 8, 24, st_bf<32, 72>>("8 x 24 of 32 x 72");
    if (faults == 0) std::printf("ok\n");
    return faults == 0 ? 0 : 1;
}
