// How the lanes of a group share the elements of shared tiles and vectors.
#pragma once
#include "tk/arch/sm90/sync.hpp"
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// f(row, col) for every `Width` columns of a tile: neighbouring lanes take neighbouring columns, or
// neighbouring rows. The operation's name, and the tiles it reads and writes, are for the host.
template <int Warps, int Width, int Rows, int Cols, class F>
TK_DEVICE void deal(bool rows_fastest, F&& f) {
    constexpr int vectors = Cols / Width;
    TK_NO_UNROLL
    for (int i = int(threadIdx.x) % (Warps * 32); i < Rows * vectors; i += Warps * 32) {
        if (rows_fastest) {
            f(i % Rows, i / Rows * Width);
        } else {
            f(i / vectors, i % vectors * Width);
        }
    }
}
template <int Warps, shared_tile S>
TK_DEVICE void note_tile(const S&, bool, const char*) {}

// f(i) for the elements of a vector.
template <int Warps, int Length, class F>
TK_DEVICE void deal_vector(F&& f) {
    TK_NO_UNROLL
    for (int i = int(threadIdx.x) % (Warps * 32); i < Length; i += Warps * 32) f(i);
}
template <int Warps, shared_vector V>
TK_DEVICE void note_vector(const V&, bool, const char*, bool = false) {}
template <shared_vector V>
TK_DEVICE void note_part(const V&, int, const char*) {}

}  // namespace detail

TK_NAMESPACE_END
