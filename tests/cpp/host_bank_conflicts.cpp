// Prints the wavefronts of every access that the library's copies make to every kind of shared
// tile: "operation|dtype|swizzle|rows x cols|worst over fewest|wavefronts|fewest" a line.
#include <cstdio>
#include <memory>

#include "tk/tile/bank_conflicts.hpp"

namespace {

namespace banks = tk::bank_conflicts;

template <class T>
constexpr const char* name_of = std::is_same_v<T, tk::bf16>   ? "bf16, fp16"
                                : std::is_same_v<T, tk::e4m3> ? "e4m3, e5m2"
                                                              : "fp32";

template <class T>
void line(const char* operation, int swizzle, int rows, int cols, const banks::cost& cost) {
    std::printf("%s|%s|%d|%dx%d|%g|%d|%d\n", operation, name_of<T>, swizzle, rows, cols, cost.worst,
                cost.wavefronts, cost.fewest);
}

bool swizzles_agree = true;

template <class Pattern, class S>
void print(const char* operation, const S& tile) {
    if constexpr (Pattern::template applies<S>) {
        line<typename S::dtype>(operation, S::swizzle_bytes, S::rows, S::cols,
                                banks::count<Pattern>(tile));
    }
}

// What the copies work out instead of the layout's function, in the first panel.
template <class S>
void check_swizzle() {
    if constexpr (S::swizzle_bytes > 0) {
        for (int row = 0; row < S::rows; ++row) {
            for (int col = 0; col < S::panel_cols; ++col) {
                const int bytes = int(sizeof(typename S::dtype));
                const auto found = tk::detail::swizzled_bytes<S::swizzle_bytes>({row, col}, bytes);
                if (int(found) != S::offset(row, col) * bytes) swizzles_agree = false;
            }
        }
    }
}

template <class S>
void print_register_copies(const S& tile) {
    print<banks::matrices<tk::row_layout>>("load, store of a register tile, row layout", tile);
    print<banks::pairs>("load, store of a register tile, row layout", tile);
    print<banks::matrices<tk::col_layout>>("load, store of a register tile, column layout", tile);
    print<banks::elements_of_columns>("load, store of a register tile, column layout", tile);
}

// Parts of fewer columns than a panel has, or of half a panel more.
template <class S>
void print_narrow_parts(S& tile) {
    constexpr int narrowest = sizeof(typename S::dtype) == 1 ? 32 : 16;
    if constexpr (S::cols > narrowest && S::cols % narrowest == 0) {
        print_register_copies(tile.template subtile<S::rows, narrowest>(0, 1));
    }
    if constexpr (S::panels == 3 && S::cols / 2 > narrowest && S::cols / 2 % narrowest == 0) {
        print_register_copies(tile.template subtile<S::rows, S::cols / 2>(0, 1));
    }
    if constexpr (sizeof(typename S::dtype) == 4 && S::cols > 8 && S::cols % 8 == 0) {
        print_register_copies(tile.template subtile<S::rows, 8>(0, 1));
    }
}

template <class T, int Rows, int Cols, int Swizzle>
void print_tile() {
    using S = tk::st<T, Rows, Cols, Swizzle>;
    const auto tile = std::make_unique<S>();
    check_swizzle<S>();
    if constexpr (Rows % 16 == 0) {
        print_register_copies(*tile);
        if constexpr (Rows >= 64 && Cols % 64 == 0) {
            print_register_copies(tile->template subtile<Rows / 2, Cols / 2>(1, 1));
            print_register_copies(tile->template subtile<Rows / 2, Cols>(1, 0));
        }
        print_narrow_parts(*tile);
    }
    print<banks::shared_vectors<16>>("operations on shared tiles", *tile);
    print<banks::shared_vectors<8>>("the same with tiles of twice as wide elements", *tile);
    print<banks::shared_vectors<4>>("the same with tiles of four times as wide elements", *tile);
    print<banks::global_vectors>("load, store of global memory, aligned", *tile);
    print<banks::strided_row_walk>("load, store of global memory, unaligned along rows", *tile);
    print<banks::strided_column_walk>("load, store of global memory, unaligned down columns",
                                      *tile);
    print<banks::row_walk>("load, store of global memory, element by element along rows", *tile);
    print<banks::column_walk>("load, store of global memory, element by element down columns",
                              *tile);
    if constexpr (Swizzle > 0) {
        print<banks::eight_columns<false>>("for_each8 along rows", *tile);
        print<banks::eight_columns<true>>("for_each8 down columns", *tile);
    }
}

template <class T, int Swizzle>
void print_swizzle() {
    constexpr int panel = tk::detail::panel_bytes_for(Swizzle) / int(sizeof(T));
    print_tile<T, 16, panel, Swizzle>();
    print_tile<T, 16, 2 * panel, Swizzle>();
    print_tile<T, 64, panel, Swizzle>();
    print_tile<T, 64, 2 * panel, Swizzle>();
    print_tile<T, 64, 3 * panel, Swizzle>();
    print_tile<T, 128, 8 * panel, Swizzle>();
}

template <class T>
void print_dtype() {
    print_swizzle<T, 128>();
    print_swizzle<T, 64>();
    print_swizzle<T, 32>();
    print_swizzle<T, 0>();

    using tk::vector_layout;
    using V = tk::sv<T, 256>;
    const char* copies = "load, store of a register vector";
    line<T>(copies, -1, 1, 256, banks::count_vector<vector_layout::naive, V>());
    line<T>(copies, -1, 1, 256, banks::count_vector<vector_layout::aligned, V>());
    line<T>(copies, -1, 1, 256, banks::count_vector<vector_layout::aligned_4, V>());
    line<T>(copies, -1, 1, 256, banks::count_vector<vector_layout::orthogonal, V>());
}

// Accesses whose wavefronts are known by hand.
int check_counting() {
    banks::access made;
    const auto every = [&](int bytes, int step) {
        made.bytes = bytes;
        for (int lane = 0; lane < 32; ++lane) made.address[size_t(lane)] = lane * step;
        return banks::wavefronts(made);
    };
    if (every(4, 4) != 1) return 1;      // a word a bank
    if (every(4, 0) != 1) return 2;      // one word for all
    if (every(4, 128) != 32) return 3;   // 32 words of one bank
    if (every(4, 8) != 2) return 4;      // every second bank, twice
    if (every(1, 1) != 1) return 5;      // four lanes a word
    if (every(16, 16) != 4) return 6;    // 512 bytes, 128 at once
    if (every(16, 128) != 32) return 7;  // eight lanes of a quarter on four banks
    made.lanes = 16;
    if (every(16, 16) != 2 || banks::fewest_wavefronts(made) != 2) return 8;  // two matrices
    return 0;
}

}  // namespace

int main() {
    if (const int failed = check_counting()) {
        std::printf("counting: case %d\n", failed);
        return 1;
    }
    print_dtype<tk::bf16>();
    print_dtype<float>();
    print_dtype<tk::e4m3>();
    if (!swizzles_agree) std::printf("swizzled_bytes is not the layout's function\n");
    return swizzles_agree ? 0 : 1;
}
