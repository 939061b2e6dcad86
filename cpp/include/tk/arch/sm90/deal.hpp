// How the lanes of a group share the elements of shared tiles and vectors.
#pragma once
#include "tk/arch/sm90/sync.hpp"
#include "tk/tile/lane_places.hpp"
#include "tk/tile/st.hpp"
#include "tk/tile/strided_tiles.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// f(i) for every i below Count: neighbouring lanes take neighbours.
template <int Warps, int Count, class F>
TK_DEVICE void deal_vector(F&& f) {
    TK_NO_UNROLL
    for (int i = int(threadIdx.x) % (Warps * 32); i < Count; i += Warps * 32) f(i);
}

// f(row, col) for every `Width` columns of a tile: neighbouring lanes take neighbouring columns, or
// neighbouring rows, as global memory has them. The operation's name, and the tiles it reads and
// writes, are for the host.
template <int Warps, int Width, int Rows, int Cols, class F>
TK_DEVICE void deal(bool rows_fastest, F&& f) {
    deal_vector<Warps, Rows * Cols / Width>([&](int i) {
        const place at =
            rows_fastest ? dealt_place_by_rows<Width, Rows>(i) : dealt_place<Width, Rows, Cols>(i);
        f(at.row, at.col);
    });
}
// The same in two steps: `load(values, row, col)` for several places before `store(row, col,
// values)` for the first of them, so that a lane has many loads in flight. A store into memory that
// might be what the next one loads would hold that one up.
template <int Warps, int Width, int Rows, int Cols, class Load, class Store>
TK_DEVICE void deal_loads(bool rows_fastest, Load&& load, Store&& store) {
    constexpr int lanes = Warps * 32, count = Rows * Cols / Width;
    constexpr int batch = Width == 1 ? 16 : 24 / Width;  // more would need the registers of others
    const auto place_of = [&](int i) {
        return rows_fastest ? dealt_place_by_rows<Width, Rows>(i)
                            : dealt_place<Width, Rows, Cols>(i);
    };
    TK_NO_UNROLL
    for (int first = int(threadIdx.x) % lanes; first < count; first += lanes * batch) {
        float values[batch][Width];
        TK_UNROLL
        for (int b = 0; b < batch; ++b) {
            const place at = place_of(first + b * lanes);
            if (first + b * lanes < count) load(values[b], at.row, at.col);
        }
        TK_UNROLL
        for (int b = 0; b < batch; ++b) {
            const place at = place_of(first + b * lanes);
            if (first + b * lanes < count) store(at.row, at.col, values[b]);
        }
    }
}
// `deal` for every `Width` columns of tile S in the order in which they lie in memory, panel
// after panel, so that no two lanes meet in a bank; and f(index into data) of whole tiles.
template <int Warps, int Width, shared_tile S, class F>
TK_DEVICE void deal_panels(F&& f) {
    constexpr int panel = S::cols % S::panel_cols == 0 ? S::panel_cols : S::cols;
    deal_vector<Warps, S::rows * S::cols / Width>([&](int i) {
        const place at = dealt_place<Width, S::rows, panel>(i);
        f(at.row, at.col);
    });
}
template <int Warps, int Width, whole_shared_tile S, class F>
TK_DEVICE void deal_memory(F&& f) {
    deal_vector<Warps, S::rows * S::cols / Width>([&](int i) { f(i * Width); });
}
// The group's part of a copy between a shared tile and a tensor of any strides.
template <bool Loads, int Warps, class S, class T>
TK_DEVICE void copy_strided(S& tile, const strided_matrix<T>& global) {
    constexpr int lanes = Warps * 32;
    strided_copy<Loads, T, lanes, std::remove_const_t<S>>::run(tile, global,
                                                               int(threadIdx.x) % lanes);
}
template <int Warps, shared_tile S>
TK_DEVICE void note_tile(const S&, bool, const char*) {}

template <int Warps, shared_vector V>
TK_DEVICE void note_vector(const V&, bool, const char*, bool = false) {}
template <shared_vector V>
TK_DEVICE void note_part(const V&, int, const char*) {}

}  // namespace detail

TK_NAMESPACE_END
