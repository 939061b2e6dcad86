// The copy engine of a cluster: a thread that carries out TMA loads some time after they were
// issued, in no particular order, and completes them on their barriers.
#pragma once
#include <condition_variable>
#include <mutex>
#include <random>

#include "tk/arch/host/context.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

struct load_copy {
    void (*execute)(const load_copy&) = nullptr;
    const void* descriptor = nullptr;
    void* tile = nullptr;
    int panel = 0, first_row = 0, rows = 0;  // the box, in the tile
    int col = 0, row = 0, batch = 0;         // the box, in the tensor
    barrier* completes = nullptr;
    int64_t bytes = 0;
    access_log* log = nullptr;  // of the block, and the ticket in it
    uint64_t ticket = 0;
};

class copy_engine {
  public:
    copy_engine(cluster_context& cluster, uint64_t seed) : cluster_(cluster), random_(seed) {}

    void add(const load_copy& copy) {
        publish(this);
        unseen hidden;
        cluster_.progress.add_load();
        std::lock_guard lock(mutex_);
        waiting_.push_back(copy);
        changed_.notify_one();
    }

    // Until `stop`.
    void run() {
        for (;;) {
            load_copy copy;
            {
                unseen hidden;
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
                if (stop_) break;
                hold_up(lock);
                std::swap(waiting_[random_() % waiting_.size()], waiting_.back());
                copy = waiting_.back();
                waiting_.pop_back();
            }
            observe(this);
            copy.execute(copy);
            copy.log->finish(copy.ticket, copy.completes->load_epoch());
            copy.completes->publish_arrival();
            if (const char* problem = copy.completes->complete_bytes(copy.bytes)) {
                cluster_.launch.fail("a TMA load into " + copy.completes->name() + ": " + problem);
            }
            if (cluster_.progress.finish_load()) {
                cluster_.launch.fail("deadlock: " + cluster_.describe_waits());
            }
        }
    }

    // Every warp has exited. Returns how many loads were still under way.
    size_t stop() {
        unseen hidden;
        std::lock_guard lock(mutex_);
        stop_ = true;
        changed_.notify_one();
        return waiting_.size();
    }

  private:
    void hold_up(std::unique_lock<std::mutex>& lock) {
        const int most = settings().max_delay_microseconds.load(std::memory_order_relaxed);
        if (most == 0) return;
        lock.unlock();
        timespec time{0, long(random_() % uint64_t(most * 1000L + 1))};
        nanosleep(&time, nullptr);
        lock.lock();
    }

    cluster_context& cluster_;
    std::mt19937_64 random_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<load_copy> waiting_;
    bool stop_ = false;
};

}  // namespace machine

TK_NAMESPACE_END
