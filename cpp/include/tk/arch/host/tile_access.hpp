// Accesses of tile operations to shared memory, as the access log has them.
#pragma once
#include "tk/arch/host/sync.hpp"
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

template <shared_tile S>
std::string tile_name() {
    using T = typename S::dtype;
    const char* type = std::is_same_v<T, bf16>   ? "bf16"
                       : std::is_same_v<T, half> ? "half"
                                                 : "float";
    return std::string("st<") + type + ", " + std::to_string(S::rows) + ", " +
           std::to_string(S::cols) + ">";
}

// An access of the calling warp to `bytes` from `offset` of a block's shared memory, in a tile (or
// whatever it is) of that name.
inline access make_access(const char* operation, std::string (*tile)(), int64_t offset,
                          int64_t bytes) {
    const warp_context& warp = self();
    access made;
    made.first = offset, made.last = offset + bytes;
    made.operation = operation;
    made.tile = tile;
    made.block = warp.block->index, made.warp = warp.index;
    made.agent = warp.clock.agent, made.epoch = warp.clock.epoch();
    made.lane_meetings = warp.clock.lane_meetings;
    return made;
}

inline uint64_t note(block_context& block, const access& made) {
    if (!settings().check_accesses.load(std::memory_order_relaxed)) return 0;
    uint64_t ticket = 0;
    const std::string problem = block.accesses.add(made, self().clock.known, &ticket);
    if (!problem.empty()) fail(problem);
    return ticket;
}

// Notes an ordinary access to rows [first, first + count) of a shared tile: a stretch of memory in
// each panel.
template <shared_tile S>
void note_rows(const S& tile, int first, int count, bool writes, const char* operation) {
    block_context& block = *self().block;
    if (!block.contains(&tile, S::bytes)) return;  // a tile of the caller's own
    for (int panel = 0; panel < S::panels; ++panel) {
        access made = make_access(
            operation, &tile_name<S>,
            block.offset_of(&tile) + int64_t(panel * S::rows + first) * S::swizzle_bytes,
            int64_t(count) * S::swizzle_bytes);
        made.writes = writes;
        made.by_lanes = true;
        note(block, made);
    }
}

// Notes an ordinary access to a word of shared memory.
inline void note_word(const int& word, bool writes, const char* operation) {
    block_context& block = *self().block;
    if (!block.contains(&word, sizeof(word))) {
        fail(std::string(operation) + ": the word is not in the shared memory");
    }
    access made = make_access(
        operation, +[] { return std::string("a word"); }, block.offset_of(&word), sizeof(word));
    made.writes = writes;
    made.by_lanes = true;
    note(block, made);
}

// Notes that WGMMA or TMA reads a shared tile from now on; returns the ticket to finish it by.
// WGMMA is started by all lanes of the warp together, TMA by one of them.
template <shared_tile S>
uint64_t note_async_read(const S& tile, const char* operation, bool by_one_lane = false) {
    block_context& block = *self().block;
    if (!block.contains(&tile, S::bytes)) {
        fail(std::string(operation) + ": " + tile_name<S>() + " is not in the shared memory");
    }
    access made = make_access(operation, &tile_name<S>, block.offset_of(&tile), S::bytes);
    made.asynchronous = made.under_way = true;
    made.by_lanes = by_one_lane;
    return note(block, made);
}

}  // namespace machine

TK_NAMESPACE_END
