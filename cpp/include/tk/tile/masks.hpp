// Masks of register tiles: elements on one side of a line become `fill`, the others stay.
//
// Places are of the group's tile: row r of a warpgroup's is row r of its 64, and so on. `row_0` and
// `col_0` say where that tile lies in the matrix that the line is drawn through.
#pragma once
#include "tk/tile/maps.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <int Warps>
struct mask_ops {
    // dst = keep(row, col) ? src : fill.
    template <register_tile D, register_tile A, class Keep>
    static TK_DEVICE void mask(D& dst, const A& src, float fill, Keep&& keep) {
        map_ops<Warps>::apply(dst, src,
                              [&](int row, int col, float x) { return keep(row, col) ? x : fill; });
    }

    // Keeps key `col_0 + col` for query `row_0 + row` where it comes no later, once the queries are
    // moved on by `offset`: the number of keys less that of queries aligns the last with the last.
    template <class D, class A>
    static TK_DEVICE void make_causal(D& dst, const A& src, float fill, int row_0 = 0,
                                      int col_0 = 0, int offset = 0) {
        // Two places' difference is an int; an offset may be any number.
        const int last = offset == 0 ? near(row_0 - col_0) : near(int64_t(row_0) + offset - col_0);
        below(dst, src, last, fill);
    }
    // Keeps the keys from `left` before to `right` after the query; a negative number: no limit.
    template <class D, class A>
    static TK_DEVICE void make_window(D& dst, const A& src, float fill, int left, int right,
                                      int row_0 = 0, int col_0 = 0, int offset = 0) {
        const int64_t shift = int64_t(row_0) + offset - col_0;
        const int first = left < 0 ? -no_limit : near(shift - left);
        const int last = right < 0 ? no_limit : near(shift + right);
        mask_steps(dst, src, fill, [&](place from) {
            const int ahead = from.col - from.row;
            return [first = first - ahead, last = last - ahead](int row, int col) {
                return col - row >= first && col - row <= last;
            };
        });
    }
    // The lower triangle with `diagonal` diagonals above the main one, and the upper one from there
    // on, as torch.tril and torch.triu.
    template <class D, class A>
    static TK_DEVICE void tril(D& dst, const A& src, int diagonal = 0, float fill = 0.0f) {
        below(dst, src, near(diagonal), fill);
    }
    template <class D, class A>
    static TK_DEVICE void triu(D& dst, const A& src, int diagonal = 0, float fill = 0.0f) {
        mask_steps(dst, src, fill, [&](place from) {
            return [first = near(diagonal) - (from.col - from.row)](int row, int col) {
                return col - row >= first;
            };
        });
    }
    // Fills the columns left of `col`, those from `col` on, the rows above `row`, those from `row`
    // on.
    template <class D, class A>
    static TK_DEVICE void left_fill(D& dst, const A& src, int col, float fill = 0.0f) {
        mask_steps(dst, src, fill, [&](place from) {
            return [first = near(col) - from.col](int, int c) { return c >= first; };
        });
    }
    template <class D, class A>
    static TK_DEVICE void right_fill(D& dst, const A& src, int col, float fill = 0.0f) {
        mask_steps(dst, src, fill, [&](place from) {
            return [end = near(col) - from.col](int, int c) { return c < end; };
        });
    }
    template <class D, class A>
    static TK_DEVICE void upper_fill(D& dst, const A& src, int row, float fill = 0.0f) {
        mask_steps(dst, src, fill, [&](place from) {
            return [first = near(row) - from.row](int r, int) { return r >= first; };
        });
    }
    template <class D, class A>
    static TK_DEVICE void lower_fill(D& dst, const A& src, int row, float fill = 0.0f) {
        mask_steps(dst, src, fill, [&](place from) {
            return [end = near(row) - from.row](int r, int) { return r < end; };
        });
    }

  private:
    // Beyond every place of a tile, and so far from the largest number that differences hold.
    static constexpr int no_limit = 1 << 30;
    // A line's place: the same for a tile as that of one further off.
    static TK_DEVICE int near(int64_t place) {
        return int(place < -no_limit ? -no_limit : place > no_limit ? no_limit : place);
    }
    static TK_DEVICE int near(int place) {
        return place < -no_limit ? -no_limit : place > no_limit ? no_limit : place;
    }

    template <class D, class A>
    static TK_DEVICE void below(D& dst, const A& src, int diagonal, float fill) {
        mask_steps(dst, src, fill, [&](place from) {
            return [last = diagonal - (from.col - from.row)](int row, int col) {
                return col - row <= last;
            };
        });
    }

    // `keep_from(first place)` gives keep(rows, columns from there): the place's part that depends
    // on the lane goes once into what is compared with, and the rest are numbers in the code.
    template <register_tile D, register_tile A, class F>
    static TK_DEVICE void mask_steps(D& dst, const A& src, float fill, F&& keep_from) {
        check_places<D, A>();
        place from = D::first_place();
        from.row = group_row<Warps>(from.row);
        const auto keep = keep_from(from);
        float values[D::elements];
        D::for_each_step([&](int i, int row, int col) {
            values[i] = keep(dealt_rows<Warps>(row), col) ? value_of(src, i) : fill;
        });
        assign(dst, [&](int i) { return values[i]; });
    }
};

}  // namespace detail

TK_NAMESPACE_END
