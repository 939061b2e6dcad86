// A word told to other blocks of the cluster, with the semaphore that says it is there, on the
// host: the copy engine brings it, some time after it was sent.
#pragma once
#include "tk/arch/host/engine.hpp"
#include "tk/arch/host/tile_access.hpp"

TK_NAMESPACE_BEGIN

namespace cluster {
// Stores `value` in the same word of every block in `mask` and completes its 4 bytes at the same
// semaphore of that block, which must expect them. By one warp; asynchronous: nobody need wait
// here.
inline void put_async(int& word, int value, semaphore& told, uint32_t mask,
                      const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("cluster::put_async", where)) return;
    machine::delay();
    machine::cluster_context& cluster = *machine::self().cluster;
    machine::block_context& own = *machine::self().block;
    if (mask >> cluster.blocks.size() != 0) {
        machine::fail("cluster::put_async: a block is not of the cluster");
    }
    if (!own.contains(&word, sizeof(word))) {
        machine::fail("cluster::put_async: the word is not in the shared memory");
    }
    const int64_t offset = own.offset_of(&word);
    for (machine::block_context& block : cluster.blocks) {
        if ((mask >> block.rank & 1u) == 0) continue;
        if (&block != &own && block.running_warps.load(std::memory_order_relaxed) == 0) {
            machine::fail("cluster::put_async: block " + std::to_string(block.index) +
                          " has exited (cluster::sync)");
        }
        machine::async_copy copy;
        copy.execute = [](const machine::async_copy& arrived) {
            std::memcpy(arrived.memory + arrived.address, &arrived.word, sizeof(arrived.word));
        };
        copy.memory = block.memory;
        copy.address = offset;
        copy.word = value;
        copy.bytes = sizeof(word);
        copy.completes = &machine::barrier_of(told, block);
        machine::require_fenced(*copy.completes);
        machine::access made = machine::make_access(
            "put_async", +[] { return std::string("a word"); }, offset, copy.bytes);
        made.writes = made.asynchronous = made.under_way = true;
        made.agent = copy.completes->agent();
        copy.log = &block.accesses;
        copy.ticket = machine::note(block, made);
        cluster.engine->add(copy);
    }
}
}  // namespace cluster

TK_NAMESPACE_END
