// Copies between registers and shared memory on sm90: matrices of 8 rows of 16 bytes by ldmatrix
// and stmatrix (PTX ISA), and fp32 by pairs.
#pragma once
#include <cute/arch/copy_sm75.hpp>
#include <cute/arch/copy_sm90.hpp>

#include "tk/arch/sm90/relayout.hpp"
#include "tk/arch/sm90/sync.hpp"
#include "tk/tile/place.hpp"
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// Where in the group's tile the calling lane's row of `ldmatrix` and `stmatrix` is.
template <int Warps, class R>
TK_DEVICE coord matrix_row(int across, int along) {
    const coord own = R::matrix_row(lane(), across, along);
    return {0, group_row<Warps>(own.row), own.col};
}

template <bool Transposed, int Matrices>
TK_DEVICE void load_matrices(uint32_t (&to)[4], const void* row) {
    const auto& from = *static_cast<const cute::uint128_t*>(row);
    if constexpr (Matrices == 4 && !Transposed) {
        cute::SM75_U32x4_LDSM_N::copy(from, to[0], to[1], to[2], to[3]);
    } else if constexpr (Matrices == 4) {
        cute::SM75_U16x8_LDSM_T::copy(from, to[0], to[1], to[2], to[3]);
    } else if constexpr (!Transposed) {
        cute::SM75_U32x2_LDSM_N::copy(from, to[0], to[1]);
    } else {
        cute::SM75_U16x4_LDSM_T::copy(from, to[0], to[1]);
    }
}
template <bool Transposed, int Matrices>
TK_DEVICE void store_matrices(void* row, const uint32_t (&from)[4]) {
    auto& to = *static_cast<cute::uint128_t*>(row);
    if constexpr (Matrices == 4 && !Transposed) {
        cute::SM90_U32x4_STSM_N::copy(from[0], from[1], from[2], from[3], to);
    } else if constexpr (Matrices == 4) {
        cute::SM90_U16x8_STSM_T::copy(from[0], from[1], from[2], from[3], to);
    } else if constexpr (!Transposed) {
        cute::SM90_U32x2_STSM_N::copy(from[0], from[1], to);
    } else {
        cute::SM90_U16x4_STSM_T::copy(from[0], from[1], to);
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
            exchange_neighbours(converted, src);
            store(dst, converted);
        } else if constexpr (sizeof(T) == 4 || (sizeof(T) == 1 && !R::is_row)) {
            by_elements<R>([&](int row, int col, int i, int count) {
                T* to = dst.data + dst.index(row, col);
                if constexpr (R::is_row) {
                    *reinterpret_cast<float2*>(to) =
                        make_float2(convert<float>(src.data[i]), convert<float>(src.data[i + 1]));
                } else {
                    *to = convert<T>(src.data[i]);
                }
            });
        } else {
            by_matrices<R>([&]<int Matrices>(int across, int along) {
                uint32_t packed[4];
                TK_UNROLL
                for (int p = 0; p < Matrices; ++p) {
                    packed[p] = bits<T>(src.data + R::index(across, along + p / 2, p % 2, 0));
                }
                const coord at = matrix_row<Warps, R>(across, along);
                store_matrices<!R::is_row, Matrices>(dst.data + dst.index(at.row, at.col), packed);
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
            if constexpr (same_places<R, decltype(unconverted)>) {
                TK_UNROLL
                for (int i = 0; i < R::elements; i += 2) {
                    store_pair(dst.data + i, convert<float>(unconverted.data[i]),
                               convert<float>(unconverted.data[i + 1]));
                }
            } else {
                exchange_neighbours(dst, unconverted);
            }
        } else if constexpr (sizeof(T) == 4 || (sizeof(T) == 1 && !R::is_row)) {
            by_elements<R>([&](int row, int col, int i, int count) {
                const T* from = src.data + src.index(row, col);
                if constexpr (R::is_row) {
                    const float2 pair = *reinterpret_cast<const float2*>(from);
                    dst.data[i] = pair.x, dst.data[i + 1] = pair.y;
                } else {
                    dst.data[i] = *from;
                }
            });
        } else {
            by_matrices<R>([&]<int Matrices>(int across, int along) {
                const coord at = matrix_row<Warps, R>(across, along);
                uint32_t packed[4];
                load_matrices<!R::is_row, Matrices>(packed, src.data + src.index(at.row, at.col));
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

    // f<number of matrices>(block across, first block along) for every one or two blocks along.
    template <class R, class F>
    static TK_DEVICE void by_matrices(F&& f) {
        TK_UNROLL
        for (int i = 0; i < R::blocks_across; ++i) {
            TK_UNROLL
            for (int j = 0; j + 1 < R::blocks_along; j += 2) f.template operator()<4>(i, j);
            if constexpr (R::blocks_along % 2 == 1) {
                f.template operator()<2>(i, R::blocks_along - 1);
            }
        }
    }
    // f(row, column, index into data, elements) for neighbours that lie side by side in memory.
    template <class R, class F>
    static TK_DEVICE void by_elements(F&& f) {
        constexpr int count = R::is_row ? R::neighbours : 1;
        R::for_each([&](int i, int row, int col, int, int) {
            if (i % count == 0) f(group_row<Warps>(row), col, i, count);
        });
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
