// A word told to other blocks of the cluster, with the semaphore that says it is there, on sm90.
#pragma once
#include "tk/arch/sm90/sync.hpp"

TK_NAMESPACE_BEGIN

namespace cluster {
// Stores `value` in the same word of every block in `mask` and completes its 4 bytes at the same
// semaphore of that block, which must expect them (PTX ISA, "st.async"). By one warp, whose lanes
// have the same value; asynchronous: nobody need wait here.
TK_DEVICE void put_async(int& word, int value, semaphore& told, uint32_t mask) {
    const uint32_t lane = uint32_t(detail::lane());
    if ((mask >> lane) & 1u) {
        asm volatile(
            "{\n"
            ".reg .b32 to, told;\n"
            "mapa.shared::cluster.u32 to, %0, %3;\n"
            "mapa.shared::cluster.u32 told, %1, %3;\n"
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [to], %2, [told];\n"
            "}\n" ::"r"(detail::shared_address(&word)),
            "r"(detail::shared_address(&told)), "r"(value), "r"(lane)
            : "memory");
    }
}
}  // namespace cluster

TK_NAMESPACE_END
