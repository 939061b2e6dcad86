// A word told to other blocks of the cluster, with the semaphore that says it is there, on the
// host: the copy engine brings it, some time after it was sent.
#pragma once
#include "tk/arch/host/send.hpp"

TK_NAMESPACE_BEGIN

namespace cluster {
// Stores `value` in the same word of every block in `mask` and completes its 4 bytes at the same
// semaphore of that block, which must expect them. By one warp; asynchronous: nobody need wait
// here.
inline void put_async(int& word, int value, semaphore& told, uint32_t mask,
                      const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("cluster::put_async", where)) return;
    const size_t blocks = machine::self().cluster->blocks.size();
    if (mask >> blocks != 0) machine::fail("cluster::put_async: a block is not of the cluster");
    for (int rank = 0; rank < int(blocks); ++rank) {
        if ((mask >> rank & 1u) == 0) continue;
        machine::send(
            &word, &value, sizeof(word), rank, told, "cluster::put_async",
            +[] { return std::string("a word"); });
    }
}
}  // namespace cluster

TK_NAMESPACE_END
