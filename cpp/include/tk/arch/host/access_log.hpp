// Which accesses to a block's shared memory are ordered by the kernel's own synchronisation: vector
// clocks (Fidge 1988, Mattern 1989) that barriers hand on, and a log of the accesses of tile
// operations. Two accesses that may meet are an error whether or not they met in this run.
#pragma once
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "tk/arch/host/sanitizer.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

// What is known of every agent: how far it had come. Agents are the warps of a cluster, and its
// semaphores, on behalf of the loads that complete on them (their epoch is the phase, from 1).
class vector_clock {
  public:
    uint32_t operator[](int agent) const {
        return size_t(agent) < epochs_.size() ? epochs_[size_t(agent)] : 0;
    }
    void raise(int agent, uint32_t epoch) {
        if (size_t(agent) >= epochs_.size()) epochs_.resize(size_t(agent) + 1);
        epochs_[size_t(agent)] = std::max(epochs_[size_t(agent)], epoch);
    }
    void join(const vector_clock& other) {
        if (other.epochs_.size() > epochs_.size()) epochs_.resize(other.epochs_.size());
        for (size_t i = 0; i < other.epochs_.size(); ++i) {
            epochs_[i] = std::max(epochs_[i], other.epochs_[i]);
        }
    }
    // Whether all that `other` knows is known here.
    bool covers(const vector_clock& other) const {
        for (size_t i = 0; i < other.epochs_.size(); ++i) {
            if ((*this)[int(i)] < other.epochs_[i]) return false;
        }
        return true;
    }

  private:
    std::vector<uint32_t> epochs_;
};

// A warp, and what it knows. Its own epoch grows with everything it tells others.
struct agent_clock {
    int agent = 0;
    vector_clock known;

    explicit agent_clock(int number) : agent(number) { known.raise(agent, 1); }
    uint32_t epoch() const { return known[agent]; }
    void advance() { known.raise(agent, epoch() + 1); }

    // Grows where the lanes of the warp meet: before, one lane knows nothing of another.
    uint32_t lane_meetings = 0;
};

struct access {
    int64_t first = 0, last = 0;  // bytes of the block's shared memory, [first, last)
    bool writes = false;
    bool asynchronous = false;  // by TMA or WGMMA
    const char* operation = "";
    std::string (*tile)() = nullptr;  // its name
    int block = 0, warp = 0;          // who issued it

    int agent = 0;
    bool under_way = false;      // asynchronous and not yet waited for
    uint32_t epoch = 0;          // of the agent, when it was done
    bool fenced = false;         // an ordinary write that is known to the asynchronous proxy,
    uint32_t fence_epoch = 0;    // since its writer's fence_async_proxy
    bool by_lanes = false;       // by each lane of a warp for itself,
    uint32_t lane_meetings = 0;  // after so many meetings of its lanes
    uint64_t ticket = 0;
};

class access_log {
  public:
    // Adds an access by somebody who knows `known`. Returns what is wrong with it, or "".
    std::string add(access made, const vector_clock& known, uint64_t* ticket = nullptr) {
        unseen hidden;
        std::lock_guard lock(mutex_);
        for (size_t i = 0; i < accesses_.size();) {
            const access& earlier = accesses_[i];
            if (earlier.last <= made.first || earlier.first >= made.last) {
                ++i;
                continue;
            }
            if (earlier.writes || made.writes) {
                std::string problem = conflict(earlier, made, known);
                if (!problem.empty()) return problem;
            }
            const bool replaced = made.writes || (earlier.agent == made.agent && !earlier.writes);
            if (replaced && !earlier.under_way && earlier.first >= made.first &&
                earlier.last <= made.last) {
                accesses_[i] = accesses_.back();
                accesses_.pop_back();
            } else {
                ++i;
            }
        }
        made.ticket = ++tickets_;
        if (ticket != nullptr) *ticket = made.ticket;
        accesses_.push_back(made);
        return "";
    }

    // The access is done, at this epoch of its agent.
    void finish(uint64_t ticket, uint32_t epoch) {
        unseen hidden;
        std::lock_guard lock(mutex_);
        for (access& each : accesses_) {
            if (each.ticket != ticket) continue;
            each.under_way = false;
            each.epoch = epoch;
        }
    }

    // fence_async_proxy: what the agent wrote so far is known to the asynchronous proxy.
    void fence(const agent_clock& writer) {
        unseen hidden;
        std::lock_guard lock(mutex_);
        for (access& each : accesses_) {
            if (each.agent != writer.agent || !each.writes || each.asynchronous || each.fenced) {
                continue;
            }
            each.fenced = true;
            each.fence_epoch = writer.epoch();
        }
    }

    // Somebody of another block arrived at a semaphore of this one.
    void note_remote_arrival(const agent_clock& by) {
        unseen hidden;
        std::lock_guard lock(mutex_);
        remote_.raise(by.agent, by.epoch());
    }

    // A warp of the block exits.
    void exit(const vector_clock& known) {
        unseen hidden;
        std::lock_guard lock(mutex_);
        exited_.join(known);
    }

    // What is wrong once all warps of the block have exited.
    std::string after_exit() {
        unseen hidden;
        std::lock_guard lock(mutex_);
        for (const access& each : accesses_) {
            if (each.under_way || exited_[each.agent] < each.epoch) {
                return "nobody in the block waited for the " + describe(each);
            }
        }
        return exited_.covers(remote_) ? ""
                                       : "the block does not wait for arrivals from other blocks "
                                         "of its cluster (cluster::sync)";
    }

  private:
    static std::string describe(const access& each) {
        return std::string(each.operation) + (each.writes ? " to " : " of ") + each.tile() +
               " at bytes " + std::to_string(each.first) + "-" + std::to_string(each.last - 1) +
               " by warp " + std::to_string(each.warp) + " of block " + std::to_string(each.block);
    }

    static std::string conflict(const access& earlier, const access& made,
                                const vector_clock& known) {
        const char* why = nullptr;
        if (earlier.under_way) {
            why = ", which nobody has waited for";
        } else if (known[earlier.agent] < earlier.epoch) {
            why = ": no barrier orders it before";
        } else if (earlier.agent == made.agent && earlier.by_lanes && made.by_lanes &&
                   earlier.lane_meetings == made.lane_meetings &&
                   std::strcmp(earlier.operation, made.operation) != 0) {
            why = ": the lanes of the warp do not meet in between (warp::sync)";
        } else if (made.asynchronous && earlier.writes && !earlier.asynchronous &&
                   (!earlier.fenced || known[earlier.agent] < earlier.fence_epoch)) {
            why = ": no fence_async_proxy of that warp, and barrier after it, comes between";
        }
        if (why == nullptr) return "";
        return describe(made) + " meets " + describe(earlier) + why;
    }

    std::mutex mutex_;
    std::vector<access> accesses_;
    vector_clock remote_, exited_;
    uint64_t tickets_ = 0;
};

}  // namespace machine

TK_NAMESPACE_END
