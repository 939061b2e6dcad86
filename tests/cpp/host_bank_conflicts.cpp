// Prints the wavefronts of every pattern of access to every kind of shared tile, over the fewest
// that there can be: "dtype rows x cols: pattern ratio" a line. A ratio of 0: the tile is smaller
// than the pattern.
#include <cstdio>

#include "tk/tile/bank_conflicts.hpp"

namespace {

namespace banks = tk::bank_conflicts;

template <class T, int Rows, int Cols>
void print(const char* dtype) {
    using S = tk::st<T, Rows, Cols>;
    const auto line = [&](const char* pattern, double ratio) {
        std::printf("%s %dx%d: %s %g\n", dtype, Rows, Cols, pattern, ratio);
    };
    if (sizeof(T) == 2) line("matrices", banks::worst<S, banks::matrices>());
    line("accumulators", banks::worst<S, banks::accumulators>());
    line("vectors", banks::worst<S, banks::vectors<16 / int(sizeof(T))>>());
    if (sizeof(T) == 4) line("eight_columns", banks::worst<S, banks::eight_columns>());
    line("row_walk", banks::worst<S, banks::row_walk>());
    line("column_walk", banks::worst<S, banks::column_walk>());
}

template <class T>
void print_all(const char* dtype) {
    if (sizeof(T) == 2) print<T, 64, 16>(dtype);
    print<T, 64, 32>(dtype);
    print<T, 64, 64>(dtype);
    print<T, 16, 64>(dtype);
    print<T, 64, 128>(dtype);
    print<T, 128, 256>(dtype);
}

// Accesses whose wavefronts are known by hand.
int check_counting() {
    banks::access made{4, {}};
    for (int lane = 0; lane < 32; ++lane) made.address[size_t(lane)] = lane * 4;
    if (banks::wavefronts(made) != 1) return 1;  // a word a bank
    for (int& each : made.address) each = 64;
    if (banks::wavefronts(made) != 1) return 2;  // one word for all
    for (int lane = 0; lane < 32; ++lane) made.address[size_t(lane)] = lane * 128;
    if (banks::wavefronts(made) != 32) return 3;  // 32 words of one bank
    for (int lane = 0; lane < 32; ++lane) made.address[size_t(lane)] = lane * 8;
    if (banks::wavefronts(made) != 2) return 4;  // every second bank, twice
    made.bytes = 16;
    for (int lane = 0; lane < 32; ++lane) made.address[size_t(lane)] = lane * 16;
    if (banks::wavefronts(made) != 4) return 5;  // 512 bytes, 128 at once
    for (int lane = 0; lane < 32; ++lane) made.address[size_t(lane)] = lane * 128;
    if (banks::wavefronts(made) != 32) return 6;  // eight lanes of a quarter on four banks
    return 0;
}

}  // namespace

int main() {
    if (const int failed = check_counting()) {
        std::printf("counting: case %d\n", failed);
        return 1;
    }
    print_all<tk::bf16>("bf16");
    print_all<float>("fp32");
    return 0;
}
