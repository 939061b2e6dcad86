// The copy engine of a cluster: a thread that carries out TMA loads, and copies from block to
// block, some time after they were issued, in no particular order, and completes them on their
// barriers.
#pragma once
#include <condition_variable>
#include <mutex>
#include <random>

#include "tk/arch/host/context.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

// One box of a TMA load, or memory for another block of the cluster.
struct async_copy {
    void (*execute)(const async_copy&) = nullptr;
    const tma_descriptor* map = nullptr;
    tma_place at{};
    char* memory = nullptr;        // shared memory of the block that gets it,
    int64_t address = 0;           // and where in it
    const char* source = nullptr;  // if it is another block's memory
    std::vector<char> sent;        // what was sent from registers
    int64_t bytes = 0;
    barrier* completes = nullptr;
    // The log of a block, and the ticket in it: of what is written, and of what is read.
    access_log* log = nullptr;
    uint64_t ticket = 0;
    access_log* source_log = nullptr;
    uint64_t source_ticket = 0;
};

class copy_engine {
  public:
    copy_engine(cluster_context& cluster, uint64_t seed) : cluster_(cluster), random_(seed) {}

    void add(const async_copy& copy) {
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
            async_copy copy;
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
            const uint32_t epoch = copy.completes->load_epoch();
            copy.log->finish(copy.ticket, epoch);
            if (copy.source_log != nullptr) copy.source_log->finish(copy.source_ticket, epoch);
            copy.completes->publish_arrival();
            if (const char* problem = copy.completes->complete_bytes(copy.bytes)) {
                cluster_.launch.fail("an asynchronous copy into " + copy.completes->name() + ": " +
                                     problem);
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
    std::vector<async_copy> waiting_;
    bool stop_ = false;
};

}  // namespace machine

TK_NAMESPACE_END
