// How the lanes of a group copy a shared tile of 16-bit elements from and to global memory of any
// strides: plain functions of the lane, which sm90 runs and a test on the host runs for every lane.
// A lane works out its columns and places once; from row to row it adds a constant.
#pragma once
#include <numeric>

#include "tk/tile/lane_places.hpp"
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// A tensor's matrix seen from the corner of a tile: where the corner is, and which of the tile's
// rows and columns are inside of the tensor, from the first one to the one before the last.
template <class T>
struct strided_matrix {
    T* corner;
    int64_t row_stride, col_stride;
    int first_row, last_row, first_col, last_col;

    template <class G>
    TK_HOST_DEVICE strided_matrix(const G& tensor, coord at, int rows, int cols)
        : corner(tensor.data + tensor.offset(at)),
          row_stride(tensor.row_stride),
          col_stride(tensor.col_stride) {
        // A batch or a depth outside of the tensor has no matrix.
        const bool exists = uint64_t(at.batch) < uint64_t(tensor.batch()) &&
                            uint64_t(at.depth) < uint64_t(tensor.depth());
        first_row = clamp(-int64_t(at.row), 0, rows), first_col = clamp(-int64_t(at.col), 0, cols);
        last_row = exists ? clamp(tensor.rows() - at.row, first_row, rows) : first_row;
        last_col = exists ? clamp(tensor.cols() - at.col, first_col, cols) : first_col;
    }
    TK_HOST_DEVICE bool covers(int rows, int cols) const {
        return first_row == 0 && last_row == rows && first_col == 0 && last_col == cols;
    }
    TK_HOST_DEVICE bool has(int row, int col) const {
        return row >= first_row && row < last_row && col >= first_col && col < last_col;
    }
    // The largest power of two, 16 at most, of which the address of every row's first column is a
    // multiple.
    TK_HOST_DEVICE int row_alignment() const {
        const uint64_t bits =
            uint64_t(reinterpret_cast<uintptr_t>(corner)) | uint64_t(row_stride) * sizeof(T) | 16;
        return int(bits & (~bits + 1));
    }

  private:
    static TK_HOST_DEVICE int clamp(int64_t x, int low, int high) {
        return x < low ? low : x > high ? high : int(x);
    }
};

template <class T, int Count>
struct alignas(Count * sizeof(T)) strided_unit {
    T data[Count];
};

// Tiles that it takes: what lies together is 16 bytes, and the swizzle repeats after 8 rows. A
// power of two of lanes shares them.
template <class S, class T, int Lanes>
concept strided_tile =
    shared_tile<S> && sizeof(T) == 2 && std::is_same_v<std::remove_const_t<T>, typename S::dtype> &&
    S::rows % 8 == 0 && S::cols % 8 == 0 && (Lanes & (Lanes - 1)) == 0;

// `Loads`: into the shared tile, else out of it. T is the tensor's element, const for a load.
template <bool Loads, class T, int Lanes, strided_tile<T, Lanes> S>
struct strided_copy {
    using value = std::remove_const_t<T>;
    using shared = std::conditional_t<Loads, value, const value>;
    using matrix = strided_matrix<T>;
    // A lane loads so much before its first store: the latency of memory is met once or twice a
    // tile. Of a 128 x 64 tile shared by a warpgroup that is half a tile's registers or all.
    static constexpr int registers_in_flight = 64;
    static constexpr int panel_row = S::panel_cols;       // from a row to the next one of its panel
    static constexpr int across = std::gcd(S::cols, 64);  // columns of one sweep down the rows

    // Copies lane `lane`'s part; which lanes have which part depends on the strides.
    template <class Tile>
    static TK_HOST_DEVICE void run(Tile& tile, const matrix& global, int lane) {
        const bool whole = global.covers(S::rows, S::cols);
        if (whole && global.col_stride == 1) {
            const int alignment = global.row_alignment();
            if (alignment == 16) {
                by_rows<8, 8>(tile, global, lane);
            } else if (alignment == 8) {
                by_rows<4, 4>(tile, global, lane);
            } else if (alignment == 4) {
                by_rows<2, 2>(tile, global, lane);
            } else {
                by_rows<2, 1>(tile, global, lane);
            }
        } else if (whole && global.row_stride == 1) {
            by_cols<true>(tile, global, lane);
        } else if (size_of(global.row_stride) < size_of(global.col_stride)) {
            by_cols<false>(tile, global, lane);
        } else {
            by_rows<2, 0>(tile, global, lane);
        }
    }

  private:
    static TK_HOST_DEVICE uint64_t size_of(int64_t stride) {
        return stride < 0 ? uint64_t(-stride) : uint64_t(stride);
    }
    static constexpr int batch_of(int passes, int registers_each) {
        const int most = registers_in_flight / registers_each;
        return passes <= most ? passes : std::gcd(passes, most);
    }
    template <int Count>
    static TK_HOST_DEVICE auto& unit_at(shared* place) {
        using unit = strided_unit<value, Count>;
        return *reinterpret_cast<std::conditional_t<Loads, unit, const unit>*>(place);
    }

    // Neighbouring lanes take neighbouring columns, `Width` each: a warp reads whole rows, of 128
    // bytes where the tile has as many. `Together` of a lane's columns are a word of global memory,
    // in a tile that is all inside; 0: any column stride, and any part of the tile is outside.
    template <int Width, int Together, class Tile>
    static TK_HOST_DEVICE void by_rows(Tile& tile, const matrix& global, int lane) {
        constexpr bool whole = Together > 0;
        constexpr int word = whole ? Together : 1, words = Width / word;
        constexpr int lanes_across = across / Width, rows_at_once = Lanes / lanes_across;
        constexpr int passes = (S::rows + rows_at_once - 1) / rows_at_once;
        constexpr bool is_even = S::rows % rows_at_once == 0;
        constexpr int period = rows_at_once < 8 ? 8 / rows_at_once : 1;  // of the swizzle
        constexpr int batch = batch_of(passes, word == 1 ? words : Width / 2);
        static_assert(passes == batch || batch % period == 0);
        using unit = strided_unit<value, Width>;

        const int row = lane / lanes_across;
        const int64_t step = rows_at_once * global.row_stride;
        const int64_t col_stride = whole ? 1 : global.col_stride;
        TK_NO_UNROLL
        for (int begin = 0; begin < S::cols; begin += across) {
            const int col = begin + lane % lanes_across * Width;
            int places[period];
            TK_UNROLL
            for (int i = 0; i < period; ++i) places[i] = tile.index(row + i * rows_at_once, col);
            T* at = global.corner + row * global.row_stride + col * col_stride;
            // Of this lane's columns, how many rows there are from the first one inside.
            unsigned rows_inside[words];
            TK_UNROLL
            for (int i = 0; i < words; ++i) {
                const bool inside = col + i >= global.first_col && col + i < global.last_col;
                rows_inside[i] = inside ? unsigned(global.last_row - global.first_row) : 0u;
            }
            TK_NO_UNROLL
            for (int first = 0; first < passes; first += batch, at += batch * step) {
                unit values[batch];
                const auto in_tile = [&](int b) {
                    return is_even || row + (first + b) * rows_at_once < S::rows;
                };
                const auto in_global = [&](int b, int i) {
                    const int below = row + (first + b) * rows_at_once - global.first_row;
                    return whole ? in_tile(b) : unsigned(below) < rows_inside[i];
                };
                const auto place = [&](int b) {
                    const int rows = (first + b / period * period) * rows_at_once;
                    return tile.data + places[b % period] + rows * panel_row;
                };
                const auto each_word = [&](auto&& f) {
                    T* from = at;
                    TK_UNROLL
                    for (int b = 0; b < batch; ++b, from += step) {
                        T* column = from;
                        TK_UNROLL
                        for (int i = 0; i < words; ++i, column += word * col_stride) {
                            f(values[b].data + i * word, column, in_global(b, i));
                        }
                    }
                };
                if constexpr (Loads) {
                    each_word([](value* to, const value* from, bool inside) {
                        using part = strided_unit<value, word>;
                        part read{};
                        if (inside) read = *reinterpret_cast<const part*>(from);
                        TK_UNROLL
                        for (int i = 0; i < word; ++i) to[i] = read.data[i];
                    });
                    TK_UNROLL
                    for (int b = 0; b < batch; ++b) {
                        if (in_tile(b)) unit_at<Width>(place(b)) = values[b];
                    }
                } else {
                    TK_UNROLL
                    for (int b = 0; b < batch; ++b) {
                        if (in_tile(b)) values[b] = unit_at<Width>(place(b));
                    }
                    each_word([](const value* from, value* to, bool inside) {
                        using part = strided_unit<value, word>;
                        part written;
                        TK_UNROLL
                        for (int i = 0; i < word; ++i) written.data[i] = from[i];
                        if (inside) *reinterpret_cast<part*>(to) = written;
                    });
                }
            }
        }
    }

    // Neighbouring lanes take neighbouring rows, eight columns each, which are 16 bytes of the
    // tile: global memory is read along its rows, and no two of eight lanes meet in a bank. Whole:
    // rows are contiguous and the tile is all inside, so that rows 32 apart share their addresses.
    template <bool Whole, class Tile>
    static TK_HOST_DEVICE void by_cols(Tile& tile, const matrix& global, int lane) {
        constexpr int row_lanes = std::gcd(S::rows, 32), chunks = S::rows / row_lanes;
        constexpr int units = S::cols / 8, units_at_once = Lanes / row_lanes;
        constexpr int batch = batch_of(chunks, 8);
        constexpr int together =
            Whole && units % (2 * units_at_once) == 0 && 2 * batch * 8 <= registers_in_flight
                ? 2
                : 1;  // units of 8 columns
        using unit = strided_unit<value, 8>;

        const int row = lane % row_lanes;
        const int64_t row_stride = Whole ? 1 : global.row_stride;
        TK_NO_UNROLL
        for (int u = lane / row_lanes; u < units; u += together * units_at_once) {
            int places[together];
            TK_UNROLL
            for (int j = 0; j < together; ++j) {
                places[j] = tile.index(row, (u + j * units_at_once) * 8);
            }
            T* at = global.corner + row * row_stride + u * 8 * global.col_stride;
            TK_NO_UNROLL
            for (int first = 0; first < chunks;
                 first += batch, at += batch * row_lanes * row_stride) {
                unit values[together][batch];
                const auto each_element = [&](auto&& f) {
                    TK_UNROLL
                    for (int j = 0; j < together; ++j) {
                        T* column = at + j * units_at_once * 8 * global.col_stride;
                        TK_UNROLL
                        for (int i = 0; i < 8; ++i, column += global.col_stride) {
                            const int col = (u + j * units_at_once) * 8 + i;
                            const bool has_col = col >= global.first_col && col < global.last_col;
                            const unsigned rows_inside =
                                has_col ? unsigned(global.last_row - global.first_row) : 0u;
                            T* element = column;
                            TK_UNROLL
                            for (int b = 0; b < batch; ++b, element += row_lanes * row_stride) {
                                const int below = row + (first + b) * row_lanes - global.first_row;
                                f(values[j][b].data[i], element,
                                  Whole || unsigned(below) < rows_inside);
                            }
                        }
                    }
                };
                const auto each_unit = [&](auto&& f) {
                    TK_UNROLL
                    for (int j = 0; j < together; ++j) {
                        TK_UNROLL
                        for (int b = 0; b < batch; ++b) {
                            f(values[j][b], unit_at<8>(tile.data + places[j] +
                                                       (first + b) * row_lanes * panel_row));
                        }
                    }
                };
                if constexpr (Loads) {
                    each_element([](value& to, const value* from, bool inside) {
                        to = value{};
                        if (inside) to = *from;
                    });
                    each_unit([](const unit& from, unit& to) { to = from; });
                } else {
                    each_unit([](unit& to, const unit& from) { to = from; });
                    each_element([](const value& from, value* to, bool inside) {
                        if (inside) *to = from;
                    });
                }
            }
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
