// Register tiles parked in global memory or sent to another block's shared memory, a shared tile
// eight columns at a time, and words in shared memory, on sm90.
#pragma once
#include "tk/arch/sm90/sync.hpp"
#include "tk/tile/lane_places.hpp"
#include "tk/tile/register_tile.hpp"
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <int Warps>
struct memory_ops {
    // f(row, col, values[8]) for every 8 neighbouring columns of a shared fp32 tile. Lanes take
    // neighbouring columns, or neighbouring rows. A loop: not for what must be fast.
    template <shared_tile S, class F>
    static TK_DEVICE void for_each8(const S& src, bool rows_fastest, F&& f) {
        static_assert(std::is_same_v<typename S::dtype, float>, "for_each8: the tile must be fp32");
        static_assert(S::swizzle_bytes > 0, "for_each8: the tile must have a swizzle");
        TK_NO_UNROLL
        for (int i = int(threadIdx.x) % (Warps * 32); i < S::rows * S::cols / 8; i += Warps * 32) {
            const auto [row, col] = rows_fastest ? dealt_place_by_rows<8, S::rows>(i)
                                                 : dealt_place<8, S::rows, S::cols>(i);
            // Lanes of the next panel begin with the second half: the first would meet the others'.
            const bool swaps =
                S::cols > S::panel_cols && !rows_fastest && first_unit<S::panel_cols>(col) == 1;
            const int offset = S::offset(row, col), begin = offset ^ (swaps ? 4 : 0);
            const float4 a = *reinterpret_cast<const float4*>(src.data + begin);
            const float4 b = *reinterpret_cast<const float4*>(src.data + (begin ^ 4));
            float values[8] = {swaps ? b.x : a.x, swaps ? b.y : a.y, swaps ? b.z : a.z,
                               swaps ? b.w : a.w, swaps ? a.x : b.x, swaps ? a.y : b.y,
                               swaps ? a.z : b.z, swaps ? a.w : b.w};
            f(row, col, values);
        }
    }

    // Parks a register tile in global memory in the order in which the lanes hold it, Rows * Cols
    // floats a warp, and sums `parts` of them that lie `stride` floats apart, the first one first.
    // Only the group's rows below `valid_rows` count.
    template <class R>
    static TK_DEVICE void store_fragment(float* dst, const R& src, int valid_rows) {
        for_fragments<R>(valid_rows, [&](int at, int first) {
            __stcg(reinterpret_cast<float4*>(dst + at),
                   make_float4(src.data[first], src.data[first + 1], src.data[first + 2],
                               src.data[first + 3]));
        });
    }
    template <class R>
    static TK_DEVICE void sum_fragments(R& dst, const float* src, int parts, int64_t stride,
                                        int valid_rows) {
        // A trip through L2 takes longer than the sum: the smaller the tile, the more parts a trip.
        constexpr int together = R::elements <= 16 ? 4 : R::elements <= 64 ? 2 : 1;
        TK_UNROLL
        for (float& value : dst.data) value = 0.0f;
        TK_NO_UNROLL
        for (int part = 0; part < parts; part += together, src += together * stride) {
            for_fragments<R>(valid_rows, [&](int at, int first) {
                float4 values[together];
                TK_UNROLL
                for (int p = 0; p < together; ++p) {
                    values[p] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (part + p < parts) {
                        values[p] = __ldcg(reinterpret_cast<const float4*>(src + p * stride + at));
                    }
                }
                TK_UNROLL
                for (int p = 0; p < together; ++p) {
                    dst.data[first] += values[p].x, dst.data[first + 1] += values[p].y;
                    dst.data[first + 2] += values[p].z, dst.data[first + 3] += values[p].w;
                }
            });
        }
    }

    // Sends a register tile to block `rank` of the cluster, into the memory that lies there where
    // `dst` lies here, and completes its bytes at that block's semaphore, which must expect them:
    // those of its warps that have a row below `valid_rows` (PTX ISA, "st.async"). Asynchronous:
    // nobody need wait here. The block there must not have exited.
    template <class R>
    static TK_DEVICE void send_fragment(float* dst, const R& src, int rank, semaphore& arrived,
                                        int valid_rows) {
        uint32_t to, told;
        asm("mapa.shared::cluster.u32 %0, %1, %2;"
            : "=r"(to)
            : "r"(shared_address(dst)), "r"(rank));
        asm("mapa.shared::cluster.u32 %0, %1, %2;"
            : "=r"(told)
            : "r"(shared_address(&arrived)), "r"(rank));
        for_fragments<R>(valid_rows, [&](int at, int first) {
            asm volatile(
                "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], "
                "{%1, %2, %3, %4}, [%5];" ::"r"(to + at * 4),
                "f"(src.data[first]), "f"(src.data[first + 1]), "f"(src.data[first + 2]),
                "f"(src.data[first + 3]), "r"(told)
                : "memory");
        });
    }
    // Adds `parts` of them, `stride` floats apart in this block's memory, the first one first.
    template <class R>
    static TK_DEVICE void add_fragments(R& dst, const float* src, int parts, int stride,
                                        int valid_rows) {
        TK_NO_UNROLL
        for (int part = 0; part < parts; ++part, src += stride) {
            for_fragments<R>(valid_rows, [&](int at, int first) {
                const float4 more = *reinterpret_cast<const float4*>(src + at);
                dst.data[first] += more.x, dst.data[first + 1] += more.y;
                dst.data[first + 2] += more.z, dst.data[first + 3] += more.w;
            });
        }
    }

    // A number for other warps, in a word of shared memory, and its reading, for lane 0; whoever
    // reads must be told by a semaphore or a barrier.
    static TK_DEVICE void put(int& word, int value) {
        if (int(threadIdx.x) % (Warps * 32) == 0) *static_cast<volatile int*>(&word) = value;
    }
    static TK_DEVICE int get(const int& word) {
        return lane() == 0 ? *static_cast<const volatile int*>(&word) : 0;
    }

  private:
    // f(offset in memory, index into data) for every 4 floats of the calling lane.
    template <class R, class F>
    static TK_DEVICE void for_fragments(int valid_rows, F&& f) {
        const int warp = warp_index() % Warps;
        TK_UNROLL
        for (int i = 0; i < R::row_blocks; ++i) {
            if ((i * Warps + warp) * 16 >= valid_rows) continue;
            TK_UNROLL
            for (int j = 0; j < R::col_blocks; ++j) {
                f((((i * R::col_blocks + j) * Warps + warp) * 32 + lane()) * 4,
                  R::index(i, j, 0, 0));
            }
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
