// Copies into a block of the cluster that complete on a semaphore there, on the host: given to the
// copy engine, which carries them out some time after they were issued.
#pragma once
#include "tk/arch/host/engine.hpp"
#include "tk/arch/host/tile_access.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

// Gives a copy into a block of the cluster to the copy engine, poisoning where it goes.
inline void issue(async_copy copy, block_context& target, semaphore& bar, const char* operation,
                  std::string (*name)()) {
    copy.completes = &barrier_of(bar, target);
    require_fenced(*copy.completes);
    copy.memory = target.memory;
    access made = make_access(operation, name, copy.address, copy.bytes);
    made.writes = made.asynchronous = made.under_way = true;
    made.agent = copy.completes->agent();
    copy.log = &target.accesses;
    copy.ticket = note(target, made);
    poison(target.memory + copy.address, size_t(copy.bytes));
    self().cluster->engine->add(copy);
}

// A block of the cluster that asynchronous copies may still be sent to, and whose own shared memory
// has `bytes` at `to`, as this block's has.
inline block_context& receiver(const void* to, int64_t bytes, int rank, const char* operation,
                               std::string (*name)()) {
    warp_context& warp = self();
    const std::string start = std::string(operation) + ": ";
    if (rank < 0 || rank >= int(warp.cluster->blocks.size())) {
        fail(start + "block " + std::to_string(rank) + " is not of the cluster");
    }
    if (!warp.block->contains(to, bytes)) fail(start + name() + " is not in the shared memory");
    block_context& target = warp.cluster->blocks[size_t(rank)];
    if (target.running_warps.load(std::memory_order_relaxed) == 0) {
        fail(start + "block " + std::to_string(target.index) + " has exited (cluster::sync)");
    }
    return target;
}

// Sends values from registers to where `to` lies in block `rank`'s shared memory.
inline void send(const void* to, const void* values, int64_t bytes, int rank, semaphore& bar,
                 const char* operation, std::string (*name)()) {
    delay();
    block_context& target = receiver(to, bytes, rank, operation, name);
    async_copy copy;
    copy.execute = [](const async_copy& it) {
        copy_bytes(it.memory + it.address, it.sent.data(), size_t(it.bytes));
    };
    copy.address = self().block->offset_of(to);
    copy.bytes = bytes;
    const auto* first = static_cast<const char*>(values);
    copy.sent.assign(first, first + bytes);
    issue(copy, target, bar, operation, name);
}

}  // namespace machine

TK_NAMESPACE_END
