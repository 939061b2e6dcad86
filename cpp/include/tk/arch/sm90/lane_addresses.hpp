// Addresses in shared memory of a lane's places in a tile, stepped from the first one.
#pragma once
#include "tk/arch/sm90/sync.hpp"
#include "tk/tile/lane_places.hpp"
#include "tk/tile/place.hpp"
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// What lies at an address in shared memory; the compiler sees that it is there.
template <class T>
TK_DEVICE T& shared_at(uint32_t address) {
    return *static_cast<T*>(__cvta_shared_to_generic(address));
}

// Where a lane's places in a group's tile are, which lie a multiple of 8 rows, and a multiple of a
// block's columns, from its first one: the swizzle is worked out once, and a step within a panel is
// an exclusive or. (The layout's function costs several instructions a place; the compiler does not
// see that its parts do not change.) The steps are compile-time numbers once loops are unrolled.
template <int Warps, class S>
struct lane_addresses {
    using T = typename S::dtype;
    // A part that neither divides a panel nor is made of panels starts anywhere in one.
    static constexpr bool by_steps =
        whole_shared_tile<S> || S::cols % S::panel_cols == 0 || S::panel_cols % S::cols == 0;
    static constexpr int panel_bytes = S::panel_cols * int(sizeof(T));
    const S& tile;
    place lane_place;
    uint32_t first;

    TK_DEVICE lane_addresses(const S& of, place at)
        : tile(of), lane_place(at), first(first_address()) {
        if constexpr (by_steps && Warps > 1) first += uint32_t(row_of_warp() * panel_bytes);
        // So that the compiler does not draw the steps into the swizzle, and work it out for each.
        if constexpr (by_steps) asm("" : "+r"(first));
    }

    // `col` changes the number of the place's block as an exclusive or.
    TK_DEVICE uint32_t at(int row, int col) const {
        const int rows = dealt_rows<Warps>(row);
        if constexpr (by_steps) {
            const int in_panel = col % S::panel_cols * int(sizeof(T));
            return (first ^ uint32_t(in_panel)) +
                   uint32_t((col / S::panel_cols * panel_rows() + rows) * panel_bytes);
        } else {
            return address(rows + row_of_warp(), col);
        }
    }

  private:
    static TK_DEVICE int row_of_warp() {
        if constexpr (Warps == 1) {
            return 0;
        } else {
            // not warp_index(): an address is no uniform number anyway
            return int(threadIdx.x / 32 % Warps * 16);
        }
    }
    static TK_DEVICE constexpr int panel_rows() {
        if constexpr (whole_shared_tile<S>) {
            return S::rows;
        } else {
            return S::whole::rows;
        }
    }
    TK_DEVICE uint32_t first_address() const {
        if constexpr (by_steps && whole_shared_tile<S> && S::swizzle_bytes > 0) {
            const uint32_t bytes = swizzled_bytes<S::swizzle_bytes>(lane_place, int(sizeof(T)));
            return shared_address(tile.data) + bytes;
        } else {
            return address(0, 0);
        }
    }
    TK_DEVICE uint32_t address(int row, int col) const {
        return shared_address(tile.data + tile.index(lane_place.row + row, lane_place.col ^ col));
    }
};

}  // namespace detail

TK_NAMESPACE_END
