// Prints the bank conflicts of tensor-core fragments (ldmatrix, 16-bit elements) in a 64 x 64 tile,
// for the shared layouts that ThunderKittens' figure 4 compares: rows as they come, rows padded by
// 16 bytes, and the swizzles of 32, 64 and 128 bytes. A line each:
// "layout|worst|wavefronts|fewest", worst over both register layouts, the wavefronts of both copies
// of the whole tile.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "tk/tile/bank_conflicts.hpp"

namespace {

namespace banks = tk::bank_conflicts;

constexpr int rows = 64, cols = 64, element_bytes = 2;

banks::cost sum(const banks::cost& a, const banks::cost& b) {
    return {std::max(a.worst, b.worst), a.wavefronts + b.wavefronts, a.fewest + b.fewest};
}

// The accesses of the library's own copies, at the addresses of rows `pitch` bytes apart.
template <class Pattern>
banks::cost of_rows(int pitch) {
    using tile = tk::st<tk::bf16, rows, cols>;
    banks::cost result;
    Pattern::template for_each<tile>([&](auto&& place_of, int lanes) {
        banks::access made{Pattern::template elements<tile> * element_bytes, {}, lanes};
        for (int lane = 0; lane < lanes; ++lane) {
            const auto at = place_of(lane);
            made.address[size_t(lane)] = at.row * pitch + at.col * element_bytes;
        }
        result.add(made);
    });
    return result;
}

void print(const char* layout, const banks::cost& cost) {
    std::printf("%s|%g|%d|%d\n", layout, cost.worst, cost.wavefronts, cost.fewest);
}

using across = banks::matrices<tk::row_layout>;
using down = banks::matrices<tk::col_layout>;

void print_rows(const char* layout, int pitch) {
    print(layout, sum(of_rows<across>(pitch), of_rows<down>(pitch)));
}

template <int Swizzle>
void print_swizzle(const char* layout) {
    using tile = tk::st<tk::bf16, rows, cols, Swizzle>;
    print(layout, sum(banks::count<across, tile>(), banks::count<down, tile>()));
}

}  // namespace

int main() {
    constexpr int row_bytes = cols * element_bytes;
    print_rows("naive row-major", row_bytes);
    print_rows("padded by 16 bytes", row_bytes + 16);
    print_swizzle<32>("swizzle 32 bytes");
    print_swizzle<64>("swizzle 64 bytes");
    print_swizzle<128>("swizzle 128 bytes");
    return 0;
}
