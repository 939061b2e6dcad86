// The layouts of sm90 as algebra, without a GPU: register tiles and vectors lane by lane, against
// the fragments that CuTe's atoms state; swizzled shared tiles and their parts; the addresses of
// ldmatrix and stmatrix. Prints "ok", or what is wrong.
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "tk/tile/st.hpp"

// The calling lane, which the GPU has in this variable.
struct thread_index {
    unsigned x = 0;
};
static thread_index threadIdx;

#include "tk/arch/sm90/rt.hpp"

#include <cute/atom/mma_traits_sm80.hpp>
#include <cute/atom/mma_traits_sm89.hpp>
#include <cute/atom/mma_traits_sm90_gmma.hpp>

namespace {

using namespace tk;

int faults = 0;
void expect(bool right, const std::string& what) {
    if (!right && ++faults <= 20) std::printf("%s\n", what.c_str());
}

// Every element is held once, where `thread_value_layout` says; a row's and a column's values lie
// at their places in col_vec and row_vec of the same lane.
// Where a lane's address of ldmatrix and stmatrix is, as the copies have it.
template <class R>
tk::detail::place matrix_row(int lane, int across, int along) {
    return tk::detail::matrix_place<R::is_row, R::is_row ? 4 * R::neighbours : 8>(lane, across,
                                                                                  along);
}

template <class R>
void check_register_tile(const std::string& name) {
    std::vector<int> held(size_t(R::rows * R::cols));
    for (int lane = 0; lane < 32; ++lane) {
        threadIdx.x = unsigned(lane);
        std::set<int> indices;
        R::for_each([&](int i, int row, int col, int of_col, int of_row) {
            indices.insert(i);
            ++held[size_t(row * R::cols + col)];
            expect(R::thread_value_layout()(lane, i) == row + R::rows * col,
                   name + ": thread_value_layout");
            expect(R::row_vec::position(of_col) == col, name + ": row_vec");
            expect(R::col_vec::position(of_row) == row, name + ": col_vec");
        });
        expect(int(indices.size()) == R::elements && *indices.rbegin() == R::elements - 1,
               name + ": not every register is one element");
    }
    for (const int times : held) expect(times == 1, name + " holds an element not once");

    // Matrices of 8 rows of 16 bytes: over all of a copy's instructions every 16 bytes once, and
    // row `lane / 4` of a matrix holds what that lane holds (of the transposed one, in the column
    // layout).
    if constexpr (sizeof(typename R::dtype) < 4 && (sizeof(typename R::dtype) > 1 || R::is_row)) {
        constexpr int width = 16 / int(sizeof(typename R::dtype));
        std::vector<int> touched(held.size());
        for (int across = 0; across < R::blocks_across; ++across) {
            for (int along = 0; along < R::blocks_along; along += 2) {
                const int matrices = along + 1 < R::blocks_along ? 4 : 2;
                for (int address = 0; address < 8 * matrices; ++address) {
                    const auto at = matrix_row<R>(address, across, along);
                    for (int i = 0; i < width; ++i) {
                        ++touched[size_t(at.row * R::cols + at.col + i)];
                    }
                }
                for (int matrix = 0; matrix < matrices; ++matrix) {
                    for (int lane = 0; lane < 32; ++lane) {
                        for (int n = 0; n < R::neighbours; ++n) {
                            const int line = lane / 4, step = lane % 4 * R::neighbours + n;
                            const auto from = matrix_row<R>(matrix * 8 + (R::is_row ? line : step),
                                                            across, along);
                            const int row = from.row, col = from.col + (R::is_row ? step : line);
                            const int i = R::index(across, along + matrix / 2, matrix % 2, n);
                            expect(R::thread_value_layout()(lane, i) == row + R::rows * col,
                                   name + ": a matrix's element goes to another lane");
                        }
                    }
                }
            }
        }
        for (const int times : touched) expect(times == 1, name + ": touched not once by matrices");
    }
}

template <class T>
void check_register_tiles(const std::string& type) {
    check_register_tile<rt<T, 16, 32>>("rt<" + type + ", 16, 32>");
    check_register_tile<rt<T, 64, 64>>("rt<" + type + ", 64, 64>");
    check_register_tile<rt<T, 48, 96>>("rt<" + type + ", 48, 96>");
    check_register_tile<rt<T, 32, 16, col_layout>>("rt<" + type + ", 32, 16, col>");
    check_register_tile<rt<T, 64, 48, col_layout>>("rt<" + type + ", 64, 48, col>");
    if constexpr (sizeof(T) > 1) {
        check_register_tile<rt<T, 16, 8>>("rt<" + type + ", 16, 8>");
        check_register_tile<rt<T, 32, 24>>("rt<" + type + ", 32, 24>");
        check_register_tile<rt<T, 24, 32, col_layout>>("rt<" + type + ", 24, 32, col>");
    }
}

template <class V>
void check_vector(const std::string& name) {
    constexpr int times = V::layout == vector_layout::naive        ? 1
                          : V::layout == vector_layout::units      ? 1
                          : V::layout == vector_layout::orthogonal ? 4
                                                                   : 8;
    std::vector<int> held(size_t(V::length)), owned(size_t(V::length));
    for (int lane = 0; lane < 32; ++lane) {
        threadIdx.x = unsigned(lane);
        V::for_each([&](int i, int place) {
            expect(place == V::position(i) && i < V::elements && place < V::length, name);
            ++held[size_t(place)];
            owned[size_t(place)] += V::is_owner();
        });
    }
    for (const int each : held) expect(each == times, name + " holds an element too often, or not");
    for (const int each : owned) expect(each == 1, name + " has an element without one owner");
}

// The fragments of the tensor cores' atoms, as CuTe states them.
void check_atoms() {
    using namespace cute;
    using sixteen = MMA_Traits<SM80_16x8x16_F32BF16BF16F32_TN>;
    using eight = MMA_Traits<SM89_16x8x32_F32E4M3E4M3F32_TN>;
    for (int lane = 0; lane < 32; ++lane) {
        for (int v = 0; v < 8; ++v) {  // (M, K)
            expect(rt<bf16, 16, 16>::thread_value_layout()(lane, v) == sixteen::ALayout{}(lane, v),
                   "A of m16n8k16");
        }
        for (int v = 0; v < 16; ++v) {
            expect(rt<e4m3, 16, 32>::thread_value_layout()(lane, v) == eight::ALayout{}(lane, v),
                   "A of m16n8k32");
        }
        for (int v = 0; v < 4; ++v) {  // (M, N)
            expect(rt<float, 16, 8>::thread_value_layout()(lane, v) == sixteen::CLayout{}(lane, v),
                   "C of m16n8k16");
            // B is (N, K): a column layout of (K, N), 16 columns for two atoms
            for (int atom = 0; atom < 2; ++atom) {
                const int stated = sixteen::BLayout{}(lane, v), n = stated % 8, k = stated / 8;
                using tile = rt<bf16, 16, 16, col_layout>;
                const int i = tile::index(0, v / 2, atom, v % 2);
                expect(tile::thread_value_layout()(lane, i) == k + 16 * (n + 8 * atom),
                       "B of m16n8k16");
            }
        }
        for (int v = 0; v < 8; ++v) {
            for (int atom = 0; atom < 2; ++atom) {
                const int stated = eight::BLayout{}(lane, v), n = stated % 8, k = stated / 8;
                using tile = rt<e4m3, 32, 16, col_layout>;
                const int i = tile::index(0, v / 4, atom, v % 4);
                expect(tile::thread_value_layout()(lane, i) == k + 32 * (n + 8 * atom),
                       "B of m16n8k32");
            }
        }
        for (int warp = 0; warp < 4; ++warp) {  // of 64 rows, each warp 16
            for (int v = 0; v < 48; ++v) {
                const int own = rt<float, 16, 96>::thread_value_layout()(lane, v);
                expect(SM90::GMMA::CLayout_64x96{}(warp * 32 + lane, v) ==
                           own % 16 + 16 * warp + 64 * (own / 16),
                       "C of wgmma m64n96");
            }
        }
    }
}

// --- Shared tiles ---

template <class S>
void check_shared_tile() {
    const std::string name = "st of " + std::to_string(sizeof(typename S::dtype)) + " bytes, " +
                             std::to_string(S::rows) + " x " + std::to_string(S::cols) + ", " +
                             std::to_string(S::swizzle_bytes);
    alignas(1024) static S tile;
    std::vector<int> held(size_t(S::rows * S::cols));
    for (int row = 0; row < S::rows; ++row) {
        for (int col = 0; col < S::cols; ++col) {
            const int at = S::offset(row, col);
            expect(at >= 0 && at < S::rows * S::cols, name + ": outside");
            if (at >= 0 && at < S::rows * S::cols) ++held[size_t(at)];
            expect(&tile.tensor()(row, col) == tile.data + at, name + ": tensor()");
            expect(&tile.tensor_t()(col, row) == tile.data + at, name + ": tensor_t()");
            constexpr int width = 16 / int(sizeof(typename S::dtype));
            expect(at - col % width == S::offset(row, col - col % width), name + ": 16 bytes");
        }
    }
    for (const int times : held) expect(times == 1, name + " is no bijection");
    const auto check_part = [&](auto part, int row_0, int col_0) {
        for (int row = 0; row < part.rows; ++row) {
            for (int col = 0; col < part.cols; ++col) {
                const int at = S::offset(row_0 + row, col_0 + col);
                expect(part.index(row, col) == at, name + ": a part's index");
                if constexpr (decltype(part)::is_operand) {
                    expect(&part.tensor()(row, col) == tile.data + at, name + ": a part's tensor");
                    expect(&part.tensor_t()(col, row) == tile.data + at,
                           name + ": a part's tensor_t");
                }
            }
        }
    };
    constexpr int rows = S::rows / 2, cols = S::cols / 2;
    for (int r = 0; r < 2; ++r) {
        for (int c = 0; c < 2; ++c) {
            check_part(tile.template subtile<rows, cols>(r, c), r * rows, c * cols);
        }
    }
}
template <class T, int Rows, int Cols>
void check_swizzles() {
    constexpr int bytes = Cols * int(sizeof(T));
    check_shared_tile<st<T, Rows, Cols>>();
    if constexpr (bytes % 16 == 0) check_shared_tile<st<T, Rows, Cols, 0>>();
    if constexpr (bytes % 32 == 0) check_shared_tile<st<T, Rows, Cols, 32>>();
    if constexpr (bytes % 64 == 0) check_shared_tile<st<T, Rows, Cols, 64>>();
    if constexpr (bytes % 128 == 0) check_shared_tile<st<T, Rows, Cols, 128>>();
}
template <class T>
void check_shared_tiles() {
    constexpr int unit = 32 / int(sizeof(T));  // columns in 32 bytes
    check_swizzles<T, 16, unit>();
    check_swizzles<T, 64, 4 * unit>();
    check_swizzles<T, 24, 6 * unit>();
    check_swizzles<T, 32, 8 * unit>();
}

}  // namespace

int main() {
    check_register_tiles<float>("fp32");
    check_register_tiles<bf16>("bf16");
    check_register_tiles<e4m3>("e4m3");
    check_vector<rv<float, 40>>("rv<40>");
    check_vector<rv<bf16, 7>>("rv<7>");
    check_vector<rv<bf16, 24, vector_layout::aligned>>("rv<24, aligned>");
    check_vector<rv<e4m3, 48, vector_layout::aligned_4>>("rv<48, aligned_4>");
    check_vector<rv<float, 48, vector_layout::orthogonal>>("rv<48, orthogonal>");
    check_vector<rv<bf16, 256, vector_layout::units>>("rv<256, units>");
    check_vector<rv<float, 32, vector_layout::units>>("rv<32, units>");
    check_atoms();
    check_shared_tiles<float>();
    check_shared_tiles<bf16>();
    check_shared_tiles<e4m3>();
    if (faults == 0) std::printf("ok\n");
    return faults == 0 ? 0 : 1;
}
