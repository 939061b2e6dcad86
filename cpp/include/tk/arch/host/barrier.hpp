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

#include "tk/arch/host/access_log.hpp"

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
    // `name` and `index` (negative: none) are for messages; `agent` stands for the loads that
    // complete on it.
    barrier(cluster_progress& progress, std::string name, int index, int expected, int agent = -1)
        : progress_(progress),
          name_(std::move(name)),
          index_(index),
          agent_(agent),
          expected_(expected),
          pending_(expected) {}

    // The following return nullptr, or what is wrong.

    const char* arrive(agent_clock& by, int count = 1) {
        unseen hidden;
        std::lock_guard lock(mutex_);
        return arrive_locked(by, count);
    }
    const char* expect(int64_t bytes) {
        unseen hidden;
        std::lock_guard lock(mutex_);
        const char* problem = add_bytes(bytes);
        // After all arrivals the phase may complete before this, on another day.
        if (problem == nullptr && get(pending_) == 0) {
            problem = "bytes are added to a phase that nobody has still to arrive in";
        }
        return problem;
    }
    const char* arrive_and_expect(agent_clock& by, int64_t bytes) {
        unseen hidden;
        std::lock_guard lock(mutex_);
        if (const char* problem = add_bytes(bytes)) return problem;
        return arrive_locked(by);
    }
    const char* complete_bytes(int64_t bytes) {
        unseen hidden;
        std::lock_guard lock(mutex_);
        arriving_.raise(agent_, load_epoch());
        const char* problem = add_bytes(-bytes);
        if (problem == nullptr) finish_phase_if_due();
        return problem;
    }
    // One arrival at a named barrier, of `warps` warps in this use; `group` is whose it is. Returns
    // the phase that the arrival belongs to in `phase`.
    const char* meet(agent_clock& by, int warps, int group, uint64_t& phase) {
        unseen hidden;
        std::lock_guard lock(mutex_);
        phase = get(phase_);
        if (get(pending_) == get(expected_)) {
            set(expected_, warps), set(pending_, warps);
            group_ = group;
        } else if (get(expected_) != warps) {
            return "groups of different sizes meet at it";
        } else if (group_ != group) {
            return "two groups meet at it";
        }
        // Who arrives must know that the phase before is over; else it may count in that one.
        if (here_[by.agent] != 0) return "a warp arrives twice in one phase";
        if (!by.known.covers(here_before_)) {
            return "a warp arrives that nothing tells that the phase before is complete";
        }
        here_.raise(by.agent, by.epoch());
        if (get(pending_) == 1) {
            here_before_ = here_;
            here_ = {};
        }
        return arrive_locked(by);
    }
    // One of the expected will never come again.
    void withdraw() {
        unseen hidden;
        std::lock_guard lock(mutex_);
        set(expected_, get(expected_) - 1), set(pending_, get(pending_) - 1);
        if (get(expected_) > 0) finish_phase_if_due();
    }

    // How many phases must be complete when a wait for this parity ends: the current one too, or
    // those before it. (PTX ISA, "mbarrier.test_wait": the parity is that of the current or of the
    // immediately preceding phase.)
    uint64_t phases_for(int parity) const {
        const uint64_t current = get(phase_);
        return (current & 1) == (uint64_t(parity) & 1) ? current + 1 : current;
    }
    uint64_t phase() const { return get(phase_); }

    // For TSan: where arrivals of a phase publish what waits for it observe. The phase cannot end
    // before an arrival that it waits for.
    void publish_arrival() const { publish(&tokens_[get(phase_) % 4]); }
    void observe_phases(uint64_t phases) const { observe(&tokens_[(phases + 3) % 4]); }

    // Until so many phases are complete.
    wait_result wait(agent_clock& by, uint64_t phases) {
        unseen hidden;
        std::unique_lock lock(mutex_);
        if (get(phase_) < phases) {
            if (progress_.failed()) return wait_result::failed;
            ++waiters_;
            if (progress_.block()) return wait_result::stuck;
            while (get(phase_) < phases) {
                if (progress_.failed()) return wait_result::failed;
                changed_.wait(lock);
            }
        }
        by.known.join(completed_);
        return wait_result::done;
    }
    // Whether they are.
    bool test(agent_clock& by, uint64_t phases) {
        unseen hidden;
        std::lock_guard lock(mutex_);
        if (get(phase_) < phases) return false;
        by.known.join(completed_);
        return true;
    }
    // Until they are, but for at most a short while, as hardware does.
    bool try_wait(agent_clock& by, uint64_t phases) {
        unseen hidden;
        std::unique_lock lock(mutex_);
        if (get(phase_) < phases) {
            changed_.wait_until(lock,
                                std::chrono::system_clock::now() + std::chrono::milliseconds(1));
            if (get(phase_) < phases) return false;
        }
        by.known.join(completed_);
        return true;
    }
    void wake() {
        unseen hidden;
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
    // Whether a phase has begun, or somebody waits for its end.
    bool is_in_use() {
        unseen hidden;
        std::lock_guard lock(mutex_);
        return get(pending_) != get(expected_) || get(bytes_) != 0 || waiters_ != 0;
    }

    // The agent of the loads that complete here, and their epoch if they did so now.
    int agent() const { return agent_; }
    uint32_t load_epoch() const { return uint32_t(get(phase_)) + 1; }

    // Who initialised it, and when: nobody may use it who does not know.
    void set_initialised(const agent_clock& by) {
        initialiser_ = by.agent;
        initialised_ = by.epoch();
    }
    bool is_known_to(const agent_clock& by) const {
        unseen hidden;
        return by.known[initialiser_] >= initialised_;
    }
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

    const char* arrive_locked(agent_clock& by, int count = 1) {
        progress_.count_event();
        arriving_.join(by.known);
        by.advance();
        if (get(pending_) == 0) return "it has had all the arrivals of this phase already";
        if (count < 1) return "arrivals are counted from 1";
        if (get(pending_) < count) return "more arrivals at once than the phase still waits for";
        set(pending_, get(pending_) - count);
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
        completed_.join(arriving_);
        arriving_ = {};
        progress_.unblock(waiters_);
        waiters_ = 0;
        changed_.notify_all();
    }

    cluster_progress& progress_;
    const std::string name_;
    const int index_, agent_;
    std::mutex mutex_;
    std::condition_variable changed_;
    // Written under the mutex; read without it by messages.
    std::atomic<int> expected_, pending_;
    std::atomic<int64_t> bytes_{0};
    std::atomic<uint64_t> phase_{0};
    std::atomic<bool> fenced_{false};
    vector_clock arriving_, completed_;  // what the arrivals of this phase, and before it, knew
    vector_clock here_, here_before_;    // who came to a named barrier in this phase, and before
    const uint64_t tokens_[4] = {};
    int waiters_ = 0;
    int group_ = -1;
    int initialiser_ = 0;
    uint32_t initialised_ = 0;
};

}  // namespace machine

TK_NAMESPACE_END
