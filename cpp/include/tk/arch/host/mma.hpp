// The scopes of matrix products on the host, and the groups of a warpgroup's: fence, commit, wait.
#pragma once
#include "tk/arch/host/wgmma.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// A register tile, and the line it was named at: the first argument of operations that name any
// number of them, which leaves no room for a default argument of theirs.
struct register_argument {
    struct part {
        const void* data;
        size_t bytes;
    };
    part parts[2];
    int count;
    std::source_location where;

    template <class R>
    register_argument(const R& tile, std::source_location at = std::source_location::current())
        : where(at) {
        if constexpr (complex_tile<R>) {
            parts[0] = {tile.real.data, sizeof(tile.real.data)};
            parts[1] = {tile.imag.data, sizeof(tile.imag.data)};
            count = 2;
        } else {
            static_assert(in_registers<R>, "mma_async_wait, mma_fence: name register tiles");
            parts[0] = {tile.data, sizeof(tile.data)};
            count = 1;
        }
    }
};

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
    static void mma_fence(register_argument first, const Tiles&... others) {
        if (machine::sabotage::drops("mma_fence", first.where)) return;
        auto& products = machine::self().products;
        for (const auto& tile : {first, register_argument(others)...}) {
            for (int i = 0; i < tile.count; ++i) {
                const auto* data = static_cast<const char*>(tile.parts[i].data);
                std::erase_if(products.fenced, [=](auto& each) { return each.registers == data; });
                products.fenced.push_back({data, {data, data + tile.parts[i].bytes}});
            }
        }
    }
    // The uncommitted products so far are a group, to be waited for.
    static void mma_commit_group(std::source_location where = std::source_location::current()) {
        if (machine::sabotage::drops("mma_commit_group", where)) return;
        machine::self().products.commit();
    }

    // Waits until at most `InFlight` of the groups so far are unfinished. Every register tile in
    // flight must be named, accumulators and a, so that the compiler keeps its hands off them.
    template <int InFlight>
    static void mma_async_wait(std::source_location where = std::source_location::current()) {
        finish<InFlight>({}, where);
    }
    template <int InFlight, class... Tiles>
    static void mma_async_wait(register_argument first, const Tiles&... others) {
        finish<InFlight>({first, register_argument(others)...}, first.where);
    }

    // Has a value, or every element of a vector, computed before the wait that follows: for the
    // compiler of the GPU, and nothing here.
    template <class V>
    static void keep_before_wait(const V&) {}

  private:
    template <int InFlight>
    static void finish(std::initializer_list<register_argument> named,
                       const std::source_location& where) {
        static_assert(InFlight >= 0 && InFlight <= 7, "mma_async_wait: 0 to 7 groups in flight");
        if (machine::sabotage::drops("mma_async_wait", where)) return;
        auto& products = machine::self().products;
        for (const auto& each : products.registers) {
            const auto names = [&](const register_argument& tile) {
                return tile.parts[0].data == each.registers ||
                       (tile.count == 2 && tile.parts[1].data == each.registers);
            };
            if (std::none_of(named.begin(), named.end(), names)) {
                machine::fail("mma_async_wait does not name every register tile in flight");
            }
        }
        while (products.groups.size() > size_t(InFlight)) {
            for (int i = 0; i < products.groups.front(); ++i) machine::finish_product();
            products.groups.pop_front();
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
