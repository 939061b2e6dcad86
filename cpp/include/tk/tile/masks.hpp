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
        const int shift = row_0 + offset - col_0;
        mask(dst, src, fill, [&](int row, int col) { return col <= row + shift; });
    }
    // Keeps the keys from `left` before to `right` after the query; a negative number: no limit.
    template <class D, class A>
    static TK_DEVICE void make_window(D& dst, const A& src, float fill, int left, int right,
                                      int row_0 = 0, int col_0 = 0, int offset = 0) {
        const int shift = row_0 + offset - col_0;
        mask(dst, src, fill, [&](int row, int col) {
            const int behind = row + shift - col;
            return (left < 0 || behind <= left) && (right < 0 || -behind <= right);
        });
    }
    // The lower triangle with `diagonal` diagonals above the main one, and the upper one from there
    // on, as torch.tril and torch.triu.
    template <class D, class A>
    static TK_DEVICE void tril(D& dst, const A& src, int diagonal = 0, float fill = 0.0f) {
        mask(dst, src, fill, [&](int row, int col) { return col - row <= diagonal; });
    }
    template <class D, class A>
    static TK_DEVICE void triu(D& dst, const A& src, int diagonal = 0, float fill = 0.0f) {
        mask(dst, src, fill, [&](int row, int col) { return col - row >= diagonal; });
    }
    // Fills the columns left of `col`, those from `col` on, the rows above `row`, those from `row`
    // on.
    template <class D, class A>
    static TK_DEVICE void left_fill(D& dst, const A& src, int col, float fill = 0.0f) {
        mask(dst, src, fill, [&](int, int c) { return c >= col; });
    }
    template <class D, class A>
    static TK_DEVICE void right_fill(D& dst, const A& src, int col, float fill = 0.0f) {
        mask(dst, src, fill, [&](int, int c) { return c < col; });
    }
    template <class D, class A>
    static TK_DEVICE void upper_fill(D& dst, const A& src, int row, float fill = 0.0f) {
        mask(dst, src, fill, [&](int r, int) { return r >= row; });
    }
    template <class D, class A>
    static TK_DEVICE void lower_fill(D& dst, const A& src, int row, float fill = 0.0f) {
        mask(dst, src, fill, [&](int r, int) { return r < row; });
    }
};

}  // namespace detail

TK_NAMESPACE_END
