// Barriers of the emulated machine: one object with the arrival and transaction counts of an
// mbarrier (PTX ISA, "mbarrier") behind semaphores, named barriers and the cluster's barrier; and
// the count of who is blocked, which makes a deadlock known at once.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "tk/arch/host/sanitizer.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

// How many warps of a cluster run, how many of those are blocked, and how many loads are under way.
// All in one word, so that a change and the verdict on it are one step.
class cluster_progress {
  public:
    explicit cluster_progress(const std::atomic<bool>& launch_failed) : failed_(launch_failed) {}

    bool failed() const { return failed_.load(std::memory_order_relaxed); }
    uint64_t events() const { return events_.load(std::memory_order_relaxed); }
    void count_event() { events_.fetch_add(1, std::memory_order_relaxed); }

    void start(int warps) { change(uint64_t(warps) * live); }
    void add_load() { change(load); }
    void unblock(int warps) { change(-uint64_t(warps) * blocked); }
    // These say whether nobody is left who could wake the blocked.
    bool block() { return is_stuck(change(blocked)); }
    bool leave() { return is_stuck(change(-live)); }
    bool finish_load() { return is_stuck(change(-load)); }

    bool has_loads() const { return counts_.load(std::memory_order_relaxed) / load % 65536 != 0; }

  private:
    static constexpr uint64_t load = 1, blocked = uint64_t(1) << 32, live = uint64_t(1) << 48;

    // Relaxed: the single word has one order of changes, and nothing else depends on it.
    uint64_t change(uint64_t by) {
        count_event();
        return counts_.fetch_add(by, std::memory_order_relaxed) + by;
    }
    static bool is_stuck(uint64_t counts) {
        const uint64_t warps = counts >> 48, waiting = counts >> 32 & 0xffff;
        return warps > 0 && warps == waiting && (counts & 0xffffffff) == 0;
    }

    std::atomic<uint64_t> counts_{0};
    std::atomic<uint64_t> events_{0};
    const std::atomic<bool>& failed_;
};

enum class wait_result { done, stuck, failed };

class barrier {
  public:
    // `name` and `index` (negative: none) are for messages.
    barrier(cluster_progress& progress, std::string name, int index, int expected)
        : progress_(progress),
          name_(std::move(name)),
          index_(index),
          expected_(expected),
          pending_(expected) {}

    // The following return nullptr, or what is wrong.

    const char* arrive() {
        publish(this);
        unseen_locks hidden;
        std::lock_guard lock(mutex_);
        return arrive_locked();
    }
    const char* arrive_and_expect(int64_t bytes) {
        publish(this);
        unseen_locks hidden;
        std::lock_guard lock(mutex_);
        if (const char* problem = add_bytes(bytes)) return problem;
        return arrive_locked();
    }
    const char* complete_bytes(int64_t bytes) {
        publish(this);
        unseen_locks hidden;
        std::lock_guard lock(mutex_);
        const char* problem = add_bytes(-bytes);
        if (problem == nullptr) finish_phase_if_due();
        return problem;
    }
    // One arrival at a barrier of `warps` warps whose number is given by each use; `group` is whose
    // it is. Returns the phase to wait for in `phase`.
    const char* meet(int warps, int group, uint64_t& phase) {
        publish(this);
        unseen_locks hidden;
        std::lock_guard lock(mutex_);
        if (get(pending_) == get(expected_)) {
            set(expected_, warps), set(pending_, warps);
            group_ = group;
        } else if (get(expected_) != warps) {
            return "groups of different sizes meet at it";
        } else if (group_ != group) {
            return "two groups meet at it";
        }
        phase = get(phase_);
        return arrive_locked();
    }
    // One of the expected will never come again.
    void withdraw() {
        unseen_locks hidden;
        std::lock_guard lock(mutex_);
        set(expected_, get(expected_) - 1), set(pending_, get(pending_) - 1);
        if (get(expected_) > 0) finish_phase_if_due();
    }

    // Until `phase` (counted from 0) is complete.
    wait_result wait(uint64_t phase) {
        {
            unseen_locks hidden;
            std::unique_lock lock(mutex_);
            if (get(phase_) <= phase) {
                if (progress_.failed()) return wait_result::failed;
                ++waiters_;
                if (progress_.block()) return wait_result::stuck;
                while (get(phase_) <= phase) {
                    if (progress_.failed()) return wait_result::failed;
                    changed_.wait(lock);
                }
            }
        }
        observe(this);
        return wait_result::done;
    }
    // The same, but for at most a short while, as hardware does.
    bool try_wait(uint64_t phase) {
        {
            unseen_locks hidden;
            std::unique_lock lock(mutex_);
            if (get(phase_) <= phase) {
                changed_.wait_until(
                    lock, std::chrono::system_clock::now() + std::chrono::milliseconds(1));
                if (get(phase_) <= phase) return false;
            }
        }
        observe(this);
        return true;
    }
    // The phase that a wait for this parity waits for: the current one, or the one before it.
    // (PTX ISA, "mbarrier.test_wait": parity of the current or the immediately preceding phase.)
    uint64_t phase_of_parity(int parity, bool& complete) const {
        const uint64_t current = get(phase_);
        complete = (current & 1) != (uint64_t(parity) & 1);
        return current;
    }
    void wake() {
        unseen_locks hidden;
        std::lock_guard lock(mutex_);
        changed_.notify_all();
    }

    std::string name() const {
        return index_ < 0 ? name_ : name_ + "[" + std::to_string(index_) + "]";
    }
    std::string describe() const {
        std::string text = std::to_string(get(pending_)) + " of " + std::to_string(get(expected_)) +
                           " arrivals outstanding";
        if (get(bytes_) != 0) text += ", " + std::to_string(get(bytes_)) + " bytes outstanding";
        return text;
    }
    int64_t bytes_outstanding() const { return get(bytes_); }

    bool fenced() const { return fenced_.load(std::memory_order_relaxed); }
    void set_fenced() { fenced_.store(true, std::memory_order_relaxed); }

  private:
    template <class T>
    static T get(const std::atomic<T>& value) {
        return value.load(std::memory_order_relaxed);
    }
    template <class T>
    static void set(std::atomic<T>& value, std::type_identity_t<T> to) {
        value.store(to, std::memory_order_relaxed);
    }

    const char* arrive_locked() {
        progress_.count_event();
        if (get(pending_) == 0) return "it has had all the arrivals of this phase already";
        set(pending_, get(pending_) - 1);
        finish_phase_if_due();
        return nullptr;
    }
    const char* add_bytes(int64_t bytes) {
        progress_.count_event();
        set(bytes_, get(bytes_) + bytes);
        constexpr int64_t limit = (1 << 20) - 1;  // PTX ISA, "mbarrier": range of tx-count
        return get(bytes_) > limit || get(bytes_) < -limit ? "its transaction count overflows"
                                                           : nullptr;
    }
    void finish_phase_if_due() {
        if (get(pending_) != 0 || get(bytes_) != 0) return;
        set(phase_, get(phase_) + 1);
        set(pending_, get(expected_));
        progress_.unblock(waiters_);
        waiters_ = 0;
        changed_.notify_all();
    }

    cluster_progress& progress_;
    const std::string name_;
    const int index_;
    std::mutex mutex_;
    std::condition_variable changed_;
    // Written under the mutex; read without it by messages.
    std::atomic<int> expected_, pending_;
    std::atomic<int64_t> bytes_{0};
    std::atomic<uint64_t> phase_{0};
    std::atomic<bool> fenced_{false};
    int waiters_ = 0;
    int group_ = -1;
};

}  // namespace machine

TK_NAMESPACE_END
