// Tile orders: which tile of a rows x cols grid is visited at a given place in the walk.
//
// Every kind is a bijection from [0, rows * cols) onto the grid. The closed forms cost two
// multiplications a tile; every other order (Hilbert, for example) travels as a table.
// `tk.schedulers.order` is the same in Python, and a test holds the two against each other.
#pragma once

#include <cstdint>

#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

/// How many tiles of that size cover `size` elements.
TK_HOST_DEVICE constexpr int covering(std::int64_t size, std::int64_t tile) {
    return static_cast<int>((size + tile - 1) / tile);
}

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

/// Division of numbers below 2^31 by a divisor known to the host: a multiplication and a shift on
/// the device (Granlund & Montgomery, "Division by invariant integers using multiplication", 1994).
struct fast_divider {
    std::uint32_t divisor = 1, multiplier = 0, shift = 0;

    fast_divider() = default;
    TK_HOST_DEVICE explicit fast_divider(std::uint32_t d) : divisor(d < 1 ? 1 : d) {
        std::uint32_t log = 0;
        while ((std::uint64_t(1) << log) < divisor) ++log;
        const std::uint64_t power = std::uint64_t(1) << (31 + log);
        multiplier = static_cast<std::uint32_t>((power + divisor - 1) / divisor);
        shift = log == 0 ? 0 : log - 1;
    }
    TK_HOST_DEVICE std::uint32_t divide(std::uint32_t x) const {
        if (divisor == 1) return x;
        return static_cast<std::uint32_t>((std::uint64_t(x) * multiplier) >> 32) >> shift;
    }
};

/// The walk over a grid of `rows` x `cols` tiles, with 0 < rows * cols < 2^31. Made on the host,
/// which prepares its divisions.
///
/// `param` is the width of a band for the grouped orders (values outside [1, rows] or [1, cols] are
/// clamped; the last band may be narrower) and is not read by the others. `table` is read by
/// order_table alone, which needs rows <= 32768 and cols <= 65536.
struct tile_order {
    int kind = order_row;
    int rows = 1, cols = 1;
    std::uint32_t width = 1;  // of a band; the other closed forms have no bands
    fast_divider line, band;  // tiles of a line; tiles of a full band
    fast_divider full, last;  // lines of a full band, and of the last one
    const std::int32_t* table = nullptr;

    tile_order() = default;
    TK_HOST_DEVICE tile_order(int kind_, int param, int rows_, int cols_,
                              const std::int32_t* table_)
        : kind(kind_), rows(rows_), cols(cols_), table(table_) {
        const bool by_columns = kind == order_column || kind == order_grouped_n;
        const int lines = by_columns ? cols : rows, length = by_columns ? rows : cols;
        width = static_cast<std::uint32_t>(param < 1 ? 1 : (param < lines ? param : lines));
        line = fast_divider(static_cast<std::uint32_t>(length));
        band = fast_divider(width * static_cast<std::uint32_t>(length));
        full = fast_divider(width);
        last = fast_divider(static_cast<std::uint32_t>(lines) % width);
    }

    /// The tile at place `index` of the walk; needs 0 <= index < rows * cols.
    TK_HOST_DEVICE tile_coord at(int index) const {
        const auto place = static_cast<std::uint32_t>(index);
        if (kind == order_grouped_m) return banded(place, rows);
        if (kind == order_grouped_n) {
            const tile_coord t = banded(place, cols);
            return {t.col, t.row};
        }
        if (kind == order_table) {
            const auto packed = static_cast<std::uint32_t>(table[index]);
            return {static_cast<int>(packed >> 16), static_cast<int>(packed & 0xffffu)};
        }
        const std::uint32_t number = line.divide(place);
        const std::uint32_t rest = place - number * line.divisor;
        if (kind == order_column) return {static_cast<int>(rest), static_cast<int>(number)};
        const bool reversed = kind == order_snake && (number & 1u) != 0;
        return {static_cast<int>(number),
                static_cast<int>(reversed ? line.divisor - 1 - rest : rest)};
    }

  private:
    // Inside a band of lines the line is fastest, then the place in the line: {line, place}.
    TK_HOST_DEVICE tile_coord banded(std::uint32_t index, int lines) const {
        const std::uint32_t number = band.divide(index);
        const std::uint32_t rest = index - number * band.divisor;
        const std::uint32_t first = number * width;
        const fast_divider& here = first + width <= static_cast<std::uint32_t>(lines) ? full : last;
        const std::uint32_t place = here.divide(rest);
        return {static_cast<int>(first + rest - place * here.divisor), static_cast<int>(place)};
    }
};

TK_NAMESPACE_END
