// Accesses of tile operations to shared memory, as the access log has them.
#pragma once
#include "tk/arch/host/sync.hpp"
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

template <element T>
std::string type_name() {
    return std::is_same_v<T, bf16>   ? "bf16"
           : std::is_same_v<T, half> ? "half"
           : std::is_same_v<T, e4m3> ? "e4m3"
           : std::is_same_v<T, e5m2> ? "e5m2"
                                     : "float";
}
template <shared_tile S>
std::string tile_name() {
    return "st<" + type_name<typename S::dtype>() + ", " + std::to_string(S::rows) + ", " +
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

// Notes an ordinary access to `bytes` from an address in shared memory; nothing elsewhere, as in a
// tile of the caller's own.
inline void note_bytes(const void* address, int64_t bytes, bool writes, const char* operation,
                       std::string (*name)()) {
    block_context& block = *self().block;
    if (!block.contains(address, bytes)) {
        if (block.is_beyond(address)) {
            const int64_t first = block.offset_of(address);
            fail(std::string(operation) + " of " + name() + " at bytes " + std::to_string(first) +
                 "-" + std::to_string(first + bytes - 1) + ", beyond the block's " +
                 std::to_string(block.bytes) +
                 " bytes of shared memory (launch_config::shared_bytes)");
        }
        return;
    }
    access made = make_access(operation, name, block.offset_of(address), bytes);
    made.writes = writes;
    made.by_lanes = true;
    note(block, made);
}

// Notes an ordinary access to rows [first, first + count) of a shared tile: a stretch of memory in
// each panel; of a part narrower than a panel, whose neighbours may be another warp's, every 16
// bytes for themselves.
template <shared_tile S>
void note_rows(const S& tile, int first, int count, bool writes, const char* operation) {
    constexpr int size = int(sizeof(typename S::dtype)), width = std::min(16 / size, S::cols);
    if constexpr (S::cols % S::panel_cols == 0) {
        for (int panel = 0; panel < S::panels; ++panel) {
            note_bytes(tile.panel_address(panel, first), int64_t(count) * S::panel_cols * size,
                       writes, operation, &tile_name<S>);
        }
    } else {
        for (int row = first; row < first + count; ++row) {
            for (int col = 0; col < S::cols; col += width) {
                note_bytes(tile.data + tile.index(row, col), width * size, writes, operation,
                           &tile_name<S>);
            }
        }
    }
}

template <shared_vector V>
std::string vector_name() {
    return "sv<" + type_name<typename V::dtype>() + ", " + std::to_string(V::length) + ">";
}
// Notes an ordinary access to some elements of a shared vector.
template <shared_vector V>
void note_elements(const V& vector, int first, int count, bool writes, const char* operation) {
    if (count == 0) return;
    note_bytes(vector.data + first, int64_t(count) * int64_t(sizeof(typename V::dtype)), writes,
               operation, &vector_name<V>);
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
