// Where the lanes of a warp are at work in a tile, as plain functions of the lane: what the copies
// of sm90 go by, and what bank_conflicts.hpp counts on the host.
#pragma once
#include "tk/tile/register_layout.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

struct place {
    int row, col;
};

// The element of a register tile in block (across, along) of a lane: the upper or the lower half of
// the 16 across, and which of its `Neighbours` along.
template <bool IsRow, int Neighbours>
TK_HOST_DEVICE constexpr place fragment_place(int lane, int across, int along, int upper,
                                              int neighbour) {
    const int of_across = across * 16 + upper * 8 + lane / 4;
    const int of_along = (along * 4 + lane % 4) * Neighbours + neighbour;
    return IsRow ? place{of_across, of_along} : place{of_along, of_across};
}

// How many rows of the group's tile row `row` of a warp's part is below the part's first: 16-row
// block i of a warp is block Warps i of the group's from there, as WGMMA deals them out.
template <int Warps>
TK_HOST_DEVICE constexpr int dealt_rows(int row) {
    return row / 16 * 16 * Warps + row % 16;
}

// ldmatrix and stmatrix of blocks (across, along) and (across, along + 1): the first element of the
// 16 bytes whose address lane l gives, row l % 8 of matrix l / 8. Odd matrices are the upper half
// across, matrices 2 and 3 the next block along; `Along` elements make a block of the row layout.
template <bool IsRow, int Along>
TK_HOST_DEVICE constexpr place matrix_place(int lane, int across, int along) {
    const int half = lane / 8 % 2, next = lane / 16, row = lane % 8;
    return IsRow ? place{across * 16 + half * 8 + row, (along + next) * Along}
                 : place{(along + next) * 8 + row, across * 16 + half * 8};
}

// fp32 pairs of the row layout: the bits that an odd one of two rows changes in the number of the
// block along. Of the four rows that half a warp accesses at once, rows 2 i and 2 i + 1 have the
// same two units of 16 bytes in the swizzle of 128 bytes, rows i and i + 2 in that of 64; the one
// takes another block then, of as many as a panel has.
template <int SwizzleBytes, int Blocks>
inline constexpr int exchanged_blocks = SwizzleBytes == 128 && Blocks % 4 == 0  ? 2
                                        : SwizzleBytes == 64 && Blocks % 2 == 0 ? 1
                                                                                : 0;
// Parts of a tile may be narrower, or wider by less. Their lanes access a pair one by one, and
// those of the odd rows its second number first: all eight rows are accessed at once then, four of
// them in the even and four in the odd banks.
template <int SwizzleBytes, int Blocks>
inline constexpr bool exchanges_neighbours =
    SwizzleBytes >= 64 && exchanged_blocks<SwizzleBytes, Blocks> == 0;
template <int SwizzleBytes>
TK_HOST_DEVICE constexpr bool is_exchanging_lane(int lane) {
    return lane / (SwizzleBytes == 128 ? 4 : 8) % 2 == 1;
}

// The `Width` columns that are the i-th of a tile that a group shares out, in the order in which
// they lie in memory: panel after panel of `Panel` columns, so that neighbouring lanes have
// neighbouring banks. With Panel = Cols row by row, as global memory has them.
template <int Width, int Rows, int Panel>
TK_HOST_DEVICE constexpr place dealt_place(int i) {
    constexpr int across = Panel / Width;
    return {i / across % Rows, i / across / Rows * Panel + i % across * Width};
}
// The same with neighbouring lanes in neighbouring rows.
template <int Width, int Rows>
TK_HOST_DEVICE constexpr place dealt_place_by_rows(int i) {
    return {i % Rows, i / Rows * Width};
}

// Eight fp32 columns a lane are two units of 16 bytes. Lanes of one row have every second unit of a
// panel of 32 columns, and the next panel's lanes the same banks: they take theirs in the other
// order. Which unit lane takes first, of the eight columns from `col`.
template <int PanelCols>
TK_HOST_DEVICE constexpr int first_unit(int col) {
    return col / PanelCols % 2;
}

// The bytes from the start of a panel of `SwizzleBytes` to place `at` in it: the swizzle moves
// units of 16 bytes by the row alone, so that the compiler sees through it where the row is a
// lane's.
template <int SwizzleBytes>
TK_HOST_DEVICE constexpr uint32_t swizzled_bytes(place at, int bytes_per_element) {
    const uint32_t row = uint32_t(at.row) * SwizzleBytes;
    const uint32_t moved = row / 8 & uint32_t(SwizzleBytes - 16);
    return row + (uint32_t(at.col * bytes_per_element) ^ moved);
}

// Which element of a vector the index-th of a lane's `elements` is, and how many a lane has of
// `length`.
template <vector_layout Layout>
TK_HOST_DEVICE constexpr int vector_place(int lane, int index, [[maybe_unused]] int elements = 0) {
    return Layout == vector_layout::naive       ? index * 32 + lane
           : Layout == vector_layout::aligned   ? index / 2 * 8 + lane % 4 * 2 + index % 2
           : Layout == vector_layout::aligned_4 ? index / 4 * 16 + lane % 4 * 4 + index % 4
           : Layout == vector_layout::units     ? lane * elements + index
                                                : index * 8 + lane / 4;
}
template <vector_layout Layout>
TK_HOST_DEVICE constexpr int vector_elements(int length) {
    return Layout == vector_layout::naive        ? (length + 31) / 32
           : Layout == vector_layout::orthogonal ? length / 8
           : Layout == vector_layout::units      ? length / 32
                                                 : length / 4;
}

}  // namespace detail

TK_NAMESPACE_END
