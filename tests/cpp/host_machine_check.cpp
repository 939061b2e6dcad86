// The emulated machine: barriers, clusters, launches, and what it says of their misuse. See
// host_check.hpp.
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <thread>

#include "host_check.hpp"

namespace {

using namespace host_check;

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

const test_table tests = {
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
         machine::settings().watchdog_seconds = 0.3;
         fails({"watchdog", "warp 0 of block 0 waits for ready[1], phase 0"}, [] {
             init(1);
             if (first_warp()) {
                 while (!try_wait(memory().ready[1], 0)) {
                 }
             }
         });
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

int main(int count, char** arguments) { return run_tests(tests, count, arguments); }
