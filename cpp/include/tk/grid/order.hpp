// Tile orders: which tile of a rows x cols grid is visited at a given place in the walk.
//
// Every kind is a bijection from [0, rows * cols) onto the grid. The closed forms cost at most two
// 32-bit divisions a tile; every other order (Hilbert, for example) travels as a table.
// `tk.schedulers.order` is the same in Python, and a test holds the two against each other.
#pragma once

#include <cstdint>

#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

/// A tile's place in the grid, in tiles (with clusters: in cluster tiles).
struct tile_coord {
    int row;
    int col;
};

/// The codes that a plan carries; the names are those of `tk.schedulers.Order`.
enum order_kind : int {
    order_row = 0,        // column index fastest
    order_column = 1,     // row index fastest
    order_grouped_m = 2,  // bands of `param` rows; in a band the row index is fastest
    order_grouped_n = 3,  // bands of `param` columns; in a band the column index is fastest
    order_snake = 4,      // row order with every odd row reversed
    order_table = 5,      // table[index] = row << 16 | col
};

/// The walk over a grid of `rows` x `cols` tiles, with 0 < rows * cols < 2^31.
///
/// `param` is the width of a band for the grouped orders (values outside [1, rows] or [1, cols] are
/// clamped; the last band may be narrower) and is not read by the others. `table` is read by
/// order_table alone, which needs rows <= 32768 and cols <= 65536.
struct tile_order {
    int kind;
    int param;
    int rows;
    int cols;
    const std::int32_t* table;

    /// The tile at place `index` of the walk; needs 0 <= index < rows * cols.
    TK_HOST_DEVICE tile_coord at(int index) const {
        if (kind == order_grouped_m) return banded(index, rows, cols);
        if (kind == order_grouped_n) {
            const tile_coord t = banded(index, cols, rows);
            return {t.col, t.row};
        }
        if (kind == order_table) {
            const auto packed = static_cast<std::uint32_t>(table[index]);
            return {static_cast<int>(packed >> 16), static_cast<int>(packed & 0xffffu)};
        }
        // Row, column and snake: one division by the length of a line.
        const auto length = static_cast<std::uint32_t>(kind == order_column ? rows : cols);
        const std::uint32_t line = static_cast<std::uint32_t>(index) / length;
        const std::uint32_t place = static_cast<std::uint32_t>(index) - line * length;
        if (kind == order_column) return {static_cast<int>(place), static_cast<int>(line)};
        const bool reversed = kind == order_snake && (line & 1u) != 0;
        return {static_cast<int>(line), static_cast<int>(reversed ? length - 1 - place : place)};
    }

  private:
    // Bands of `param` lines out of `lines`; inside a band the line is fastest, then the place in
    // the line. Returns {line, place}. Unsigned, because unsigned division is the cheaper one.
    TK_HOST_DEVICE tile_coord banded(int index, int lines, int length) const {
        const int wanted = param < 1 ? 1 : (param < lines ? param : lines);
        const auto width = static_cast<std::uint32_t>(wanted);
        const std::uint32_t band_tiles = width * static_cast<std::uint32_t>(length);
        const std::uint32_t band = static_cast<std::uint32_t>(index) / band_tiles;
        const std::uint32_t rest = static_cast<std::uint32_t>(index) - band * band_tiles;
        const std::uint32_t first = band * width;
        const std::uint32_t left = static_cast<std::uint32_t>(lines) - first;
        const std::uint32_t lines_here = left < width ? left : width;
        const std::uint32_t place = rest / lines_here;
        return {static_cast<int>(first + rest - place * lines_here), static_cast<int>(place)};
    }
};

TK_NAMESPACE_END
