// The TMA instructions that CuTe has no atom for: minimum and maximum into global memory, and
// shared memory to another block's (PTX ISA, "cp.reduce.async.bulk.tensor", "cp.async.bulk").
#pragma once
#include <cute/arch/copy_sm90_tma.hpp>

#include "tk/arch/sm90/sync.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// copy(descriptor, source, coordinates...) as CuTe's SM90_TMA_REDUCE_ADD has it.
#define TK_TMA_REDUCE(name, operation)                                                          \
    struct name {                                                                               \
        static TK_DEVICE void copy(const void* map, const void* from, int c0, int c1) {         \
            asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta." operation         \
                         ".tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),                   \
                         "r"(shared_address(from)), "r"(c0), "r"(c1)                            \
                         : "memory");                                                           \
        }                                                                                       \
        static TK_DEVICE void copy(const void* map, const void* from, int c0, int c1, int c2) { \
            asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta." operation         \
                         ".tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),               \
                         "r"(shared_address(from)), "r"(c0), "r"(c1), "r"(c2)                   \
                         : "memory");                                                           \
        }                                                                                       \
        static TK_DEVICE void copy(const void* map, const void* from, int c0, int c1, int c2,   \
                                   int c3) {                                                    \
            asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta." operation         \
                         ".tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),           \
                         "r"(shared_address(from)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)          \
                         : "memory");                                                           \
        }                                                                                       \
        static TK_DEVICE void copy(const void* map, const void* from, int c0, int c1, int c2,   \
                                   int c3, int c4) {                                            \
            asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta." operation         \
                         ".tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),       \
                         "r"(shared_address(from)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) \
                         : "memory");                                                           \
        }                                                                                       \
    }
TK_TMA_REDUCE(tma_reduce_min, "min");
TK_TMA_REDUCE(tma_reduce_max, "max");
#undef TK_TMA_REDUCE

// `bytes` from this block's shared memory to the same place as `to` in block `rank`'s, completing
// them on the semaphore there.
TK_DEVICE void copy_to_block(void* to, const void* from, int bytes, int rank, semaphore& sem) {
    asm volatile(
        "{\n"
        ".reg .b32 to, bar;\n"
        "mapa.shared::cluster.u32 to, %0, %4;\n"
        "mapa.shared::cluster.u32 bar, %3, %4;\n"
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
        " [to], [%1], %2, [bar];\n"
        "}\n" ::"r"(shared_address(to)),
        "r"(shared_address(from)), "r"(bytes), "r"(shared_address(&sem)), "r"(rank)
        : "memory");
}

}  // namespace detail

TK_NAMESPACE_END
