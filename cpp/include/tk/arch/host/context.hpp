// Where a warp of the emulated machine is: its block, its cluster, its launch; and how errors end a
// launch.
#pragma once
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "tk/arch/host/barrier.hpp"
#include "tk/arch/host/products_in_flight.hpp"
#include "tk/arch/host/settings.hpp"
#include "tk/arch/host/tma_descriptor.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

class copy_engine;
struct cluster_context;

// Thrown through the kernel of every other warp when one has failed; not a std::exception, so that
// no handler takes it for an error of its own.
struct launch_aborted {};

// The first error ends the launch.
class launch_state {
  public:
    const std::atomic<bool>& failed() const { return failed_; }
    void fail(const std::string& message);
    std::string message() {
        std::lock_guard lock(mutex_);
        return message_;
    }
    void add(cluster_context* cluster) {
        std::lock_guard lock(mutex_);
        clusters_.push_back(cluster);
    }
    void remove(cluster_context* cluster) {
        std::lock_guard lock(mutex_);
        std::erase(clusters_, cluster);
    }

  private:
    std::atomic<bool> failed_{false};
    std::mutex mutex_;
    std::string message_;
    std::vector<cluster_context*> clusters_;  // running
};

// A TMA store: its boxes are read at the read wait, and what was read is written, or combined with
// what is there, at the wait.
struct store_box {
    const tma_descriptor* map = nullptr;
    tma_place at{};
    int64_t address = 0;  // in the block's shared memory
    uint64_t reads = 0;   // ticket of the access log
    std::vector<char> content;
};
struct pending_store {
    std::vector<store_box> boxes;
    // (in the tensor, in the tile, bytes); null: they are copied.
    void (*combine)(char* to, const char* from, size_t bytes) = nullptr;
    bool is_read = false;
};

struct block_context;

struct warp_context {
    cluster_context* const cluster;
    block_context* const block;
    const int index;
    agent_clock clock;
    // For messages: what it waits for.
    std::atomic<const barrier*> waits_for{nullptr};
    std::atomic<uint64_t> waits_for_phases{0};
    std::atomic<bool> exited{false};

    products_in_flight products;
    std::deque<pending_store> stores;
    std::vector<barrier*> unfenced_semaphores;
    uint64_t cluster_phases = 0;    // to wait for, between cluster::arrive_all and wait_all; else 0
    std::vector<float> buffers[4];  // for the arithmetic of products
    // What the warps of a warpgroup do together: products started, and registers asked for in turn.
    uint64_t products_started = 0, registers_asked = 0;

    warp_context(cluster_context* of_cluster, block_context* of_block, int number, int agent)
        : cluster(of_cluster), block(of_block), index(number), clock(agent) {}
    std::string name() const;
};

struct block_context {
    static constexpr int max_semaphores = 256;
    static constexpr int64_t most_bytes = 232448;           // of shared memory on Hopper
    static constexpr uint64_t semaphore_mark = 0x7e3a91c5;  // upper half of a valid semaphore

    cluster_context* cluster = nullptr;
    int index = 0;  // in the grid
    int rank = 0;   // in the cluster
    char* memory = nullptr;
    int64_t bytes = 0;
    std::deque<warp_context> warps;
    std::deque<barrier> named;
    std::array<std::atomic<barrier*>, max_semaphores> semaphores{};
    std::atomic<int> num_semaphores{0};
    std::atomic<int> running_warps{0};
    access_log accesses;
    std::array<std::atomic<int>, 8> registers{};  // of a lane, by warpgroup
    std::atomic<bool> waited_for_dependency{false};

    bool contains(const void* pointer, int64_t length = 1) const {
        const auto* at = static_cast<const char*>(pointer);
        return at >= memory && at + length <= memory + bytes;
    }
    // Where only a block with more shared memory would have it; nothing else is there.
    bool is_beyond(const void* pointer) const {
        const auto* at = static_cast<const char*>(pointer);
        return at >= memory && at < memory + most_bytes;
    }
    int64_t offset_of(const void* pointer) const {
        return static_cast<const char*>(pointer) - memory;
    }

    // A block starts with its lanes' equal share of the registers, and warpgroups can only hand on
    // what they have: who asks for more waits for ever. Returns what is wrong, once all have asked.
    int register_share() const { return std::min(65536 / (int(warps.size()) * 32), 256) / 8 * 8; }
    std::string check_registers() const {
        const int groups = int(warps.size()) / 4;
        int asked = 0;
        for (int i = 0; i < groups; ++i) {
            const int own = registers[size_t(i)].load();
            asked += own == 0 ? register_share() : own;
        }
        if (asked <= register_share() * groups) return "";
        return "its warpgroups ask for " + std::to_string(asked) +
               " registers a lane together, of " + std::to_string(register_share() * groups);
    }

    // What the four warps of a warpgroup must do together, and have not; once all have exited.
    std::string check_warpgroups() const {
        for (size_t first = 0; first + 3 < warps.size(); first += 4) {
            for (size_t i = first + 1; i < first + 4; ++i) {
                const warp_context &one = warps[first], &other = warps[i];
                const std::string who =
                    "warps " + std::to_string(first) + " and " + std::to_string(i) + " of it ";
                if (one.products_started != other.products_started) {
                    return who + "started " + std::to_string(one.products_started) + " and " +
                           std::to_string(other.products_started) +
                           " products, which are of all four warps of a warpgroup";
                }
                if (one.registers_asked != other.registers_asked) {
                    return who +
                           "asked for other registers (increase_registers, decrease_registers), "
                           "which all four warps of a warpgroup do together";
                }
            }
        }
        return "";
    }

    block_context() = default;
    block_context(const block_context&) = delete;
    block_context& operator=(const block_context&) = delete;
    void allocate(int64_t size) {
        bytes = size;
        memory = static_cast<char*>(::operator new(size_t(most_bytes), std::align_val_t{1024}));
        std::memset(memory, 0xff, size_t(size));  // NaN in every dtype
        forbid(memory + size, size_t(most_bytes - size));
    }
    ~block_context() {
        for (auto& semaphore : semaphores) delete semaphore.load(std::memory_order_relaxed);
        if (memory == nullptr) return;
        allow(memory, size_t(most_bytes));
        ::operator delete(memory, std::align_val_t{1024});
    }
};

struct cluster_context {
    launch_state& launch;
    cluster_progress progress;
    const int index, count;  // in the grid, and of how many
    std::deque<block_context> blocks;
    std::unique_ptr<barrier> all_warps;
    copy_engine* engine = nullptr;
    std::atomic<int> agents{0};  // warps and semaphores, see vector_clock
    // Addresses, for TSan: of fenced initialisations, and of all that comes before an exit.
    const uint64_t fences = 0, exits = 0;

    cluster_context(launch_state& state, int cluster_index, int num_clusters)
        : launch(state), progress(state.failed()), index(cluster_index), count(num_clusters) {}

    void wake();
    std::string describe_waits() const;
};

inline thread_local warp_context* current_warp = nullptr;

inline warp_context& self() {
    if (current_warp == nullptr) {
        throw std::logic_error("a tile operation was called outside of a kernel");
    }
    return *current_warp;
}

inline std::string warp_context::name() const {
    return "warp " + std::to_string(index) + " of block " + std::to_string(block->index);
}

[[noreturn]] inline void fail(const std::string& message) {
    throw std::runtime_error(self().name() + ": " + message);
}

inline void launch_state::fail(const std::string& message) {
    std::lock_guard lock(mutex_);
    if (message_.empty()) message_ = message;
    failed_.store(true);
    for (cluster_context* cluster : clusters_) cluster->wake();
}

inline void cluster_context::wake() {
    all_warps->wake();
    for (block_context& block : blocks) {
        for (barrier& each : block.named) each.wake();
        for (auto& each : block.semaphores) {
            if (barrier* semaphore = each.load(std::memory_order_relaxed)) semaphore->wake();
        }
    }
}

// Who waits for what: "warps 4-11 of block 0 wait for full[0], phase 1 (1 of 1 arrivals …)".
inline std::string cluster_context::describe_waits() const {
    std::string text;
    for (const block_context& block : blocks) {
        for (size_t first = 0; first < block.warps.size();) {
            const barrier* waits_for = block.warps[first].waits_for.load(std::memory_order_relaxed);
            const uint64_t phases =
                block.warps[first].waits_for_phases.load(std::memory_order_relaxed);
            size_t last = first + 1;
            while (last < block.warps.size() &&
                   block.warps[last].waits_for.load(std::memory_order_relaxed) == waits_for &&
                   block.warps[last].waits_for_phases.load(std::memory_order_relaxed) == phases) {
                ++last;
            }
            if (waits_for != nullptr) {
                text += text.empty() ? "" : "; ";
                text += last - first == 1
                            ? "warp " + std::to_string(first)
                            : "warps " + std::to_string(first) + "-" + std::to_string(last - 1);
                text += " of block " + std::to_string(block.index);
                text += last - first == 1 ? " waits for " : " wait for ";
                text += waits_for->name() + ", phase " + std::to_string((phases + 1) % 2) + " (" +
                        waits_for->describe() + ")";
            }
            first = last;
        }
    }
    return text.empty() ? "no warp waits" : text;
}

// The calling warp until so many phases of the barrier are complete.
inline void wait_for(barrier& at, uint64_t phases) {
    warp_context& warp = self();
    warp.waits_for_phases.store(phases, std::memory_order_relaxed);
    warp.waits_for.store(&at, std::memory_order_relaxed);
    const wait_result result = at.wait(warp.clock, phases);
    if (result == wait_result::stuck) {
        warp.cluster->launch.fail("deadlock: " + warp.cluster->describe_waits());
    }
    if (result != wait_result::done) throw launch_aborted{};
    warp.waits_for.store(nullptr, std::memory_order_relaxed);
    at.observe_phases(phases);
}

// Raises what an operation of a barrier has to complain of.
inline void require(const barrier& at, const char* problem) {
    if (problem != nullptr) fail("at " + at.name() + " (" + at.describe() + "): " + problem);
}

}  // namespace machine

TK_NAMESPACE_END
