// Bank conflicts of warp-wide accesses to shared tiles, counted from the tile's layout.
//
// Shared memory has 32 banks of 4 bytes, and a wavefront serves one word of each bank to any number
// of lanes (CUDA C++ Programming Guide, "Shared memory"). Lanes that access 8 or 16 bytes are
// served by halves and by quarters of the warp.
#pragma once
#include <algorithm>
#include <array>

#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

namespace bank_conflicts {

constexpr int num_banks = 32, bank_bytes = 4, num_lanes = 32;

// What the lanes of a warp access at once: as many bytes each, from these byte addresses.
struct access {
    int bytes;
    std::array<int, num_lanes> address;
};

// The fewest wavefronts of any access of so many bytes a lane: the words of one lane.
constexpr int fewest_wavefronts(int bytes) { return bytes < bank_bytes ? 1 : bytes / bank_bytes; }

// The wavefronts that an access takes.
inline int wavefronts(const access& made) {
    const int words = fewest_wavefronts(made.bytes);
    const int lanes_at_once = num_lanes / words;
    int total = 0;
    for (int first = 0; first < num_lanes; first += lanes_at_once) {
        std::array<std::array<int, num_lanes>, num_banks> wanted{};  // words of each bank,
        std::array<int, num_banks> count{};                          // and how many they are
        int deepest = 0;
        for (int lane = first; lane < first + lanes_at_once; ++lane) {
            for (int i = 0; i < words; ++i) {
                const int word = made.address[size_t(lane)] / bank_bytes + i;
                auto& of_bank = wanted[size_t(word % num_banks)];
                int& n = count[size_t(word % num_banks)];
                if (std::find(of_bank.begin(), of_bank.begin() + n, word) != of_bank.begin() + n) {
                    continue;
                }
                of_bank[size_t(n++)] = word;
                deepest = std::max(deepest, n);
            }
        }
        total += deepest;
    }
    return total;
}

// --- Patterns: the lanes' places in a tile, from (row, col) on, and the elements of each. ---

struct place {
    int row, col;
};

// ldmatrix and stmatrix with four 8x8 matrices of 16-bit elements: a 16-byte row a lane.
struct matrices {
    static constexpr int elements = 8;
    static place at(int lane, int) { return {lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8}; }
};
// The accumulator of WGMMA, 8 x 8 of it: two neighbouring columns a lane.
struct accumulators {
    static constexpr int elements = 2;
    static place at(int lane, int) { return {lane / 4, lane % 4 * 2}; }
};
// Neighbouring columns along rows, a lane every `Step`; fewer columns are walked row after row.
template <int Elements, int Step = Elements>
struct vectors {
    static constexpr int elements = Elements;
    static place at(int lane, int tile_cols) {
        const int across = std::min(tile_cols / Step, num_lanes);
        return {lane / across, lane % across * Step};
    }
};
// The first 16 bytes of 8 fp32 columns a lane, as an epilogue reads them that works on 8 at once.
using eight_columns = vectors<4, 8>;
// One element a lane, along a row or down a column.
using row_walk = vectors<1>;
struct column_walk {
    static constexpr int elements = 1;
    static place at(int lane, int) { return {lane, 0}; }
};

// The most wavefronts that the pattern takes anywhere in a tile of type S, over the fewest.
template <shared_tile S, class Pattern>
double worst() {
    using T = typename S::dtype;
    const int bytes = Pattern::elements * int(sizeof(T));
    int most = 0;
    int rows = 0, cols = 0;  // that the pattern reaches over
    for (int lane = 0; lane < num_lanes; ++lane) {
        const place at = Pattern::at(lane, S::cols);
        rows = std::max(rows, at.row + 1);
        cols = std::max(cols, at.col + Pattern::elements);
    }
    for (int row = 0; row + rows <= S::rows; row += rows) {
        for (int col = 0; col + cols <= S::cols; col += cols) {
            access made{bytes, {}};
            for (int lane = 0; lane < num_lanes; ++lane) {
                const place at = Pattern::at(lane, S::cols);
                made.address[size_t(lane)] = S::offset(row + at.row, col + at.col) * int(sizeof(T));
            }
            most = std::max(most, wavefronts(made));
        }
    }
    return double(most) / fewest_wavefronts(bytes);
}

}  // namespace bank_conflicts

TK_NAMESPACE_END
