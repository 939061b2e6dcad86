// Changes of a register tile's layout: elements that move between lanes (PTX ISA, "movmatrix",
// "shfl.sync", "prmt").
#pragma once
#include "tk/arch/sm90/pack.hpp"
#include "tk/tile/register_tile.hpp"
#include "tk/tile/vectors.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

TK_DEVICE uint32_t shuffle(uint32_t value, int lane) {
    return __shfl_sync(0xffffffff, value, lane);
}

// An 8 x 8 matrix of 16-bit elements, a pair a lane, transposed.
TK_DEVICE uint32_t movmatrix(uint32_t pair) {
    uint32_t result;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
    return result;
}
constexpr uint32_t low_halves = 0x5410, high_halves = 0x7632;
constexpr uint32_t even_bytes = 0x6420, odd_bytes = 0x7531;

template <element_8bit T>
TK_DEVICE float2 widen_pair(uint16_t pair) {
    uint32_t halves;
    if constexpr (std::is_same_v<T, e4m3>) {
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
    } else {
        asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(pair));
    }
    const half* values = reinterpret_cast<const half*>(&halves);
    return make_float2(convert<float>(values[0]), convert<float>(values[1]));
}

// From two neighbours a lane to four, or back: within the four lanes of a group, and 16 elements
// along. With q the lane's place, elements 4 q to 4 q + 3 are with places 2 (q % 2) and the next,
// in the first 8 for q < 2.
template <register_tile D, register_tile A>
TK_DEVICE void exchange_neighbours(D& dst, const A& src) {
    const int place = lane() % 4, group = lane() - place;
    TK_UNROLL
    for (int i = 0; i < D::blocks_across; ++i) {
        TK_UNROLL
        for (int upper = 0; upper < 2; ++upper) {
            if constexpr (D::neighbours == 4) {
                using T = typename D::dtype;
                TK_UNROLL
                for (int j = 0; j < D::blocks_along; ++j) {
                    uint32_t pairs = 0;
                    TK_UNROLL
                    for (int h = 0; h < 2; ++h) {
                        const auto* from = src.data + A::index(i, 2 * j + h, upper, 0);
                        pairs |= uint32_t(pack<T>(convert<float>(from[0]), convert<float>(from[1])))
                                 << (16 * h);
                    }
                    const uint32_t first = shuffle(pairs, group + place % 2 * 2);
                    const uint32_t second = shuffle(pairs, group + place % 2 * 2 + 1);
                    *reinterpret_cast<uint32_t*>(dst.data + D::index(i, j, upper, 0)) =
                        __byte_perm(first, second, place < 2 ? low_halves : high_halves);
                }
            } else {
                TK_UNROLL
                for (int j = 0; j < A::blocks_along; ++j) {
                    const uint32_t four =
                        *reinterpret_cast<const uint32_t*>(src.data + A::index(i, j, upper, 0));
                    TK_UNROLL
                    for (int h = 0; h < 2; ++h) {
                        const uint32_t from = shuffle(four, group + 2 * h + place / 2);
                        const float2 pair = widen_pair<typename A::dtype>(
                            uint16_t(place % 2 == 0 ? from : from >> 16));
                        store_pair(dst.data + D::index(i, 2 * j + h, upper, 0), pair.x, pair.y);
                    }
                }
            }
        }
    }
}

// Of each lane's two registers one goes to another lane at a time: the first from lane `source`,
// the second from that with bit `flip` changed. `gives_second` says which of its own a lane gives
// first, `takes_second` which of the two it takes first.
TK_DEVICE void exchange_pair(uint32_t (&pair)[2], bool gives_second, int source, int flip,
                             bool takes_second) {
    const uint32_t first = shuffle(gives_second ? pair[1] : pair[0], source);
    const uint32_t second = shuffle(gives_second ? pair[0] : pair[1], source ^ flip);
    pair[0] = takes_second ? second : first, pair[1] = takes_second ? first : second;
}

// 16 x 16 bytes of a lane's two registers: four neighbours along from group g and g + 8 across,
// with across and along exchanged. `movmatrix` moves pairs of bytes, and leaves 2 x 2 bytes in a
// lane: of the first register from places 4 q along and the next, of the second from 4 q + 2, if
// the groups have been dealt out so before; and in group g those of 2 g and 2 g + 1 across, which
// belong to groups of their own. With (a, b, c) the bits of g, the one is a way from group (a, b,
// c) to (register, a, c), the other from (a, b, c) to (b, c, register).
TK_DEVICE void transpose_bytes(uint32_t (&pair)[2]) {
    const int place = lane() % 4, a = lane() / 16, b = lane() / 8 % 2, c = lane() / 4 % 2;
    exchange_pair(pair, b != 0, b * 16 + a * 8 + c * 4 + place, 8, a != 0);
    const uint32_t first = movmatrix(pair[0]), second = movmatrix(pair[1]);
    pair[0] = __byte_perm(first, second, even_bytes);
    pair[1] = __byte_perm(first, second, odd_bytes);
    exchange_pair(pair, a != 0, c * 16 + a * 8 + b * 4 + place, 16, c != 0);
}

template <register_tile D, register_tile A>
    requires element_8bit<typename A::dtype>
TK_DEVICE void exchange_layout(D& dst, const A& src) {
    TK_UNROLL
    for (int i = 0; i < A::blocks_across; ++i) {
        TK_UNROLL
        for (int j = 0; j < A::blocks_along; ++j) {
            uint32_t pair[2];
            TK_UNROLL
            for (int upper = 0; upper < 2; ++upper) {
                pair[upper] =
                    *reinterpret_cast<const uint32_t*>(src.data + A::index(i, j, upper, 0));
            }
            transpose_bytes(pair);
            TK_UNROLL
            for (int upper = 0; upper < 2; ++upper) {
                *reinterpret_cast<uint32_t*>(dst.data + D::index(j, i, upper, 0)) = pair[upper];
            }
        }
    }
}

// 8 x 8 blocks change places as the layouts say, and are transposed each.
template <register_tile D, register_tile A>
TK_DEVICE void exchange_layout(D& dst, const A& src) {
    TK_UNROLL
    for (int i = 0; i < A::blocks_across; ++i) {
        TK_UNROLL
        for (int j = 0; j < A::blocks_along; ++j) {
            TK_UNROLL
            for (int upper = 0; upper < 2; ++upper) {
                const auto* from = src.data + A::index(i, j, upper, 0);
                auto* to = dst.data + D::index(j / 2, 2 * i + upper, j % 2, 0);
                if constexpr (sizeof(*from) == 2) {
                    *reinterpret_cast<uint32_t*>(to) =
                        movmatrix(*reinterpret_cast<const uint32_t*>(from));
                } else {
                    const uint32_t first = __float_as_uint(from[0]),
                                   second = __float_as_uint(from[1]);
                    const uint32_t low = movmatrix(__byte_perm(first, second, low_halves));
                    const uint32_t high = movmatrix(__byte_perm(first, second, high_halves));
                    to[0] = __uint_as_float(__byte_perm(low, high, low_halves));
                    to[1] = __uint_as_float(__byte_perm(low, high, high_halves));
                }
            }
        }
    }
}

// The transposed tile in the other layout has every element where it was.
template <register_tile D, register_tile A>
TK_DEVICE void relabel(D& dst, const A& src) {
    TK_UNROLL
    for (int i = 0; i < D::elements; ++i) dst.data[i] = src.data[i];
}

// Where a vector's element is: the first lane that holds it, and its index there.
template <vector_layout Layout>
TK_DEVICE int holder_of(int position) {
    return Layout == vector_layout::naive       ? position % 32
           : Layout == vector_layout::aligned   ? position % 8 / 2
           : Layout == vector_layout::aligned_4 ? position % 16 / 4
                                                : position % 8 * 4;
}
template <vector_layout Layout>
TK_DEVICE constexpr int index_of(int position) {
    return Layout == vector_layout::naive       ? position / 32
           : Layout == vector_layout::aligned   ? position / 8 * 2 + position % 2
           : Layout == vector_layout::aligned_4 ? position / 16 * 4 + position % 4
                                                : position / 8;
}

// Every element is asked of a lane that holds it; which of its registers that is depends on the
// asking lane, so each that it may be is shuffled.
template <register_vector D, register_vector A>
TK_DEVICE void rearrange(D& dst, const A& src) {
    constexpr int span = D::layout == vector_layout::naive       ? 32
                         : D::layout == vector_layout::aligned_4 ? 16
                                                                 : 8;
    TK_UNROLL
    for (int i = 0; i < D::elements; ++i) {
        const int first = D::layout == vector_layout::aligned     ? i / 2 * 8
                          : D::layout == vector_layout::aligned_4 ? i / 4 * 16
                                                                  : i * span;
        const int position = D::position(i);
        float value = 0.0f;
        TK_UNROLL
        for (int s = 0; s < A::elements; ++s) {
            if (s < index_of<A::layout>(first) || s > index_of<A::layout>(first + span - 1))
                continue;
            const float from = __shfl_sync(0xffffffff, convert<float>(src.data[s]),
                                           holder_of<A::layout>(position));
            if (index_of<A::layout>(position) == s) value = from;
        }
        dst.data[i] = convert<typename D::dtype>(value);
    }
}

// Word i of the lane with place q of every four becomes word q of the one with place i.
TK_DEVICE void transpose_in_fours(uint32_t (&words)[4]) {
    TK_UNROLL
    for (int step = 1; step < 4; step *= 2) {
        const bool upper = (lane() & step) != 0;
        TK_UNROLL
        for (int i = 0; i < 4; ++i) {
            if ((i & step) != 0) continue;
            uint32_t &low = words[i], &high = words[i + step];
            const uint32_t got = __shfl_xor_sync(0xffffffff, upper ? low : high, step);
            (upper ? low : high) = got;
        }
    }
}

// f(index into a col_vec's data, column, 8 elements T) for every 8 neighbouring columns of a row,
// each once in the warp: what the four lanes of a row hold goes to one of them. By whole warps.
template <element_16bit T, register_tile R, class F>
TK_DEVICE void for_each_eight(const R& src, F&& f) {
    static_assert(R::is_row && R::neighbours == 2 && R::cols % 32 == 0,
                  "for_each_eight: a row layout of pairs, and a multiple of 32 columns");
    TK_UNROLL
    for (int i = 0; i < R::blocks_across; ++i) {
        TK_UNROLL
        for (int upper = 0; upper < 2; ++upper) {
            TK_UNROLL
            for (int j = 0; j < R::blocks_along; j += 4) {
                alignas(16) uint32_t words[4];
                TK_UNROLL
                for (int block = 0; block < 4; ++block) {
                    const auto* pair = src.data + R::index(i, j + block, upper, 0);
                    words[block] = pack<T>(convert<float>(pair[0]), convert<float>(pair[1]));
                }
                transpose_in_fours(words);
                f(2 * i + upper, (j + lane() % 4) * 8, reinterpret_cast<const eight<T>&>(words));
            }
        }
    }
}

}  // namespace detail

TK_NAMESPACE_END
