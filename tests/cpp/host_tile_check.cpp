// Tile operations of the emulated machine: products, loads and stores, and what it says of their
// misuse. See host_check.hpp.
#include <cmath>
#include <limits>

#include "host_check.hpp"

namespace {

using namespace host_check;

template <class T>
std::vector<T> numbers(int64_t count) {
    std::vector<T> result;
    for (int64_t i = 0; i < count; ++i) result.push_back(T(float(i % 61 - 30)));
    return result;
}

const test_table tests = {
    {"unwritten_memory_and_registers_are_nan",
     [] {
         std::atomic<int> wrong{0};
         run([&] {
             rt_fl<16, 16> tile;
             rv_fl<16> vector;
             for (const float x : tile.data) wrong += !std::isnan(x);
             for (const float x : vector.data) wrong += !std::isnan(x);
             for (const float x : memory().numbers.data) wrong += !std::isnan(x);
             for (const bf16 x : memory().tiles[3].data) wrong += !std::isnan(float(x));
         });
         require(wrong == 0, std::to_string(wrong) + " elements");
     }},
    {"products_must_be_waited_for",
     [] {
         fails({"exits with matrix products in flight"}, [] {
             rt_fl<16, 64> product;
             warp::zero(product);
             if (warpgroup::groupid() == 0) {
                 warpgroup::mma_AB(product, memory().tiles[0], memory().tiles[1]);
             }
         });
     }},
    {"an_accumulator_is_nan_until_its_product_is_waited_for",
     [] {
         std::atomic<int> numbers{0};
         run([&] {
             rt_fl<16, 64> product, zeros;
             warp::zero(zeros);
             bf_tile& a = memory().tiles[0];
             if (warpgroup::groupid() == 1) return;
             warpgroup::store(a, zeros);
             fence_async_proxy();
             warpgroup::sync(1);
             warpgroup::mma_AB(product, a, a, false);
             for (const float x : product.data) numbers += !std::isnan(x);
             warpgroup::mma_AB(product, a, a);
             warpgroup::mma_async_wait<1>(product);
             for (const float x : product.data) numbers += !std::isnan(x);
             warpgroup::mma_async_wait<0>(product);
             for (const float x : product.data) numbers += x != 0.0f;
         });
         require(numbers == 0, std::to_string(numbers) + " elements");
     }},
    {"an_accumulator_must_not_be_written_in_flight",
     [] {
         fails({"the accumulator was written while a product was in flight"}, [] {
             rt_fl<16, 64> product;
             if (warpgroup::groupid() == 1) return;
             warpgroup::mma_AB(product, memory().tiles[0], memory().tiles[1], false);
             warp::zero(product);
             warpgroup::mma_async_wait<0>(product);
         });
     }},
    {"a_wait_names_every_register_tile_in_flight",
     [] {
         fails({"does not name every register tile"}, [] {
             rt_fl<16, 64> one, two;
             if (warpgroup::groupid() == 1) return;
             warpgroup::mma_AB(one, memory().tiles[0], memory().tiles[1], false);
             warpgroup::mma_AB(two, memory().tiles[0], memory().tiles[1], false);
             warpgroup::mma_async_wait<0>(one);
         });
     }},
    {"ordinary_stores_need_a_fence_before_a_product",
     [] {
         fails({"mma of st<bf16, 64, 64>", "store to st<bf16, 64, 64>", "no fence_async_proxy"},
               [] {
                   rt_fl<16, 64> product;
                   warp::zero(product);
                   if (warpgroup::groupid() == 1) return;
                   warpgroup::store(memory().tiles[0], product);
                   warpgroup::sync(1);
                   warpgroup::mma_AB(product, memory().tiles[0], memory().tiles[0]);
                   warpgroup::mma_async_wait<0>(product);
               });
     }},
    {"a_fence_after_the_barrier_is_too_late",
     [] {
         fails({"no fence_async_proxy of that warp, and barrier after it"}, [] {
             rt_fl<16, 64> product;
             warp::zero(product);
             if (warpgroup::groupid() == 1) return;
             warpgroup::store(memory().tiles[0], product);
             warpgroup::sync(1);
             fence_async_proxy();
             warpgroup::mma_AB(product, memory().tiles[0], memory().tiles[0]);
             warpgroup::mma_async_wait<0>(product);
         });
     }},
    {"loads_clip_and_fill_with_zero",
     [] {
         auto data = numbers<float>(3 * 40 * 24);
         const auto matrix = make_gl<fl_gl>(data.data(), {3, 40, 20}, {0, 40 * 24, 24});
         std::atomic<int> wrong{0};
         for (const coord at :
              {coord{1, 0, 0}, coord{2, 30, 8}, coord{0, -5, -4}, coord{3, 0, 0}}) {
             run([&] {
                 init(1);
                 if (!first_warp()) return;
                 warp::expect_bytes(memory().ready[0], fl_tile::bytes);
                 tma::load_async(memory().numbers, matrix, at, memory().ready[0]);
                 wait(memory().ready[0], 0);
                 for (int row = 0; row < 64; ++row) {
                     for (int col = 0; col < 32; ++col) {
                         const int r = at.row + row, c = at.col + col;
                         const bool inside = r >= 0 && r < 40 && c >= 0 && c < 20 && at.depth < 3;
                         const float right =
                             inside ? data[size_t(at.depth * 960 + r * 24 + c)] : 0.0f;
                         wrong += memory().numbers.data[fl_tile::offset(row, col)] != right;
                     }
                 }
             });
         }
         require(wrong == 0, std::to_string(wrong) + " elements");
     }},
    {"stores_clip_and_read_their_tile_at_the_wait",
     [] {
         std::vector<float> data(40 * 24, -1.0f);
         const auto matrix = make_gl<fl_gl>(data.data(), {40, 20}, {0, 0, 24});
         run([&] {
             rt_fl<16, 32> values;
             std::fill_n(values.data, values.elements, 2.0f);
             if (warpgroup::groupid() == 1) return;
             warpgroup::store(memory().numbers, values);
             fence_async_proxy();
             warpgroup::sync(1);
             if (warpgroup::warpid() == 0) {
                 tma::store_async(matrix, memory().numbers, {0, 8, 4});
                 require(data[8 * 24 + 4] == -1.0f, "written at once");
                 tma::store_async_wait();
                 require(data[8 * 24 + 4] == 2.0f, "not written at the wait");
             }
         });
         for (int r = 0; r < 40; ++r) {
             for (int c = 0; c < 24; ++c) {
                 const float right = r >= 8 && c >= 4 && c < 20 ? 2.0f : -1.0f;
                 require(data[size_t(r * 24 + c)] == right, "a wrong element");
             }
         }
     }},
    {"a_store_must_be_waited_for",
     [] {
         std::vector<float> data(64 * 32);
         const auto matrix = make_gl<fl_gl>(data.data(), {64, 32}, {0, 0, 32});
         fails({"exits while a TMA store has still to read its tile"}, [&] {
             if (first_warp()) tma::store_async(matrix, memory().numbers, {0, 0, 0});
         });
     }},
    {"a_load_must_be_waited_for",
     [] {
         auto data = numbers<float>(64 * 32);
         const auto matrix = make_gl<fl_gl>(data.data(), {64, 32}, {0, 0, 32});
         fails({"waited for", "load_async to st<float, 64, 32>"}, [&] {
             init(1);
             if (!first_warp()) return;
             warp::expect_bytes(memory().ready[0], fl_tile::bytes);
             tma::load_async(memory().numbers, matrix, {0, 0, 0}, memory().ready[0]);
         });
     }},
    {"a_multicast_load_reaches_every_block",
     [] {
         auto data = numbers<float>(64 * 32);
         const auto matrix = make_gl<fl_gl>(data.data(), {64, 32}, {0, 0, 32}, 2);
         std::atomic<int> wrong{0};
         run(
             [&] {
                 init(1);
                 if (first_warp()) {
                     warp::expect_bytes(memory().ready[0], fl_tile::bytes);
                     tma::cluster::load_async(memory().numbers, matrix, {0, 0, 0},
                                              memory().ready[0], {2, cluster::rank(), 3});
                     wait(memory().ready[0], 0);
                     for (int i = 0; i < 64 * 32; ++i) {
                         wrong += memory().numbers.data[fl_tile::offset(i / 32, i % 32)] !=
                                  data[size_t(i)];
                     }
                 }
                 cluster::sync();
             },
             {4, 2});
         require(wrong == 0, std::to_string(wrong) + " elements");
     }},
    {"masks_hold_for_lines_beyond_every_tile",
     [] {
         constexpr int most = std::numeric_limits<int>::max(), least = -most - 1;
         std::atomic<int> wrong = 0;
         run([&] {
             if (!first_warp()) return;
             rt_fl<16, 64> ones, masked;
             warp::one(ones);
             const auto keeps = [&](int elements) {
                 if (int(warp::sum(masked)) != elements) ++wrong;
             };
             const int corners[][2] = {{0, 64}, {64, 0}, {0, most}, {most, 0}};
             for (const auto& [row, col] : corners) {
                 if (row + int64_t(col) == 64) {
                     warp::make_window(masked, ones, 0.0f, most, most, row, col), keeps(1024);
                 }
                 warp::make_window(masked, ones, 0.0f, -1, -1, row, col), keeps(1024);
                 warp::make_window(masked, ones, 0.0f, 0, 0, row, col), keeps(0);
                 warp::make_causal(masked, ones, 0.0f, row, col, 0), keeps(row > col ? 1024 : 0);
             }
             // A near end that is far from the origin: columns -10 to 0 of each row.
             warp::make_window(masked, ones, 0.0f, 0, 700000010, 0, 700000000);
             keeps(16 * 11 + 15 * 16 / 2);
             warp::make_causal(masked, ones, 0.0f, most, 0, most), keeps(1024);
             warp::make_causal(masked, ones, 0.0f, 0, most, least), keeps(0);
             warp::tril(masked, ones, most), keeps(1024);
             warp::tril(masked, ones, least), keeps(0);
             warp::triu(masked, ones, most), keeps(0);
             warp::triu(masked, ones, least), keeps(1024);
             warp::left_fill(masked, ones, most), keeps(0);
             warp::left_fill(masked, ones, least), keeps(1024);
             warp::right_fill(masked, ones, most), keeps(1024);
             warp::right_fill(masked, ones, least), keeps(0);
             warp::upper_fill(masked, ones, most), keeps(0);
             warp::upper_fill(masked, ones, least), keeps(1024);
             warp::lower_fill(masked, ones, most), keeps(1024);
             warp::lower_fill(masked, ones, least), keeps(0);
         });
         require(wrong == 0, std::to_string(wrong) + " masks");
     }},
    {"a_load_for_another_box_is_an_error",
     [] {
         auto data = numbers<float>(64 * 32);
         const auto halves = make_gl<fl_gl>(data.data(), {64, 32}, {0, 0, 32}, 2);
         fails({"64 rows", "box of 32 rows"}, [&] {
             init(1);
             if (!first_warp()) return;
             tma::load_async(memory().numbers, halves, {0, 0, 0}, memory().ready[0]);
         });
     }},
};

}  // namespace

int main(int count, char** arguments) { return run_tests(tests, count, arguments); }
