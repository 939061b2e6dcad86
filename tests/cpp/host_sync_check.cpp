// Synchronisation on the emulated machine: the values of sync_values.hpp, the same with each
// operation left out, and what the machine says of misuse. See host_check.hpp.
#include "host_check.hpp"
#include "sync_values.hpp"
#include "tma_cluster_values.hpp"

namespace {

using namespace host_check;

// Each operation that `check` passes is left out in turn, and that must be noticed, but for those
// that only lanes need, which the host has not.
void every_omission_is_noticed(void (*check)(), const std::vector<std::string>& needless) {
    machine::settings().watchdog_seconds = 1;
    machine::sabotage::record();
    check();
    const auto sites = machine::sabotage::sites();
    std::string missed;
    for (const std::string& site : sites) {
        machine::sabotage::drop(site);
        bool noticed = false;
        try {
            check();
        } catch (const std::exception&) {
            noticed = true;
        }
        const std::string name = site.substr(0, site.find(' '));
        const bool is_needless =
            std::find(needless.begin(), needless.end(), name) != needless.end();
        if (noticed == is_needless) missed += site + "; ";
    }
    machine::sabotage::drop("");
    machine::settings().watchdog_seconds = 10;
    host_check::require(missed.empty(), missed);
}

const test_table misuse = {
    {"every_operation_left_out_is_noticed",
     [] { every_omission_is_noticed(&checks::check_synchronisation, {"warp::sync"}); }},
    {"a_dependency_not_waited_for_is_noticed",
     [] { every_omission_is_noticed(&checks::check_dependent_launches, {"warp::sync"}); }},
    {"every_operation_of_cluster_copies_left_out_is_noticed",
     [] { every_omission_is_noticed([] { checks::check_cluster_copies(2); }, {}); }},
    {"more_arrivals_at_once_than_a_phase_waits_for_are_an_error",
     [] {
         fails({"ready[0]", "more arrivals at once"}, [] {
             init(3);
             if (first_warp()) warp::arrive(memory().ready[0], 4);
         });
         fails({"ready[0]", "counted from 1"}, [] {
             init(3);
             if (first_warp()) warp::arrive(memory().ready[0], 0);
         });
     }},
    {"the_halves_of_a_cluster_barrier_take_turns",
     [] {
         fails({"wait_all without cluster::arrive_all"}, [] { cluster::wait_all(); });
         fails({"arrives twice at the cluster's barrier"}, [] {
             cluster::arrive_all();
             cluster::arrive_all();
         });
         fails({"arrives twice at the cluster's barrier"}, [] {
             cluster::arrive_all();
             cluster::sync();
         });
         fails({"exits between cluster::arrive_all and cluster::wait_all"},
               [] { cluster::arrive_all_relaxed(); });
     }},
    {"a_named_barrier_has_warps_of_the_block",
     [] {
         fails({"named barrier 3 of 9 warps, in a block of 8"}, [] { named_barrier::sync(3, 9); });
         fails({"named barrier 16 is not one of 1 to 15"}, [] { named_barrier::sync(16, 2); });
         fails({"named barrier[3]", "groups of different sizes meet"}, [] {
             if (warp::groupid() == 0) named_barrier::sync(3, 3);
             if (warp::groupid() == 1) named_barrier::sync(3, 2);
         });
         fails({"named barrier[3]", "two groups meet at it"}, [] {
             if (warp::groupid() < 3) warpgroup::arrive(3);
             if (warp::groupid() == 4) named_barrier::sync(3, 4);
         });
     }},
    {"bytes_are_added_while_an_arrival_is_due",
     [] {
         fails({"ready[0]", "nobody has still to arrive"}, [] {
             init(1);
             if (!first_warp()) return;
             warp::expect_bytes(memory().ready[0], 512);
             warp::add_expected_bytes(memory().ready[0], 512);
         });
         fails({"deadlock", "512 bytes outstanding"}, [] {
             init(1);
             if (!first_warp()) return;
             warp::add_expected_bytes(memory().ready[0], 512);
             warp::arrive(memory().ready[0]);
             wait(memory().ready[0], 0);
         });
     }},
    {"a_phase_is_named_by_its_parity",
     [] {
         for (const int phase : {2, -1}) {
             const std::string word = "phase " + std::to_string(phase) + " of ready[0]";
             const auto ask = [&](auto operation) {
                 fails({word, "must be 0 or 1"}, [&] {
                     init(1);
                     if (!first_warp()) return;
                     warp::arrive(memory().ready[0]);
                     operation(memory().ready[0], phase);
                 });
             };
             ask([](semaphore& sem, int p) { wait(sem, p); });
             ask([](semaphore& sem, int p) { try_wait(sem, p); });
             ask([](semaphore& sem, int p) { test_wait(sem, p); });
         }
     }},
    {"no_fewer_than_0_bytes_are_expected",
     [] {
         fails({"ready[0]", "-16 bytes"}, [] {
             init(1);
             if (first_warp()) warp::expect_bytes(memory().ready[0], -16);
         });
         fails({"ready[0]", "-16 bytes"}, [] {
             init(1);
             if (first_warp()) warp::add_expected_bytes(memory().ready[0], -16);
         });
     }},
    {"a_semaphore_is_initialised_once",
     [] {
         fails({"ready[0] is initialised already", "invalidate_semaphore"}, [] {
             init(1);
             init(1);
         });
         host_check::run([] {
             init(1);
             if (first_warp()) {
                 for (semaphore& each : memory().ready) invalidate_semaphore(each);
             }
             cluster::sync();
             init(2);
         });
     }},
    {"a_warpgroup_s_warps_do_together_what_is_of_all_four",
     [] {
         fails({"warps 0 and 1", "1 and 0 products"}, [] {
             if (!first_warp()) return;
             warp::zero(memory().tiles[0]);
             fence_async_proxy();
             rt_fl<16, 64> sum;
             warpgroup::mm_ABt(sum, memory().tiles[0], memory().tiles[0]);
             warpgroup::mma_async_wait<0>(sum);
         });
         fails({"warps 4 and 6", "decrease_registers"}, [] {
             if (warp::groupid() == 4 || warp::groupid() == 5) decrease_registers<40>();
         });
     }},
    {"an_access_beyond_the_shared_memory_is_named",
     [] {
         for (const int64_t bytes : {int64_t(0), int64_t(bf_tile::bytes)}) {
             const std::string word = "beyond the block's " + std::to_string(bytes) + " bytes";
             fails({"fill of st<bf16, 64, 64>", word, "shared_bytes"},
                   [] {
                       if (first_warp()) warp::zero(memory().tiles[1]);
                   },
                   {1, 1, bytes});
             fails({"load of st<float, 64, 32>", word},
                   [] {
                       rt_fl<64, 32> there;
                       if (first_warp()) warp::load(there, memory().numbers);
                   },
                   {1, 1, bytes});
         }
         // A tile of the caller's own is none of the block's.
         host_check::run([] {
             alignas(1024) bf_tile own;
             warp::zero(own);
         });
     }},
    {"an_invalidated_semaphore_is_of_no_use",
     [] {
         fails({"before init_semaphores"}, [] {
             init(1);
             if (!first_warp()) return;
             invalidate_semaphore(memory().ready[0]);
             warp::arrive(memory().ready[0]);
         });
         fails({"invalidate_semaphore: ready[1] is in use", "1 of 2 arrivals"}, [] {
             init(2);
             if (!first_warp()) return;
             warp::arrive(memory().ready[1]);
             invalidate_semaphore(memory().ready[1]);
         });
     }},
    {"polling_for_ever_by_test_wait_is_ended_by_the_watchdog",
     [] {
         machine::settings().watchdog_seconds = 0.3;
         fails({"watchdog", "warp 0 of block 0 waits for ready[1], phase 0"}, [] {
             init(1);
             if (first_warp()) {
                 while (!test_wait(memory().ready[1], 0)) {
                 }
             }
         });
     }},
    {"a_programmatic_launch_waits_for_the_kernel_before_it",
     [] {
         std::string message;
         launch_config config{1, 1, 1024, 0, nullptr};
         config.programmatic = true;
         try {
             launch<script>([] { launch_dependents(); }, config);
         } catch (const std::runtime_error& error) {
             message = error.what();
         }
         host_check::require(message.find("wait_dependency") != std::string::npos, message);
         launch<script>([] { wait_dependency(); }, config);
     }},
};

}  // namespace

int main(int count, char** arguments) {
    test_table tests = misuse;
    tests.insert(checks::sync_value_checks.begin(), checks::sync_value_checks.end());
    return run_tests(tests, count, arguments);
}
