// How the warps of a group share the elements of shared tiles and vectors, and what they note of it
// in the access log.
#pragma once
#include "tk/arch/host/tile_access.hpp"
#include "tk/tile/strided_tiles.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

struct share {
    int first, last;
};
template <int Warps>
share share_of(int count) {
    const int warp = warp_index() % Warps;
    return {count * warp / Warps, count * (warp + 1) / Warps};
}

// f(row, col) for every `Width` columns of the calling warp's rows.
template <int Warps, int Width, int Rows, int Cols, class F>
void deal(bool /*rows_fastest*/, F&& f) {
    const auto [first, last] = share_of<Warps>(Rows);
    for (int row = first; row < last; ++row) {
        for (int col = 0; col < Cols; col += Width) f(row, col);
    }
}
template <int Warps, int Width, int Rows, int Cols, class Load, class Store>
void deal_loads(bool rows_fastest, Load&& load, Store&& store) {
    deal<Warps, Width, Rows, Cols>(rows_fastest, [&](int row, int col) {
        float values[Width];
        load(values, row, col);
        store(row, col, values);
    });
}
template <int Warps, int Width, shared_tile S, class F>
void deal_panels(F&& f) {
    deal<Warps, Width, S::rows, S::cols>(false, f);
}
// f(index into data) for the same.
template <int Warps, int Width, whole_shared_tile S, class F>
void deal_memory(F&& f) {
    static_assert(Width * int(sizeof(typename S::dtype)) <= 16,
                  "what lies together in every layout is 16 bytes");
    deal<Warps, Width, S::rows, S::cols>(false, [&](int row, int col) { f(S::offset(row, col)); });
}
// The calling warp's rows of a copy between a shared tile and a tensor of any strides.
template <bool Loads, int Warps, class S, class T>
void copy_strided(S& tile, const strided_matrix<T>& global) {
    deal<Warps, 1, S::rows, S::cols>(false, [&](int row, int col) {
        auto& shared = tile.data[tile.index(row, col)];
        T* const at = global.corner + row * global.row_stride + col * global.col_stride;
        if constexpr (Loads) {
            shared = global.has(row, col) ? *at : std::remove_const_t<T>(0.0f);
        } else {
            if (global.has(row, col)) *at = shared;
        }
    });
}
// Notes that the calling warp accesses its rows of a tile.
template <int Warps, shared_tile S>
void note_tile(const S& tile, bool writes, const char* operation) {
    const auto [first, last] = share_of<Warps>(S::rows);
    machine::note_rows(tile, first, last - first, writes, operation);
}

// f(i) for the calling warp's elements of a vector.
template <int Warps, int Length, class F>
void deal_vector(F&& f) {
    const auto [first, last] = share_of<Warps>(Length);
    for (int i = first; i < last; ++i) f(i);
}
// Notes that it accesses them, or all of them.
template <int Warps, shared_vector V>
void note_vector(const V& vector, bool writes, const char* operation, bool all = false) {
    const auto [first, last] = all ? share{0, V::length} : share_of<Warps>(V::length);
    machine::note_elements(vector, first, last - first, writes, operation);
}
// Notes that the calling warp writes 16 of them.
template <shared_vector V>
void note_part(const V& vector, int first, const char* operation) {
    machine::note_elements(vector, first, 16, true, operation);
}

}  // namespace detail

TK_NAMESPACE_END
