// Copies on the host without TMA: registers to shared memory, global memory of any strides to
// shared memory and registers, and register tiles parked in global memory.
#pragma once
#include "tk/arch/host/tile_access.hpp"
#include "tk/tile/gl.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <int Warps>
struct memory_ops {
    // Registers to shared memory, rounding to the tile's dtype. The shared tile has Warps times the
    // rows: 16-row block i of warp w is rows 16 (Warps i + w) onwards, as WGMMA has it.
    template <shared_tile S, class R>
    static void store(S& dst, const R& src) {
        static_assert(S::rows == R::rows * Warps && S::cols == R::cols,
                      "store: the shared tile must have the group's rows and columns");
        static_assert(sizeof(typename S::dtype) == 4 || R::cols % 16 == 0,
                      "store: columns must be a multiple of 16");
        for (int r = 0; r < R::rows; ++r) {
            const int row = (r / 16 * Warps + warp_index() % Warps) * 16 + r % 16;
            if (r % 16 == 0) machine::note_rows(dst, row, 16, true, "store");
            for (int col = 0; col < R::cols; ++col) {
                dst.data[S::offset(row, col)] =
                    convert<typename S::dtype>(src.data[r * R::cols + col]);
            }
        }
    }

    // Registers to global memory, rounding to its dtype and clipped to its rows and columns:
    // through two pieces of shared memory of the calling warp's own, by vectors of 16 bytes. The
    // tensor's columns are contiguous; base, strides and number of columns are multiples of 16
    // bytes. `at` is the corner of the group's tile.
    template <class T, class R, shared_tile S>
    static void store(const gl_view<T>& dst, const R& src, coord at, S* pieces) {
        static_assert(std::is_same_v<T, typename S::dtype>, "store: dtypes must be the same");
        static_assert(S::rows == 16 && R::cols % S::cols == 0,
                      "store: pieces have 16 rows and divide the columns");
        constexpr int width = 16 / int(sizeof(T)), col_pieces = R::cols / S::cols;
        for (int i = 0; i < R::row_blocks * col_pieces; ++i) {
            S& piece = pieces[i % 2];
            const int row_0 = at.row + (i / col_pieces * Warps + warp_index() % Warps) * 16;
            const int col_0 = at.col + i % col_pieces * S::cols;
            memory_ops<1>::store(piece, subtile<16, S::cols>(src, i / col_pieces, i % col_pieces));
            ++machine::self().clock.lane_meetings;
            machine::note_rows(piece, 0, 16, false, "store to global memory");
            for (int row = row_0; row < row_0 + 16 && row < dst.rows(); ++row) {
                for (int col = col_0; col < col_0 + S::cols && col < dst.cols(); col += width) {
                    T* to = dst.data + dst.offset(at.batch, at.depth, row, col);
                    if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || col + width > dst.cols()) {
                        machine::fail("store: a vector is not aligned, or crosses the last column");
                    }
                    std::memcpy(to, piece.data + S::offset(row - row_0, col - col_0), 16);
                }
            }
        }
        ++machine::self().clock.lane_meetings;
    }

    // f(row, col, values[8]) for every 8 neighbouring columns of a shared fp32 tile. Any warp of
    // the group may be given any of them: here not those that it wrote by `store`.
    template <shared_tile S, class F>
    static void for_each8(const S& src, bool /*rows_fastest*/, F&& f) {
        static_assert(std::is_same_v<typename S::dtype, float>, "for_each8: the tile must be fp32");
        machine::note_rows(src, 0, S::rows, false, "for_each8");
        const auto [first, last] = rows_of<S>((warp_index() + 1) % Warps);
        for (int row = first; row < last; ++row) {
            for (int col = 0; col < S::cols; col += 8) {
                float values[8];
                for (int i = 0; i < 8; ++i) values[i] = src.data[S::offset(row, col + i)];
                f(row, col, values);
            }
        }
    }

    // A tile of a tensor with any strides, 0 outside (rows, cols). Ordinary loads and stores: the
    // reader of an asynchronous proxy needs `fence_async_proxy`.
    template <class T, shared_tile S>
    static void load(S& dst, const gl_view<const T>& src, coord at) {
        static_assert(std::is_same_v<T, typename S::dtype>, "load: dtypes must be the same");
        const auto [first, last] = rows_of<S>(warp_index() % Warps);
        machine::note_rows(dst, first, last - first, true, "load");
        for (int row = first; row < last; ++row) {
            for (int col = 0; col < S::cols; ++col) {
                const bool inside = at.row + row < src.rows() && at.col + col < src.cols();
                dst.data[S::offset(row, col)] =
                    inside ? src.data[src.offset(at.batch, at.depth, at.row + row, at.col + col)]
                           : T(0.0f);
            }
        }
    }

    // Parks a register tile in global memory in the order in which the warps hold it, Rows * Cols
    // floats a warp, and sums `parts` of them that lie `stride` floats apart, the first one first.
    // Only the group's rows below `valid_rows` count.
    template <class R>
    static void store_fragment(float* dst, const R& src, int valid_rows) {
        for_fragments<R>(valid_rows, [&](int64_t at, int first) {
            machine::copy_bytes(dst + at, src.data + first, 16 * R::cols * sizeof(float));
        });
    }
    template <class R>
    static void sum_fragments(R& dst, const float* src, int parts, int64_t stride, int valid_rows) {
        for (float& value : dst.data) value = 0.0f;
        for (int part = 0; part < parts; ++part, src += stride) {
            for_fragments<R>(valid_rows, [&](int64_t at, int first) {
                for (int i = 0; i < 16 * R::cols; ++i) dst.data[first + i] += src[at + i];
            });
        }
    }

    // A number for other warps, in a word of shared memory, and its reading, for lane 0; whoever
    // reads must be told by a semaphore or a barrier.
    static void put(int& word, int value) {
        if (warp_index() % Warps != 0) return;
        machine::note_word(word, true, "put");
        word = value;
    }
    static int get(const int& word) {
        machine::note_word(word, false, "get");
        return word;
    }

  private:
    struct row_range {
        int first, last;
    };
    // The rows of a shared tile that a warp of the group takes in an operation on elements.
    template <shared_tile S>
    static row_range rows_of(int warp) {
        return {S::rows * warp / Warps, S::rows * (warp + 1) / Warps};
    }

    // f(offset in global memory, index into data) for each 16-row block of the calling warp.
    template <class R, class F>
    static void for_fragments(int valid_rows, F&& f) {
        const int warp = warp_index() % Warps;
        for (int i = 0; i < R::row_blocks; ++i) {
            if ((i * Warps + warp) * 16 >= valid_rows) continue;
            f(int64_t(i * Warps + warp) * 16 * R::cols, i * 16 * R::cols);
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
