// The emulated machine itself: what each operation does, and what it says of each misuse.
//
//   host_machine_check list      the names of the tests
//   host_machine_check NAME...   runs them; one line for each that fails, exit status 1
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tk/tk.hpp"

namespace {

using namespace tk;
using bf_tile = st_bf<64, 64>;
using fl_tile = st_fl<64, 32>;

void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
}

// A kernel that is a function, of two warpgroups.
struct script {
    static constexpr int num_threads = 256;
    using globals = std::function<void()>;
    static void run(const globals& body) { body(); }
};
struct place {
    int grid = 1, cluster = 1;
    int64_t bytes = 65536;
};
void run(const script::globals& body, place at = {}) {
    launch<script>(body, {at.grid, at.cluster, at.bytes, 0, nullptr});
}
// The launch must fail with a message in which all the words occur, and the machine must work on.
void fails(const std::vector<std::string>& words, const script::globals& body, place at = {}) {
    std::string message;
    try {
        run(body, at);
    } catch (const std::runtime_error& error) {
        message = error.what();
    }
    for (const std::string& word : words) {
        require(message.find(word) != std::string::npos,
                "\"" + word + "\" is not in the message: " + message);
    }
    run([] {});
}

// Three warpgroups that ask for 8 registers a lane more than there are.
struct greedy {
    static constexpr int num_threads = 384;
    struct globals {};
    static void run(const globals&) {
        if (warpgroup::groupid() == 0) {
            decrease_registers<32>();
        } else {
            increase_registers<240>();
        }
    }
};

// Shared memory of the scripts.
struct memory_block {
    bf_tile tiles[4];
    fl_tile numbers;
    semaphore ready[4];
    int vote;
};
memory_block& memory() { return *reinterpret_cast<memory_block*>(shared_memory()); }
void init(int arrivals) {
    if (warp::groupid() == 0) {
        init_semaphores(memory().ready, 4, arrivals, "ready");
        fence_semaphore_init();
    }
    cluster::sync();
}
bool first_warp() { return warp::groupid() == 0; }

template <class T>
std::vector<T> numbers(int64_t count) {
    std::vector<T> result;
    for (int64_t i = 0; i < count; ++i) result.push_back(T(float(i % 61 - 30)));
    return result;
}

const std::map<std::string, void (*)()> tests = {
    {"unwritten_memory_and_registers_are_nan",
     [] {
         std::atomic<int> wrong{0};
         run([&] {
             rt_fl<16, 16> tile;
             row_vec<float, 16> vector;
             for (const float x : tile.data) wrong += !std::isnan(x);
             for (const float x : vector.data) wrong += !std::isnan(x);
             for (const float x : memory().numbers.data) wrong += !std::isnan(x);
             for (const bf16 x : memory().tiles[3].data) wrong += !std::isnan(float(x));
         });
         require(wrong == 0, std::to_string(wrong) + " elements");
     }},
    {"a_deadlock_is_known_at_once_and_names_warp_barrier_and_phase",
     [] {
         const auto start = std::chrono::steady_clock::now();
         fails({"deadlock", "warp 5 of block 0 waits for ready[2], phase 0",
                "3 of 4 arrivals outstanding"},
               [] {
                   init(4);
                   if (first_warp()) warp::arrive(memory().ready[2]);
                   if (warp::groupid() == 5) wait(memory().ready[2], 0);
               });
         const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
         require(took.count() < 5, "took " + std::to_string(took.count()) + " s");
     }},
    {"a_missing_partner_at_a_named_barrier_is_a_deadlock",
     [] {
         fails({"warps 4-6 of block 0 wait for named barrier[3]", "1 of 4 arrivals outstanding"},
               [] {
                   if (warpgroup::groupid() == 1 && warpgroup::warpid() < 3) warpgroup::sync(3);
               });
     }},
    {"polling_for_ever_is_ended_by_the_watchdog",
     [] {
         const double before = machine::settings().watchdog_seconds;
         machine::settings().watchdog_seconds = 0.3;
         fails({"watchdog", "warp 0 of block 0 waits for ready[1], phase 0"}, [] {
             init(1);
             if (first_warp()) {
                 while (!try_wait(memory().ready[1], 0)) {
                 }
             }
         });
         machine::settings().watchdog_seconds = before;
     }},
    {"two_groups_at_one_named_barrier_are_an_error",
     [] { fails({"named barrier[2]"}, [] { warpgroup::sync(2); }); }},
    {"a_turn_is_awaited_before_it_is_passed_again",
     [] {
         const auto turns = [](bool told) {
             init(4);
             for (int i = 0; i < 3; ++i) {
                 if (warpgroup::groupid() == 0) {
                     if (told && i > 0) wait(memory().ready[0], (i - 1) % 2);
                     warpgroup::pass_turn(5);
                 } else {
                     warpgroup::await_turn(5);
                     warp::arrive(memory().ready[0]);
                 }
             }
         };
         run([&] { turns(true); });
         fails({"named barrier[5]", "arrives"}, [&] { turns(false); });
     }},
    {"more_arrivals_than_expected_are_an_error",
     [] {
         // the phase cannot end, since bytes are outstanding
         fails({"ready[0]", "all the arrivals of this phase already", "512 bytes outstanding"}, [] {
             init(1);
             if (!first_warp()) return;
             warp::expect_bytes(memory().ready[0], 512);
             warp::arrive(memory().ready[0]);
         });
     }},
    {"an_exception_in_a_warp_ends_the_launch_with_its_message",
     [] {
         fails({"a fault of the kernel's own"}, [] {
             init(4);
             if (warp::groupid() == 7) throw std::runtime_error("a fault of the kernel's own");
             wait(memory().ready[0], 0);
         });
     }},
    {"a_semaphore_is_of_no_use_before_its_initialisation",
     [] {
         fails({"before init_semaphores"}, [] {
             if (first_warp()) warp::arrive(memory().ready[0]);
         });
     }},
    {"another_block_needs_the_fence_of_an_initialisation",
     [] {
         fails({"ready[0]", "without fence_semaphore_init"},
               [] {
                   if (first_warp()) init_semaphores(memory().ready, 4, 2, "ready");
                   cluster::sync();
                   if (first_warp()) cluster::arrive(memory().ready[0], 3);
                   cluster::sync();
               },
               {2, 2});
     }},
    {"arrivals_reach_every_block_of_the_mask",
     [] {
         run(
             [] {
                 init(4);
                 if (first_warp()) cluster::arrive(memory().ready[0], 15);
                 wait(memory().ready[0], 0);
                 cluster::sync();
             },
             {8, 4});
     }},
    {"a_block_must_not_exit_before_arrivals_from_others",
     [] {
         fails({"exit"},
               [] {
                   init(1);
                   if (first_warp() && cluster::rank() == 0) {
                       cluster::arrive(memory().ready[0], 2);
                   }
               },
               {2, 2});
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
         const auto matrix = make_gl<fl_tile>(data.data(), 3, 40, 20, 40 * 24, 24);
         std::atomic<int> wrong{0};
         for (const coord at :
              {coord{1, 0, 0}, coord{2, 30, 8}, coord{0, -5, -3}, coord{3, 0, 0}}) {
             run([&] {
                 init(1);
                 if (!first_warp()) return;
                 warp::expect_bytes(memory().ready[0], fl_tile::bytes);
                 tma::load_async(memory().numbers, matrix, at, memory().ready[0]);
                 wait(memory().ready[0], 0);
                 for (int row = 0; row < 64; ++row) {
                     for (int col = 0; col < 32; ++col) {
                         const int r = at.row + row, c = at.col + col;
                         const bool inside = r >= 0 && r < 40 && c >= 0 && c < 20 && at.batch < 3;
                         const float right =
                             inside ? data[size_t(at.batch * 960 + r * 24 + c)] : 0.0f;
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
         const auto matrix = make_gl<fl_tile>(data.data(), 1, 40, 20, 0, 24);
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
         const auto matrix = make_gl<fl_tile>(data.data(), 1, 64, 32, 0, 32);
         fails({"exits while a TMA store has still to read its tile"}, [&] {
             if (first_warp()) tma::store_async(matrix, memory().numbers, {0, 0, 0});
         });
     }},
    {"a_load_must_be_waited_for",
     [] {
         auto data = numbers<float>(64 * 32);
         const auto matrix = make_gl<fl_tile>(data.data(), 1, 64, 32, 0, 32);
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
         const auto matrix = make_gl<fl_tile>(data.data(), 1, 64, 32, 0, 32, 2);
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
    {"a_load_for_another_box_is_an_error",
     [] {
         auto data = numbers<float>(64 * 32);
         const auto halves = make_gl<fl_tile>(data.data(), 1, 64, 32, 0, 32, 2);
         fails({"64 rows", "box of 32 rows"}, [&] {
             init(1);
             if (!first_warp()) return;
             tma::load_async(memory().numbers, halves, {0, 0, 0}, memory().ready[0]);
         });
     }},
    {"registers_are_a_share_of_what_there_is",
     [] {
         run([] {
             if (warpgroup::groupid() == 0) {
                 decrease_registers<256>();
             } else {
                 increase_registers<256>();
             }
         });
         std::string message;
         try {
             launch<greedy>({}, {1, 1, 1024, 0, nullptr});
         } catch (const std::runtime_error& error) {
             message = error.what();
         }
         require(message.find("512 registers a lane together, of 504") != std::string::npos,
                 message);
     }},
    {"two_clusters_run_at_once",
     [] {
         std::atomic<int> started{0};
         run(
             [&] {
                 if (first_warp()) {
                     ++started;
                     while (started < 2) std::this_thread::yield();
                 }
             },
             {2, 1});
     }},
    {"launches_from_several_threads_do_not_meet",
     [] {
         std::atomic<int> blocks{0};
         std::vector<std::thread> threads;
         for (int i = 0; i < 4; ++i) {
             threads.emplace_back([&] {
                 for (int j = 0; j < 5; ++j) {
                     run(
                         [&] {
                             init(1);
                             if (first_warp()) ++blocks;
                             warpgroup::sync(1 + warpgroup::groupid());
                         },
                         {3, 1});
                 }
             });
         }
         for (std::thread& each : threads) each.join();
         require(blocks == 60, std::to_string(blocks) + " blocks");
     }},
    {"a_forked_child_can_launch",
     [] {
         run([] { warpgroup::sync(1 + warpgroup::groupid()); });
         const pid_t child = fork();
         if (child == 0) {
             run([] { warpgroup::sync(1 + warpgroup::groupid()); });
             _exit(0);
         }
         int status = 1;
         waitpid(child, &status, 0);
         require(status == 0, "the child ended with " + std::to_string(status));
     }},
    {"arrive_last_is_true_once_and_leaves_the_counter_at_zero",
     [] {
         int counter = 0;
         std::atomic<int> last{0};
         for (int i = 0; i < 3; ++i) {
             run(
                 [&] {
                     if (warpgroup::groupid() == 1) return;
                     if (warpgroup::arrive_last(&counter, 5, &memory().vote, 1)) ++last;
                 },
                 {5, 1});
             require(last == 4 * (i + 1), std::to_string(last) + " warps were of the last group");
             require(counter == 0, "the counter is " + std::to_string(counter));
         }
     }},
    {"what_tma_refuses_is_refused",
     [] {
         std::vector<bf16> data(4096);
         bf16* const base = data.data();
         const auto refuses = [](const std::string& word, auto&& make) {
             std::string message;
             try {
                 make();
             } catch (const std::runtime_error& error) {
                 message = error.what();
             }
             require(message.find(word) != std::string::npos, "\"" + word + "\": " + message);
         };
         refuses("the address is no multiple of 16",
                 [&] { make_gl<bf_tile>(base + 1, 1, 8, 8, 0, 8); });
         refuses("a stride is no multiple of 16", [&] { make_gl<bf_tile>(base, 1, 8, 8, 0, 9); });
         refuses("a stride is no multiple of 16", [&] { make_gl<bf_tile>(base, 2, 8, 8, 68, 8); });
         refuses("a stride is not in 16 to 2^40",
                 [&] { make_gl<bf_tile>(base, 1, 8, 8, 0, int64_t(1) << 39); });
         refuses("a stride is not in 16 to 2^40", [&] { make_gl<bf_tile>(base, 1, 8, 8, 0, 0); });
         refuses("a size is not in 1 to 2^32",
                 [&] { make_gl<bf_tile>(base, 1, (int64_t(1) << 32) + 1, 8, 0, 8); });
         refuses("1 to 256 rows", [&] { make_gl<st_bf<264, 64>>(base, 1, 8, 8, 0, 8); });
         // a dimension of size 1 may have any stride, and a batch stride of 0 is a broadcast
         make_gl<bf_tile>(base, 1, 1, 8, 3, 5);
         make_gl<bf_tile>(base, 4, 8, 8, 0, 8);
     }},
    {"what_the_gpu_cannot_launch_is_refused",
     [] {
         for (const place at : {place{0, 1, 0}, place{3, 2, 0}, place{1, 1, 232449}}) {
             bool refused = false;
             try {
                 run([] {}, at);
             } catch (const std::runtime_error&) {
                 refused = true;
             }
             require(refused, "a grid of " + std::to_string(at.grid));
         }
     }},
};

}  // namespace

int main(int count, char** arguments) {
    if (count == 2 && std::strcmp(arguments[1], "list") == 0) {
        for (const auto& [name, test] : tests) std::printf("%s\n", name.c_str());
        return 0;
    }
    int failures = 0;
    for (int i = 1; i < count; ++i) {
        try {
            tests.at(arguments[i])();
        } catch (const std::exception& error) {
            std::printf("%s: %s\n", arguments[i], error.what());
            ++failures;
        }
    }
    return failures == 0 ? 0 : 1;
}
