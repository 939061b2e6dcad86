// Rotary position embedding of q and k in one launch (Su et al., "RoFormer", 2021, equation 34):
//     x' = x cos - y sin,    y' = y cos + x sin
// for each pair (x, y) of a row's first rotary_dim columns: column i and i + rotary_dim / 2, or
// neighbours (`interleaved`). The backward pass is the same with the sine negated.
//
// Memory binds, so that what counts is how many loads are under way. A lane takes two units of a
// row, which hold the partners of each other; a warp 32 such slots that follow one another over the
// rows, for up to `heads_per_task` heads of a tensor, `heads_at_once` at a time. cos and sin are
// loaded once for all of them.
#pragma once
#include "kernels/rotary/places.hpp"

TK_NAMESPACE_BEGIN

// Width: elements of a unit. Those of more than one need contiguous, aligned columns.
template <element T, int Width, int HeadsAtOnce = 4>
struct rotary {
    static constexpr int num_threads = 128, num_warps = num_threads / 32;
    static constexpr int width = Width, heads_at_once = HeadsAtOnce;
    // Of angles: interleaved, the first half of them goes with the unit's own pairs, the other,
    // which lies elsewhere in the table, with those of its partner.
    static constexpr int piece = Width > 1 ? Width / 2 : 1;
    static_assert(Width * sizeof(T) <= 16, "rotary: a unit must have at most 16 bytes");

    using units = rv<T, 32 * Width, vector_layout::units>;
    using angles = rv<float, 32 * Width, vector_layout::units>;

    struct globals {
        rotary_tensor<T> q, k;
        rotary_table cos, sin;
        int64_t table_rows;
        bool wide_table;  // of float, not of T
        rotary_positions positions;
        rotary_columns rotated, rest;  // rest: columns that are copied
        rotary_tasks tasks;
        fast_divider rows;  // of a batch
        int num_rows;       // of all
        int heads_per_task;
        int half;  // rotary_dim / 2
        bool interleaved;
        float sign;  // of the sine
    };

    static TK_DEVICE void run(const globals& g) {
        const int first = cluster::index() * num_warps + warpgroup::warpid();
        for (int i = first; i < g.tasks.count; i += cluster::count() * num_warps) {
            const auto [tile, group] = g.tasks.at(i);
            const bool rotates = tile < g.rotated.tiles;
            task at{g, rotates ? g.rotated : g.rest, rotates ? tile : tile - g.rotated.tiles,
                    group < g.q.groups ? g.q : g.k};
            const int head = (group < g.q.groups ? group : group - g.q.groups) * g.heads_per_task;
            const int last = head + g.heads_per_task;
            const int end = last < at.tensor.heads ? last : at.tensor.heads;
            if (rotates) {
                at.template move<true>(head, end);
            } else {
                at.template move<false>(head, end);
            }
        }
    }

  private:
    // Where a slot is: elements from the tensor's first to its unit's, in and out.
    struct place {
        int64_t in, out;
        int batch, row, slot;
        bool there, has_partner;
    };
    struct angle_place {
        int64_t row;  // -1: nowhere
        int col;
    };
    struct heads {
        units x[heads_at_once], y[heads_at_once];  // a unit, and its partner
    };

    struct task {
        const globals& g;
        // Copies: a reference to one of two parameters would be an address in memory.
        const rotary_columns columns;
        const int tile;
        const rotary_tensor<T> tensor;
        unit_array<place> places{};

        // Loads are issued before the angles of the first, and of each after the stores before it.
        template <bool Rotates>
        TK_DEVICE void move(int head, int end) {
            warp::index_units(places, [&](int unit) { return place_of(unit); });
            heads held;
            load(held, head, end);
            angles c, s;
            if constexpr (Rotates) load_angles(c, s);
            for (; head < end; head += heads_at_once) {
                TK_UNROLL
                for (int i = 0; i < heads_at_once; ++i) {
                    if constexpr (Rotates) rotate(held.x[i], held.y[i], c, s);
                    store(held.x[i], head + i, end, false);
                    store(held.y[i], head + i, end, true);
                }
                if (head + heads_at_once < end) load(held, head + heads_at_once, end);
            }
        }

      private:
        TK_DEVICE place place_of(int unit) const {
            const uint32_t number = uint32_t(tile) * 32 + uint32_t(unit);
            const uint32_t row_of_all = columns.slots.divide(number);
            place at{};
            at.slot = int(number - row_of_all * columns.slots.divisor);
            at.there = int(row_of_all) < g.num_rows;
            at.batch = int(g.rows.divide(row_of_all));
            at.row = int(row_of_all) - at.batch * int(g.rows.divisor);
            const int col = columns.first + at.slot * columns.step;
            at.has_partner = at.there && col + columns.partner < columns.end;
            const auto offset = [&](const typename rotary_tensor<T>::strides& by) {
                return at.batch * by.batch + at.row * by.row + step(col, by.col);
            };
            at.in = offset(tensor.from), at.out = offset(tensor.to);
            return at;
        }
        // So many columns on.
        static TK_DEVICE int64_t step(int cols, int64_t stride) {
            return Width > 1 ? cols : cols * stride;
        }

        TK_DEVICE void load(heads& to, int head, int end) const {
            TK_UNROLL
            for (int i = 0; i < heads_at_once; ++i) {
                const T* const row = tensor.in + (head + i) * tensor.from.head;
                const int64_t partner = step(columns.partner, tensor.from.col);
                const bool is_head = head + i < end;
                warp::load_units(
                    to.x[i],
                    [&](const place& at) {
                        return unit_pieces<const T>{at.there && is_head ? row + at.in : nullptr};
                    },
                    places);
                warp::load_units(
                    to.y[i],
                    [&](const place& at) {
                        const bool there = at.has_partner && is_head;
                        return unit_pieces<const T>{there ? row + at.in + partner : nullptr};
                    },
                    places);
            }
        }
        TK_DEVICE void store(const units& from, int head, int end, bool is_partner) const {
            T* const row = tensor.out + head * tensor.to.head +
                           (is_partner ? step(columns.partner, tensor.to.col) : 0);
            warp::store_units(
                [&](const place& at) {
                    const bool there = (is_partner ? at.has_partner : at.there) && head < end;
                    return unit_pieces<T>{there ? row + at.out : nullptr};
                },
                from, places);
        }

        // A token whose position has no row of the table becomes NaN.
        TK_DEVICE void load_angles(angles& c, angles& s) const {
            unit_array<angle_place> of;
            warp::index_units(
                of,
                [&](int, const place& at) {
                    const int64_t row = at.there ? g.positions.of(at.batch, at.row) : -1;
                    return angle_place{uint64_t(row) < uint64_t(g.table_rows) ? row : -1,
                                       at.slot * (g.interleaved ? piece : Width)};
                },
                places);
            const auto load = [&]<class U>(angles& to, const rotary_table& from, const U* data) {
                warp::load_units<piece>(
                    to,
                    [&](const angle_place& at) {
                        const int64_t offset = at.row * from.row + step(at.col, from.col);
                        return unit_pieces<const U>{at.row < 0 ? nullptr : data + offset,
                                                    g.interleaved ? g.half / 2 : piece};
                    },
                    of, NAN);
            };
            const auto load_both = [&]<class U>(const U* cos, const U* sin) {
                load(c, g.cos, cos), load(s, g.sin, sin);
            };
            if (g.wide_table) {
                load_both(static_cast<const float*>(g.cos.data),
                          static_cast<const float*>(g.sin.data));
            } else {
                load_both(static_cast<const T*>(g.cos.data), static_cast<const T*>(g.sin.data));
            }
            warp::mul(s, s, g.sign);
        }

        TK_DEVICE void rotate(units& x, units& y, const angles& c, const angles& s) const {
            if (Width > 1 && g.interleaved) {
                warp::map_units(x, y, c, s, [](auto& x, auto& y, auto& c, auto& s) {
                    TK_UNROLL
                    for (int i = 0; i < Width / 2; ++i) {
                        rotate_pair(x[2 * i], x[2 * i + 1], c[i], s[i]);
                        rotate_pair(y[2 * i], y[2 * i + 1], c[Width / 2 + i], s[Width / 2 + i]);
                    }
                });
            } else {
                warp::map_units(x, y, c, s, [](auto& x, auto& y, auto& c, auto& s) {
                    TK_UNROLL
                    for (int i = 0; i < Width; ++i) rotate_pair(x[i], y[i], c[i], s[i]);
                });
            }
        }
        // Where the sine is 0, the cosine alone counts: position 0 keeps its bits, -0 and what is
        // beside an infinity too.
        static TK_DEVICE void rotate_pair(float& x, float& y, float c, float s) {
            const float of_x = s == 0.0f ? -0.0f : functions::rounded_mul{}(x, s);
            const float of_y = s == 0.0f ? 0.0f : functions::rounded_mul{}(y, s);
            x = fmaf(x, c, -of_y), y = fmaf(y, c, of_x);
        }
    };
};

TK_NAMESPACE_END
