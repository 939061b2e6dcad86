// Bank conflicts of warp-wide accesses to shared tiles and vectors, counted from the tile's layout
// and from the lanes' places that the copies themselves go by (lane_places.hpp).
//
// Shared memory has 32 banks of 4 bytes, and a wavefront serves one word of each bank to any number
// of lanes (CUDA C++ Programming Guide, "Shared memory"). Lanes that access 8 or 16 bytes are
// served by halves and by quarters of the warp, ldmatrix and stmatrix by matrices of 8 lanes.
#pragma once
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "tk/tile/lane_places.hpp"
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

namespace bank_conflicts {

using detail::place;

constexpr int num_banks = 32, bank_bytes = 4, num_lanes = 32;

// What the first `lanes` lanes of a warp access at once: as many bytes each, from these byte
// addresses.
struct access {
    int bytes = bank_bytes;
    std::array<int, num_lanes> address{};
    int lanes = num_lanes;
};

constexpr int words_of(const access& made) { return std::max(1, made.bytes / bank_bytes); }
constexpr int lanes_at_once(const access& made) { return num_lanes / words_of(made); }

// The fewest wavefronts of any access of the kind: one for the lanes that are served together.
constexpr int fewest_wavefronts(const access& made) {
    return (made.lanes + lanes_at_once(made) - 1) / lanes_at_once(made);
}

// The wavefronts that an access takes.
inline int wavefronts(const access& made) {
    int total = 0;
    for (int first = 0; first < made.lanes; first += lanes_at_once(made)) {
        std::array<std::array<int, num_lanes>, num_banks> wanted{};  // words of each bank,
        std::array<int, num_banks> count{};                          // and how many they are
        int deepest = 0;
        for (int lane = first; lane < std::min(made.lanes, first + lanes_at_once(made)); ++lane) {
            for (int i = 0; i < words_of(made); ++i) {
                const int word = made.address[size_t(lane)] / bank_bytes + i;
                auto& of_bank = wanted[size_t(word % num_banks)];
                int& n = count[size_t(word % num_banks)];
                if (std::find(of_bank.begin(), of_bank.begin() + n, word) != of_bank.begin() + n) {
                    continue;
                }
                of_bank[size_t(n++)] = word;
                deepest = std::max(deepest, n);
            }
        }
        total += deepest;
    }
    return total;
}

// --- Patterns: what the lanes do to a tile of type S. `elements` side by side are of one lane, and
// `for_each` calls f(place of a lane, lanes) for every access of a warp. ---

// load and store of register tiles of 16-bit elements, and of 8-bit ones in the row layout:
// ldmatrix and stmatrix, four matrices at once, two for a block that is left over.
template <register_layout Layout>
struct matrices {
    template <class S>
    static constexpr int elements = 16 / int(sizeof(typename S::dtype));
    template <class S>
    static constexpr bool applies =
        Layout == row_layout ? sizeof(typename S::dtype) <= 2
                             : sizeof(typename S::dtype) == 2 && S::cols % 16 == 0;
    template <class S, class F>
    static void for_each(F&& f) {
        constexpr bool is_row = Layout == row_layout;
        constexpr int block = is_row ? elements<S> : 8;
        constexpr int blocks_along = (is_row ? S::cols : S::rows) / block;
        for (int i = 0; i < (is_row ? S::rows : S::cols) / 16; ++i) {
            for (int j = 0; j < blocks_along; j += 2) {
                f([&](int lane) { return detail::matrix_place<is_row, block>(lane, i, j); },
                  j + 1 < blocks_along ? 32 : 16);
            }
        }
    }
};

// load and store of fp32 register tiles in the row layout: two neighbours a lane, or one.
struct pairs {
    template <class S>
    static constexpr int blocks = S::cols / 8;
    template <class S>
    static constexpr int elements =
        detail::exchanges_neighbours<S::swizzle_bytes, blocks<S>> ? 1 : 2;
    template <class S>
    static constexpr bool applies = sizeof(typename S::dtype) == 4 && S::cols % 8 == 0;
    template <class S, class F>
    static void for_each(F&& f) {
        constexpr int of_blocks = detail::exchanged_blocks<S::swizzle_bytes, blocks<S>>;
        constexpr int of_neighbours = elements<S> == 1 ? 1 : 0;
        const auto access = [&](int i, int j, int upper, int n) {
            f(
                [&](int lane) {
                    const bool other = detail::is_exchanging_lane<S::swizzle_bytes>(lane);
                    return detail::fragment_place<true, 2>(lane, i, j ^ (other ? of_blocks : 0),
                                                           upper, n ^ (other ? of_neighbours : 0));
                },
                32);
        };
        for (int i = 0; i < S::rows / 16; ++i) {
            for (int j = 0; j < blocks<S>; ++j) {
                for (int upper = 0; upper < 2; ++upper) {
                    for (int n = 0; n < 2; n += elements<S>) access(i, j, upper, n);
                }
            }
        }
    }
};

// load and store of fp32 and of 8-bit register tiles in the column layout: element by element.
struct elements_of_columns {
    template <class S>
    static constexpr int elements = 1;
    template <class S>
    static constexpr int neighbours = detail::neighbours<typename S::dtype>;
    template <class S>
    static constexpr bool applies =
        sizeof(typename S::dtype) != 2 && S::cols % 16 == 0 && S::rows % (4 * neighbours<S>) == 0;
    template <class S, class F>
    static void for_each(F&& f) {
        for (int i = 0; i < S::cols / 16; ++i) {
            for (int j = 0; j < S::rows / (4 * neighbours<S>); ++j) {
                for (int n = 0; n < 2 * neighbours<S>; ++n) {
                    f(
                        [&](int lane) {
                            return detail::fragment_place<false, neighbours<S>>(
                                lane, i, j, n / neighbours<S>, n % neighbours<S>);
                        },
                        32);
                }
            }
        }
    }
};

// What a group shares out: f of every 32 of them.
template <int Count, class F, class Place>
void for_each_dealt(F&& f, Place&& place_of) {
    for (int first = 0; first < Count; first += num_lanes) {
        f([&](int lane) { return place_of(first + lane); }, std::min(num_lanes, Count - first));
    }
}

// Operations on shared tiles: vectors of `Bytes` bytes in the order in which they lie in memory.
// A tile of narrower elements than the widest tile of the operation is accessed by fewer bytes.
template <int Bytes>
struct shared_vectors {
    template <class S>
    static constexpr int elements = Bytes / int(sizeof(typename S::dtype));
    template <class S>
    static constexpr bool applies = Bytes >= 4 * int(sizeof(typename S::dtype));
    template <class S, class F>
    static void for_each(F&& f) {
        for_each_dealt<S::rows * S::cols / elements<S>>(
            f, detail::dealt_place<elements<S>, S::rows, S::panel_cols>);
    }
};
// load from and store to global memory without TMA: 16 bytes a lane, row by row.
struct global_vectors {
    template <class S>
    static constexpr int elements = 16 / int(sizeof(typename S::dtype));
    template <class S>
    static constexpr bool applies = true;
    template <class S, class F>
    static void for_each(F&& f) {
        for_each_dealt<S::rows * S::cols / elements<S>>(
            f, detail::dealt_place<elements<S>, S::rows, S::cols>);
    }
};
// The same of 16-bit elements that are not aligned: two neighbours a lane along rows, or eight down
// columns.
struct strided_row_walk {
    template <class S>
    static constexpr int elements = 2;
    template <class S>
    static constexpr bool applies = sizeof(typename S::dtype) == 2;
    template <class S, class F>
    static void for_each(F&& f) {
        constexpr int across = std::gcd(S::cols, 64);
        for (int begin = 0; begin < S::cols; begin += across) {
            for_each_dealt<S::rows * across / 2>(f, [&](int i) {
                const place at = detail::dealt_place<2, S::rows, across>(i);
                return place{at.row, begin + at.col};
            });
        }
    }
};
struct strided_column_walk {
    template <class S>
    static constexpr int elements = 8;
    template <class S>
    static constexpr bool applies = sizeof(typename S::dtype) == 2;
    template <class S, class F>
    static void for_each(F&& f) {
        for_each_dealt<S::rows * S::cols / 8>(f, detail::dealt_place_by_rows<8, S::rows>);
    }
};
// And of elements of other sizes or that are converted: one a lane, along a row or down a column.
struct row_walk {
    template <class S>
    static constexpr int elements = 1;
    template <class S>
    static constexpr bool applies = true;
    template <class S, class F>
    static void for_each(F&& f) {
        for_each_dealt<S::rows * S::cols>(f, detail::dealt_place<1, S::rows, S::cols>);
    }
};
struct column_walk {
    template <class S>
    static constexpr int elements = 1;
    template <class S>
    static constexpr bool applies = true;
    template <class S, class F>
    static void for_each(F&& f) {
        for_each_dealt<S::rows * S::cols>(f, detail::dealt_place_by_rows<1, S::rows>);
    }
};

// for_each8: the first and the second 16 bytes of 8 fp32 columns a lane, along rows or down
// columns.
template <bool RowsFastest>
struct eight_columns {
    template <class S>
    static constexpr int elements = 4;
    template <class S>
    static constexpr bool applies = sizeof(typename S::dtype) == 4 && S::cols % 8 == 0;
    template <class S, class F>
    static void for_each(F&& f) {
        for (int unit = 0; unit < 2; ++unit) {
            for_each_dealt<S::rows * S::cols / 8>(f, [&](int i) {
                place at = RowsFastest ? detail::dealt_place_by_rows<8, S::rows>(i)
                                       : detail::dealt_place<8, S::rows, S::cols>(i);
                at.col += 4 * (unit ^ detail::first_unit<S::panel_cols>(at.col));
                return at;
            });
        }
    }
};

// What a pattern costs in a tile: the most wavefronts of one access over the fewest of its kind,
// and the wavefronts of all accesses of a warp that goes over the whole tile.
struct cost {
    double worst = 0.0;
    int wavefronts = 0, fewest = 0;

    void add(const access& made) {
        const int taken = bank_conflicts::wavefronts(made), least = fewest_wavefronts(made);
        worst = std::max(worst, double(taken) / least);
        wavefronts += taken, fewest += least;
    }
};

// Of a tile, or a part of one.
template <class Pattern, shared_tile S>
cost count(const S& tile) {
    using T = typename S::dtype;
    cost result;
    Pattern::template for_each<S>([&](auto&& place_of, int lanes) {
        access made{Pattern::template elements<S> * int(sizeof(T)), {}, lanes};
        for (int lane = 0; lane < lanes; ++lane) {
            const place at = place_of(lane);
            made.address[size_t(lane)] = tile.index(at.row, at.col) * int(sizeof(T));
        }
        result.add(made);
    });
    return result;
}
template <class Pattern, whole_shared_tile S>
cost count() {
    return count<Pattern>(*std::make_unique<S>());
}
// The most wavefronts that the pattern takes anywhere in a tile of type S, over the fewest.
template <whole_shared_tile S, class Pattern>
double worst() {
    return count<Pattern, S>().worst;
}

// load and store of register vectors in a layout, element by element.
template <vector_layout Layout, shared_vector V>
cost count_vector() {
    cost result;
    for (int i = 0; i < detail::vector_elements<Layout>(V::length); ++i) {
        access made{int(sizeof(typename V::dtype)), {}, 0};
        for (int lane = 0; lane < num_lanes; ++lane) {
            const int position = detail::vector_place<Layout>(lane, i);
            if (position >= V::length) continue;
            made.address[size_t(made.lanes++)] = position * int(sizeof(typename V::dtype));
        }
        result.add(made);
    }
    return result;
}

}  // namespace bank_conflicts

TK_NAMESPACE_END
