// How a warp's lanes share a register tile or vector.
//
// The unit is the fragment of the tensor cores (PTX ISA, "Matrix fragments for mma.m16n8k16"): with
// g = lane / 4 and q = lane % 4, a lane holds rows g and g + 8 of every 16 rows, and of every 8
// columns those from 2 q (of every 16 columns of 8-bit elements, the 4 from 4 q). That is the row
// layout, of accumulators and of the left operand. The column layout is the same with rows and
// columns exchanged: the right operand of a b.
#pragma once
#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

enum class register_layout { row, col };
inline constexpr register_layout row_layout = register_layout::row;
inline constexpr register_layout col_layout = register_layout::col;

// A vector lies in the lanes in the way of the tile that it goes with:
//   aligned     with what neighbouring lanes share: the row vector of a row layout. Of every 8
//               elements a lane holds those from 2 q; lanes of one q hold the same.
//   orthogonal  across it: the column vector of a row layout. Of every 16 elements a lane holds
//               g and g + 8; lanes of one g hold the same.
//   aligned_4   aligned to 8-bit elements, of which a lane holds four side by side: of every 16
//               elements those from 4 q.
//   naive       element i in lane i % 32, once.
//   units       32 units of equal length, unit i in lane i, once: what a lane moves as a vector of
//               memory. (The others are for what goes with a tile.)
enum class vector_layout { naive, aligned, orthogonal, aligned_4, units };

namespace detail {

template <class T>
inline constexpr int neighbours =
    sizeof(T) == 1 ? 4 : 2;  // elements that a lane holds side by side

template <class T>
inline constexpr vector_layout aligned_to =
    neighbours<T> == 4 ? vector_layout::aligned_4 : vector_layout::aligned;

template <element T, int Rows, int Cols, register_layout Layout>
constexpr bool is_register_tile() {
    constexpr int across = Layout == row_layout ? Rows : Cols;
    constexpr int along = Layout == row_layout ? Cols : Rows;
    static_assert(Rows > 0 && Cols > 0, "rt: there must be rows and columns");
    static_assert(across % 16 == 0,
                  "rt: rows must be a multiple of 16 (columns, in the column layout)");
    static_assert(along % (sizeof(T) == 1 ? 32 : 8) == 0,
                  "rt: columns must be a multiple of 8, of 32 for 8-bit elements (rows, in the "
                  "column layout)");
    return true;
}

template <int Length, vector_layout Layout>
constexpr bool is_register_vector() {
    static_assert(Layout == vector_layout::naive || Length % 8 == 0,
                  "rv: the length must be a multiple of 8");
    static_assert((Layout != vector_layout::orthogonal && Layout != vector_layout::aligned_4) ||
                      Length % 16 == 0,
                  "rv: the length of an orthogonal or aligned_4 vector must be a multiple of 16");
    static_assert(Layout != vector_layout::units || Length % 32 == 0,
                  "rv: the length of a vector of units must be a multiple of 32");
    return true;
}

}  // namespace detail

TK_NAMESPACE_END
