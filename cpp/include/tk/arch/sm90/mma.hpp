// The scopes of matrix products on sm90, and the groups of a warpgroup's: fence, commit, wait.
#pragma once
#include "tk/arch/sm90/sync.hpp"
#include "tk/arch/sm90/warp_mma.hpp"
#include "tk/arch/sm90/wgmma.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <int Warps>
struct mma_ops : no_products {};

template <>
struct mma_ops<1> : warp_products<warp_mma> {};

template <>
struct mma_ops<4> : warpgroup_products<wgmma, true> {
    // The same products, several to a group.
    using uncommitted = warpgroup_products<wgmma, false>;

    // Before the first uncommitted product of a group: orders the register tiles, of accumulators
    // and of a, after what was done with them before (PTX ISA, "wgmma.fence"). All must be named.
    template <class... Tiles>
    static TK_DEVICE void mma_fence(Tiles&... tiles) {
        (wgmma::fence_registers(tiles), ...);
        cute::warpgroup_arrive();
    }
    // The uncommitted products so far are a group, to be waited for.
    static TK_DEVICE void mma_commit_group() { cute::warpgroup_commit_batch(); }

    // Waits until at most `InFlight` of the groups so far are unfinished. Every register tile in
    // flight must be named, accumulators and a, so that the compiler keeps its hands off them.
    template <int InFlight, class... Tiles>
    static TK_DEVICE void mma_async_wait(Tiles&... tiles) {
        cute::warpgroup_wait<InFlight>();
        (wgmma::fence_registers(tiles), ...);
    }

    // Has a value, or every element of a vector, computed before the wait that follows. ptxas moves
    // a wait up over arithmetic that the source has before it, and so undoes the overlap with the
    // products in flight (seen of nvcc 12.8 and 13.0); it does not move it over a volatile store,
    // so there is one that needs the value and never happens: no arithmetic gives this NaN. (A
    // branch or a trap instead makes it serialise the products, C7512.)
    template <class V>
    static TK_DEVICE void keep_before_wait(const V& value) {
        if constexpr (in_registers<V>) {
            TK_UNROLL
            for (int i = 0; i < V::elements; ++i) keep_before_wait(value.data[i]);
        } else {
            asm volatile(
                "{\n"
                ".reg .pred never;\n"
                "setp.eq.u32 never, %0, 0xffdead01;\n"
                "@never st.volatile.shared.u32 [%1], %0;\n"
                "}\n" ::"r"(__float_as_uint(float(value))),
                "r"(shared_address(shared_memory()))
                : "memory");
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
