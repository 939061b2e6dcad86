// Copies between registers and shared memory on the host.
#pragma once
#include "tk/arch/host/deal.hpp"
#include "tk/tile/place.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <int Warps>
struct register_copy_ops {
    // Registers to shared memory, rounding to the tile's dtype. The shared tile has Warps times the
    // rows: 16-row block i of warp w is rows 16 (Warps i + w) onwards, as WGMMA has it.
    template <class S, register_tile R>
        requires shared_tile<std::remove_cvref_t<S>>
    static void store(S&& dst, const R& src) {
        using tile = std::remove_cvref_t<S>;
        each<tile, R>(dst, true, "store", [&](int row, int col, int i) {
            dst.data[dst.index(row, col)] = convert<typename tile::dtype>(src.data[i]);
        });
    }
    // Shared memory to registers, converted to the register tile's dtype.
    template <register_tile R, shared_tile S>
    static void load(R& dst, const S& src) {
        each<S, R>(src, false, "load", [&](int row, int col, int i) {
            dst.data[i] = convert<typename R::dtype>(src.data[src.index(row, col)]);
        });
    }

  private:
    template <class S, class R, class F>
    static void each(const S& tile, bool writes, const char* operation, F&& f) {
        static_assert(S::rows == R::rows * Warps && S::cols == R::cols,
                      "load, store: the shared tile must have the group's rows and columns");
        static_assert(Warps == 1 || R::rows % 16 == 0,
                      "load, store: a warp's rows must be a multiple of 16");
        for (int r = 0; r < R::rows; ++r) {
            const int row = group_row<Warps>(r);
            if (r % 16 == 0) {
                machine::note_rows(tile, row, std::min(16, R::rows - r), writes, operation);
            }
            for (int col = 0; col < R::cols; ++col) f(row, col, r * R::cols + col);
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
