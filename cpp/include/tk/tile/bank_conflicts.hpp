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

// The wavefronts that an access takes.
inline int wavefronts(const access& made) {
    const int words = std::max(made.bytes / bank_bytes, 1);
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

// The fewest that any access of so many bytes a lane takes.
constexpr int fewest_wavefronts(int bytes) { return bytes < bank_bytes ? 1 : bytes / bank_bytes; }

// --- Patterns: the lanes' places in a tile, from (row, col) on, and how far they reach. ---

struct place {
    int row, col;
};

// ldmatrix and stmatrix with four 8x8 matrices of 16-bit elements: a 16-byte row a lane.
struct matrices {
    static constexpr int rows = 16, cols = 16, elements = 8;
    static place at(int lane, int) { return {lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8}; }
};
// The accumulator of WGMMA, 8 x 8 of it: two neighbouring columns a lane.
struct accumulators {
    static constexpr int rows = 8, cols = 8, elements = 2;
    static place at(int lane, int) { return {lane / 4, lane % 4 * 2}; }
};
// 16-byte vectors along rows, row after row; a tile of fewer columns is walked over several rows.
template <int Elements>
struct vectors {
    static constexpr int rows = 0, cols = 0, elements = Elements;  // 0: as the tile has
    static place at(int lane, int tile_cols) {
        const int across = std::min(tile_cols / Elements, num_lanes);
        return {lane / across, lane % across * Elements};
    }
};
// The first 16 bytes of 8 fp32 columns a lane, as an epilogue reads them that works on 8 at once.
struct eight_columns {
    static constexpr int rows = 0, cols = 0, elements = 4;
    static place at(int lane, int tile_cols) {
        const int across = std::min(tile_cols / 8, num_lanes);
        return {lane / across, lane % across * 8};
    }
};
// One element a lane, along a row or down a column.
struct row_walk {
    static constexpr int rows = 0, cols = 0, elements = 1;
    static place at(int lane, int tile_cols) { return {lane / tile_cols, lane % tile_cols}; }
};
struct column_walk {
    static constexpr int rows = 32, cols = 1, elements = 1;
    static place at(int lane, int) { return {lane, 0}; }
};

// The most wavefronts that the pattern takes anywhere in a tile of type S, over the fewest.
template <shared_tile S, class Pattern>
double worst() {
    using T = typename S::dtype;
    const int bytes = Pattern::elements * int(sizeof(T));
    int most = 0;
    place reach{0, 0};  // of a pattern that follows the tile's columns
    for (int lane = 0; lane < num_lanes; ++lane) {
        const place at = Pattern::at(lane, S::cols);
        reach = {std::max(reach.row, at.row), std::max(reach.col, at.col)};
    }
    const int rows = Pattern::rows == 0 ? reach.row + 1 : Pattern::rows;
    const int cols = Pattern::cols == 0 ? reach.col + Pattern::elements : Pattern::cols;
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
