// Copies between registers and shared memory on sm90: matrices of 8 rows of 16 bytes by ldmatrix
// and stmatrix (PTX ISA), and fp32 by pairs.
#pragma once
#include "tk/arch/sm90/lane_addresses.hpp"
#include "tk/arch/sm90/relayout.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// Two or four 8x8 matrices of 16-bit pairs (of 16 bytes a row), at the addresses that lanes give.
template <bool Transposed, int Matrices>
TK_DEVICE void load_matrices(uint32_t (&to)[4], uint32_t row) {
    if constexpr (Matrices == 4 && !Transposed) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(row));
    } else if constexpr (Matrices == 4) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(row));
    } else if constexpr (!Transposed) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(to[0]), "=r"(to[1])
                     : "r"(row));
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(to[0]), "=r"(to[1])
                     : "r"(row));
    }
}
template <bool Transposed, int Matrices>
TK_DEVICE void store_matrices(uint32_t row, const uint32_t (&from)[4]) {
    if constexpr (Matrices == 4 && !Transposed) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
                     "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
                     : "memory");
    } else if constexpr (Matrices == 4) {
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
            "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
            : "memory");
    } else if constexpr (!Transposed) {
        asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row),
                     "r"(from[0]), "r"(from[1])
                     : "memory");
    } else {
        asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(row),
                     "r"(from[0]), "r"(from[1])
                     : "memory");
    }
}

template <int Warps>
struct register_copy_ops {
    // Registers to shared memory, rounding to the tile's dtype. The shared tile has Warps times the
    // rows: 16-row block i of warp w is rows 16 (Warps i + w) onwards, as WGMMA has it.
    template <class S, register_tile R>
        requires shared_tile<std::remove_cvref_t<S>>
    static TK_DEVICE void store(S&& dst, const R& src) {
        using T = typename std::remove_cvref_t<S>::dtype;
        check_shapes<std::remove_cvref_t<S>, R>();
        if constexpr ((sizeof(T) == 1) != (sizeof(typename R::dtype) == 1)) {
            rt<T, R::rows, R::cols, R::layout> converted;
            group<Warps>::copy(converted, src);
            store(dst, converted);
        } else if constexpr (sizeof(T) == 4 && R::is_row) {
            const auto value = [&](bool exchanges, int i, int other) {
                return convert<float>(exchanges ? src.data[other] : src.data[i]);
            };
            by_pairs<R>(dst, [&]<int Width>(uint32_t to, bool exchanges, int i, int other) {
                if constexpr (Width == 1) {
                    shared_at<float>(to) = value(exchanges, i, other);
                } else {
                    shared_at<float2>(to) =
                        make_float2(value(exchanges, i, other), value(exchanges, i + 1, other + 1));
                }
            });
        } else if constexpr (sizeof(T) == 4 || (sizeof(T) == 1 && !R::is_row)) {
            by_elements<R>(dst,
                           [&](uint32_t to, int i) { shared_at<T>(to) = convert<T>(src.data[i]); });
        } else {
            by_matrices<R>(dst, [&]<int Matrices>(uint32_t to, int across, int along) {
                uint32_t packed[4];
                TK_UNROLL
                for (int p = 0; p < Matrices; ++p) {
                    packed[p] = bits<T>(src.data + R::index(across, along + p / 2, p % 2, 0));
                }
                store_matrices<!R::is_row, Matrices>(to, packed);
            });
        }
    }

    // Shared memory to registers, converted to the register tile's dtype.
    template <register_tile R, shared_tile S>
    static TK_DEVICE void load(R& dst, const S& src) {
        using T = typename S::dtype;
        using D = typename R::dtype;
        check_shapes<S, R>();
        if constexpr (!std::is_same_v<T, D>) {
            rt<T, R::rows, R::cols, R::layout> unconverted;
            load(unconverted, src);
            group<Warps>::copy(dst, unconverted);
        } else if constexpr (sizeof(T) == 4 && R::is_row) {
            float values[R::elements];
            by_pairs<R>(src, [&]<int Width>(uint32_t from, bool, int i, int) {
                if constexpr (Width == 1) {
                    values[i] = shared_at<const float>(from);
                } else {
                    const float2 pair = shared_at<const float2>(from);
                    values[i] = pair.x, values[i + 1] = pair.y;
                }
            });
            by_pairs<R>(src, [&]<int Width>(uint32_t, bool exchanges, int i, int other) {
                TK_UNROLL
                for (int n = 0; n < Width; ++n) {
                    dst.data[i + n] = exchanges ? values[other + n] : values[i + n];
                }
            });
        } else if constexpr (sizeof(T) == 4 || (sizeof(T) == 1 && !R::is_row)) {
            by_elements<R>(src,
                           [&](uint32_t from, int i) { dst.data[i] = shared_at<const T>(from); });
        } else {
            by_matrices<R>(src, [&]<int Matrices>(uint32_t from, int across, int along) {
                uint32_t packed[4];
                load_matrices<!R::is_row, Matrices>(packed, from);
                TK_UNROLL
                for (int p = 0; p < Matrices; ++p) {
                    *reinterpret_cast<uint32_t*>(
                        dst.data + R::index(across, along + p / 2, p % 2, 0)) = packed[p];
                }
            });
        }
    }

  private:
    template <class S, class R>
    static constexpr void check_shapes() {
        static_assert(S::rows == R::rows * Warps && S::cols == R::cols,
                      "load, store: the shared tile must have the group's rows and columns");
        static_assert(Warps == 1 || R::rows % 16 == 0,
                      "load, store: a warp's rows must be a multiple of 16");
    }

    // f<number of matrices>(the calling lane's address, block across, first block along) for every
    // one or two blocks along.
    template <class R, class S, class F>
    static TK_DEVICE void by_matrices(const S& tile, F&& f) {
        constexpr int along = R::is_row ? 4 * R::neighbours : 8;
        const lane_addresses<Warps, S> addresses(tile,
                                                 matrix_place<R::is_row, along>(lane(), 0, 0));
        const auto address = [&](int i, int j) {
            return R::is_row ? addresses.at(i * 16, j * along) : addresses.at(j * along, i * 16);
        };
        TK_UNROLL
        for (int i = 0; i < R::blocks_across; ++i) {
            TK_UNROLL
            for (int j = 0; j + 1 < R::blocks_along; j += 2) {
                f.template operator()<4>(address(i, j), i, j);
            }
            if constexpr (R::blocks_along % 2 == 1) {
                constexpr int last = R::blocks_along - 1;
                f.template operator()<2>(address(i, last), i, last);
            }
        }
    }
    // f<numbers>(address, whether it is others', index into data, those others') for every pair of
    // fp32 neighbours of the row layout, or each of them. Lanes whose units of 16 bytes would meet
    // in the same banks exchange blocks, or neighbours (`exchanged_blocks`): half the wavefronts
    // for a select an element.
    template <class R, class S, class F>
    static TK_DEVICE void by_pairs(const S& tile, F&& f) {
        constexpr int blocks = exchanged_blocks<S::swizzle_bytes, R::blocks_along>;
        constexpr bool singles = exchanges_neighbours<S::swizzle_bytes, R::blocks_along>;
        constexpr int width = singles ? 1 : 2;
        const bool exchanges =
            (blocks != 0 || singles) && is_exchanging_lane<S::swizzle_bytes>(lane());
        place own = fragment_place<true, 2>(lane(), 0, 0, 0, 0);
        own.col += exchanges ? blocks * 8 + (singles ? 1 : 0) : 0;
        const lane_addresses<Warps, S> addresses(tile, own);
        TK_UNROLL
        for (int i = 0; i < R::blocks_across; ++i) {
            TK_UNROLL
            for (int j = 0; j < R::blocks_along; ++j) {
                TK_UNROLL
                for (int e = 0; e < 4; e += width) {
                    const int upper = e / 2, n = e % 2;
                    f.template operator()<width>(
                        addresses.at(i * 16 + upper * 8, j * 8 + n), exchanges,
                        R::index(i, j, upper, n),
                        R::index(i, j ^ blocks, upper, singles ? 1 - n : n));
                }
            }
        }
    }
    // f(address, index into data) for every element of the column layout.
    template <class R, class S, class F>
    static TK_DEVICE void by_elements(const S& tile, F&& f) {
        TK_UNROLL
        for (int n = 0; n < R::neighbours; ++n) {
            const lane_addresses<Warps, S> addresses(
                tile, fragment_place<false, R::neighbours>(lane(), 0, 0, 0, n));
            TK_UNROLL
            for (int i = 0; i < R::blocks_across; ++i) {
                TK_UNROLL
                for (int j = 0; j < R::blocks_along; ++j) {
                    TK_UNROLL
                    for (int upper = 0; upper < 2; ++upper) {
                        f(addresses.at(j * 4 * R::neighbours, i * 16 + upper * 8),
                          R::index(i, j, upper, n));
                    }
                }
            }
        }
    }
    // 4 bytes of elements of type T, from those in registers.
    template <class T, class D>
    static TK_DEVICE uint32_t bits(const D* from) {
        if constexpr (std::is_same_v<T, D>) {
            return *reinterpret_cast<const uint32_t*>(from);
        } else if constexpr (sizeof(T) == 2) {
            return pack<T>(convert<float>(from[0]), convert<float>(from[1]));
        } else {
            return uint32_t(pack<T>(convert<float>(from[0]), convert<float>(from[1]))) |
                   uint32_t(pack<T>(convert<float>(from[2]), convert<float>(from[3]))) << 16;
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
