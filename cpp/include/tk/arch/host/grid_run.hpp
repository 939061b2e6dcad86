// Runs the blocks of a launch: some clusters at a time, each with a thread a warp and one for its
// copy engine, watched by the calling thread.
#pragma once
#include <algorithm>
#include <list>

#include "tk/arch/host/engine.hpp"
#include "tk/arch/host/pool.hpp"
#include "tk/arch/host/tma.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

struct kernel_type {
    void (*run)(const void* globals) = nullptr;
    const void* globals = nullptr;
    int warps = 0;
    int grid = 1, cluster_blocks = 1;
    int64_t shared_bytes = 0;
    bool programmatic = false;
};

class grid_run {
  public:
    explicit grid_run(const kernel_type& kernel) : kernel_(kernel) {}

    // Returns when every block has exited; std::runtime_error with the first error of any warp.
    void operator()() {
        using clock = std::chrono::system_clock;
        const int clusters = kernel_.grid / kernel_.cluster_blocks;
        const double patience = settings().watchdog_seconds;
        const auto look = std::chrono::milliseconds(
            patience > 0 ? std::clamp(int(patience * 250), 1, 1000) : 1000);
        int next = 0;
        uint64_t events_before = 0;
        auto last_change = clock::now();
        std::unique_lock lock(mutex_);
        while (next < clusters || !running_.empty()) {
            while (next < clusters && int(running_.size()) < resident() && !state_.failed()) {
                start(next++);
            }
            if (running_.empty()) break;
            changed_.wait_until(lock, clock::now() + look);
            uint64_t events = uint64_t(next);
            for (auto& each : running_) events += each->cluster.progress.events();
            running_.remove_if([&](auto& each) {
                if (each->threads_left != 0) return false;
                state_.remove(&each->cluster);
                return true;
            });
            const auto now = clock::now();
            if (events != events_before) {
                events_before = events;
                last_change = now;
            } else if (patience > 0 && !state_.failed() && !running_.empty() &&
                       std::chrono::duration<double>(now - last_change).count() >
                           (somebody_computes() ? 6 * patience : patience)) {
                std::string waits;
                for (auto& each : running_) {
                    waits += (waits.empty() ? "" : "; ") + each->cluster.describe_waits();
                }
                state_.fail("watchdog: nothing happened for " + std::to_string(patience) +
                            " s: " + waits);
            }
        }
        lock.unlock();
        if (state_.failed()) throw std::runtime_error(state_.message());
    }

  private:
    struct running_cluster {
        cluster_context cluster;
        copy_engine engine;
        std::atomic<int> warps_left{0};
        int threads_left = 0;  // under the mutex of the launch

        running_cluster(launch_state& state, int index, int count)
            : cluster(state, index, count),
              engine(cluster, settings().seed * 1000003 + uint64_t(index)) {}
    };

    // Whether a warp does not wait: it may be busy, or look at memory for ever.
    bool somebody_computes() const {
        return std::ranges::any_of(running_, [](const auto& each) {
            return std::ranges::any_of(each->cluster.blocks, [](const block_context& block) {
                return std::ranges::any_of(block.warps, [](const warp_context& warp) {
                    return !warp.exited && warp.waits_for == nullptr;
                });
            });
        });
    }

    // At least two clusters at once, so that they can get in each other's way; more on machines
    // that have the cores for it.
    int resident() const {
        const int cores = int(std::thread::hardware_concurrency());
        return std::max(2, cores / (4 * kernel_.cluster_blocks));
    }

    void start(int index) {
        running_.push_back(std::make_unique<running_cluster>(
            state_, index, kernel_.grid / kernel_.cluster_blocks));
        running_cluster& made = *running_.back();
        cluster_context& cluster = made.cluster;
        const int warps = kernel_.cluster_blocks * kernel_.warps;
        cluster.engine = &made.engine;
        cluster.all_warps =
            std::make_unique<barrier>(cluster.progress, "cluster barrier", -1, warps);
        for (int rank = 0; rank < kernel_.cluster_blocks; ++rank) {
            block_context& block = cluster.blocks.emplace_back();
            block.cluster = &cluster;
            block.rank = rank;
            block.index = index * kernel_.cluster_blocks + rank;
            block.allocate(kernel_.shared_bytes);
            block.running_warps = kernel_.warps;
            for (int id = 0; id < 16; ++id) {
                block.named.emplace_back(cluster.progress, "named barrier", id, 1);
            }
            for (int i = 0; i < kernel_.warps; ++i) {
                block.warps.emplace_back(&cluster, &block, i, cluster.agents.fetch_add(1));
            }
        }
        state_.add(&cluster);
        cluster.progress.start(warps);
        made.warps_left = warps;
        made.threads_left = warps + 1;
        std::vector<std::function<void()>> tasks;
        tasks.emplace_back([this, &made] {
            made.engine.run();
            end_thread(made);
        });
        for (block_context& block : cluster.blocks) {
            for (warp_context& warp : block.warps) {
                tasks.emplace_back([this, &made, &warp] {
                    run_warp(warp);
                    if (made.warps_left.fetch_sub(1) == 1) {
                        if (made.engine.stop() != 0 && !state_.failed()) {
                            state_.fail("cluster " + std::to_string(made.cluster.index) +
                                        " ended with asynchronous copies under way");
                        }
                    }
                    end_thread(made);
                });
            }
        }
        try {
            thread_pool::instance().submit(std::move(tasks));
        } catch (const std::system_error& error) {
            made.threads_left = 0;
            state_.fail("launch: no threads for " + std::to_string(warps) +
                        " warps: " + error.what());
        }
    }

    void run_warp(warp_context& warp) {
        current_warp = &warp;
        try {
            kernel_.run(kernel_.globals);
            exit_warp(warp);
        } catch (const launch_aborted&) {
        } catch (const std::exception& error) {
            state_.fail(error.what());
        } catch (...) {
            state_.fail(warp.name() + ": an exception that is not a std::exception");
        }
        current_warp = nullptr;
        warp.exited = true;
        warp.cluster->all_warps->withdraw();
        if (warp.cluster->progress.leave()) {
            state_.fail("deadlock: " + warp.cluster->describe_waits());
        }
    }

    // What a warp may not leave behind.
    void exit_warp(warp_context& warp) const {
        if (!warp.products.empty()) fail("exits with matrix products in flight");
        for (const pending_store& store : warp.stores) {
            if (!store.is_read) {
                fail("exits while a TMA store has still to read its tile (store_async_read_wait)");
            }
        }
        if (warp.cluster_phases != 0) {
            fail("exits between cluster::arrive_all and cluster::wait_all");
        }
        advance_stores(0, 0);
        block_context& block = *warp.block;
        observe(&warp.cluster->exits);
        block.accesses.exit(warp.clock.known);  // before the count: the last one asks of all
        const bool last = block.running_warps.fetch_sub(1) == 1;
        const std::string problem = last ? block.accesses.after_exit() : std::string();
        if (!problem.empty()) fail("is the last to exit, but " + problem);
        const std::string groups = last ? block.check_warpgroups() : std::string();
        if (!groups.empty()) fail("in its block, " + groups);
        const std::string registers = block.check_registers();
        if (last && !registers.empty()) fail("in its block, " + registers);
        if (last && kernel_.programmatic && !block.waited_for_dependency) {
            fail(
                "its block, of a programmatic launch, has not waited for the kernel before it "
                "(wait_dependency)");
        }
#if defined(TK_HOST_THREAD_SANITIZER)
        // To TSan the memory is gone now, for the other blocks of the cluster too.
        if (last) poison(block.memory, size_t(block.bytes));
#endif
    }

    void end_thread(running_cluster& made) {
        std::lock_guard lock(mutex_);
        if (--made.threads_left == 0) changed_.notify_all();
    }

    const kernel_type kernel_;
    launch_state state_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::list<std::unique_ptr<running_cluster>> running_;
};

}  // namespace machine

TK_NAMESPACE_END
