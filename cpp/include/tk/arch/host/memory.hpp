// Register tiles parked in global memory or sent to another block's shared memory, a shared tile
// eight columns at a time, and words in shared memory, on the host.
#pragma once
#include "tk/arch/host/send.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <int Warps>
struct memory_ops {
    // f(row, col, values[8]) for every 8 neighbouring columns of a shared fp32 tile. Any warp of
    // the group may be given any of them: here not those that it wrote by `store`.
    template <shared_tile S, class F>
    static void for_each8(const S& src, bool /*rows_fastest*/, F&& f) {
        static_assert(std::is_same_v<typename S::dtype, float>, "for_each8: the tile must be fp32");
        static_assert(S::swizzle_bytes > 0, "for_each8: the tile must have a swizzle");
        machine::note_rows(src, 0, S::rows, false, "for_each8");
        const int warp = (warp_index() + 1) % Warps;
        const int first = S::rows * warp / Warps, last = S::rows * (warp + 1) / Warps;
        for (int row = first; row < last; ++row) {
            for (int col = 0; col < S::cols; col += 8) {
                float values[8];
                for (int i = 0; i < 8; ++i) values[i] = src.data[S::offset(row, col + i)];
                f(row, col, values);
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

    // Sends a register tile to block `rank` of the cluster, into the memory that lies there where
    // `dst` lies here, and completes its bytes at that block's semaphore, which must expect them:
    // those of its warps that have a row below `valid_rows`. Asynchronous: nobody need wait here.
    // The block there must not have exited.
    template <class R>
    static void send_fragment(float* dst, const R& src, int rank, semaphore& arrived,
                              int valid_rows,
                              const std::source_location where = std::source_location::current()) {
        if (machine::sabotage::drops("send_fragment", where)) return;
        for_fragments<R>(valid_rows, [&](int64_t at, int first) {
            machine::send(
                dst + at, src.data + first, 16 * R::cols * int64_t(sizeof(float)), rank, arrived,
                "send_fragment", +[] { return std::string("a part"); });
        });
    }
    // Adds `parts` of them, `stride` floats apart in this block's memory, the first one first.
    template <class R>
    static void add_fragments(R& dst, const float* src, int parts, int stride, int valid_rows) {
        for (int part = 0; part < parts; ++part, src += stride) {
            for_fragments<R>(valid_rows, [&](int64_t at, int first) {
                machine::note_bytes(
                    src + at, 16 * R::cols * int64_t(sizeof(float)), false, "add_fragments",
                    +[] { return std::string("a part"); });
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
    // f(offset in memory, index into data) for each 16-row block of the calling warp.
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
