// Tensor memory accelerator on the host: loads that another thread carries out later and that
// complete on a semaphore, multicast over a cluster, and stores that read their tile as late as
// they may (PTX ISA, "cp.async.bulk.tensor").
#pragma once
#include "tk/arch/host/engine.hpp"
#include "tk/arch/host/mma.hpp"
#include "tk/tile/gl.hpp"

TK_NAMESPACE_BEGIN

// What a CUtensorMap says: a (batch, rows, cols) tensor with columns contiguous, and the box of one
// copy.
struct tma_descriptor {
    char* base = nullptr;
    int64_t batch = 0, rows = 0, cols = 0;
    int64_t batch_stride = 0, row_stride = 0;  // bytes
    int box_rows = 0, box_cols = 0;

    char* address(int64_t b, int64_t r, int64_t c, int element_bytes) const {
        return base + b * batch_stride + r * row_stride + c * element_bytes;
    }
    // Which of `count` elements from column c on lie inside: [first, last).
    struct range {
        int first, last;
    };
    range inside(int64_t b, int64_t r, int64_t c, int count) const {
        if (b < 0 || b >= batch || r < 0 || r >= rows) return {0, 0};
        const auto clip = [&](int64_t x) { return int(std::clamp<int64_t>(x, 0, count)); };
        return {clip(-c), clip(cols - c)};
    }
};

// A global tensor that is copied in tiles of type S.
template <class T, shared_tile S>
using gl = gl_tma<T, S, tma_descriptor>;

namespace machine {

// f(address in the tile, address in the tensor, bytes) for the part of every 16 bytes of a box that
// lies inside the tensor; before it, `begin` for those 16 bytes of the tile.
template <shared_tile S, class Begin, class F>
void for_chunks(const tma_descriptor& map, char* tile, int panel, int first_row, int rows, int col,
                int row, int batch, Begin&& begin, F&& f) {
    constexpr int size = int(sizeof(typename S::dtype)), chunk = 16 / size;
    for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < S::panel_cols; c += chunk) {
            char* at = tile + S::offset(first_row + r, panel * S::panel_cols + c) * size;
            const auto [first, last] = map.inside(batch, row + r, col + c, chunk);
            begin(at, last - first == chunk);
            if (first >= last) continue;
            f(at + first * size, map.address(batch, row + r, col + c + first, size),
              size_t(last - first) * size);
        }
    }
}

inline void copy_chunk(void* to, const void* from, size_t bytes) {
    if (bytes == 16) {
        std::memcpy(to, from, 16);
    } else {
        copy_bytes(to, from, bytes);
    }
}

template <shared_tile S>
void load_box(const load_copy& copy) {
    for_chunks<S>(
        *static_cast<const tma_descriptor*>(copy.descriptor), static_cast<char*>(copy.tile),
        copy.panel, copy.first_row, copy.rows, copy.col, copy.row, copy.batch,
        [](char* at, bool whole) {
            if (!whole) std::memset(at, 0, 16);
        },
        [](char* to, const char* from, size_t bytes) { copy_chunk(to, from, bytes); });
}

template <shared_tile S>
void require_tile(const S& tile, const char* operation) {
    const block_context& block = *self().block;
    if (!block.contains(&tile, S::bytes)) {
        fail(std::string(operation) + ": " + tile_name<S>() + " is not in the shared memory");
    }
    // The hardware swizzles addresses, the layout of a tile its offsets.
    if (block.offset_of(&tile) % (S::swizzle_bytes * 8) != 0) {
        fail(std::string(operation) + ": " + tile_name<S>() + " is not aligned to its swizzle");
    }
}

template <shared_tile S>
void require_descriptor(const tma_descriptor& map, int rows) {
    if (map.base == nullptr) fail("a TMA copy without a descriptor");
    if (map.box_rows != rows || map.box_cols != S::panel_cols) {
        fail("a TMA copy of " + std::to_string(rows) + " rows of " + tile_name<S>() +
             " with a descriptor for a box of " + std::to_string(map.box_rows) + " rows");
    }
}

// Issues one box to every block in the mask: poisons where it goes, and leaves the rest to the copy
// engine.
template <shared_tile S>
void issue_load(S& tile, const tma_descriptor& map, load_copy copy, uint32_t mask, semaphore& bar) {
    cluster_context& cluster = *self().cluster;
    const int64_t offset = self().block->offset_of(&tile);
    copy.execute = &load_box<S>;
    copy.descriptor = &map;
    copy.bytes = int64_t(copy.rows) * S::panel_cols * int64_t(sizeof(typename S::dtype));
    if (mask == 0 || mask >> cluster.blocks.size() != 0) {
        fail("a multicast mask is not of the cluster");
    }
    for (block_context& block : cluster.blocks) {
        if ((mask >> block.rank & 1u) == 0) continue;
        copy.completes = &barrier_of(bar, block);
        require_fenced(*copy.completes);
        copy.tile = block.memory + offset;
        const int64_t box = int64_t(copy.panel * S::rows + copy.first_row) * S::swizzle_bytes;
        access made = make_access("load_async", &tile_name<S>, offset + box, copy.bytes);
        made.writes = made.asynchronous = made.under_way = true;
        made.agent = copy.completes->agent();
        copy.log = &block.accesses;
        copy.ticket = note(block, made);
        poison(block.memory + offset + box, size_t(copy.bytes));
        cluster.engine->add(copy);
    }
}

// The boxes of this block's part of a tile.
template <class T, shared_tile S>
void load_part(S& dst, const gl<T, S>& src, coord at, semaphore& bar, const multicast& share) {
    require_tile(dst, "load_async");
    const int rows = tma_box<S>::rows(share.parts);
    require_descriptor<S>(src.descriptor, rows);
    const bool by_panel = tma_box<S>::by_panel(share.parts);
    const int panels = by_panel ? S::panels / share.parts : S::panels;
    const int panel_0 = by_panel ? share.part * panels : 0;
    const int row_0 = by_panel ? 0 : share.part * rows;
    const uint32_t mask = share.parts == 1 ? 1u << cluster::rank() : share.mask;
    for (int panel = panel_0; panel < panel_0 + panels; ++panel) {
        load_copy copy;
        copy.panel = panel, copy.first_row = row_0, copy.rows = rows;
        copy.col = at.col + panel * S::panel_cols, copy.row = at.row + row_0;
        copy.batch = src.batch_coord(at.batch);
        issue_load(dst, src.descriptor, copy, mask, bar);
    }
}

template <shared_tile S>
void read_store(pending_store& store) {
    const S& tile = *static_cast<const S*>(store.tile);
    store.content.resize(S::bytes);
    copy_bytes(store.content.data(), tile.data, S::bytes);
    store.is_read = true;
    self().block->accesses.finish(store.reads, self().clock.epoch());
}

template <shared_tile S>
void write_store(const pending_store& store) {
    const auto& map = *static_cast<const tma_descriptor*>(store.destination);
    for (int panel = 0; panel < S::panels; ++panel) {
        for_chunks<S>(
            map, const_cast<char*>(store.content.data()), panel, 0, S::rows,
            store.col + panel * S::panel_cols, store.row, store.batch, [](char*, bool) {},
            [](const char* from, char* to, size_t bytes) { copy_chunk(to, from, bytes); });
    }
}

// Reads the tiles of the oldest stores until `unread` are left, and writes what was read by stores
// older than the last `unwritten`.
inline void advance_stores(size_t unread, size_t unwritten) {
    auto& stores = self().stores;
    for (size_t i = 0; i + unread < stores.size(); ++i) {
        if (!stores[i].is_read) stores[i].read(stores[i]);
    }
    while (stores.size() > unwritten) {
        stores.front().write(stores.front());
        stores.pop_front();
    }
}

}  // namespace machine

namespace tma {

template <class... Tensors>
void prefetch_descriptors(const Tensors&...) {}

// Loads the tile at `at`; elements outside the tensor become 0. Completes S::bytes on `bar`. By
// one warp.
template <class T, shared_tile S>
void load_async(S& dst, const gl<T, S>& src, coord at, semaphore& bar) {
    machine::load_part(dst, src, at, bar, multicast{});
}

namespace cluster {
// The same, each block of the cluster loading one part for all in the mask; every block in the
// mask gets S::bytes on its own `bar`.
template <class T, shared_tile S>
void load_async(S& dst, const gl<T, S>& src, coord at, semaphore& bar, const multicast& share) {
    machine::load_part(dst, src, at, bar, share);
}
}  // namespace cluster

// Stores a tile, clipped to the tensor, as a bulk group of its own. By one warp, and always the
// same one: the waits below count the groups of the calling warp.
template <class T, shared_tile S>
void store_async(const gl<T, S>& dst, const S& src, coord at) {
    machine::require_tile(src, "store_async");
    machine::require_descriptor<S>(dst.descriptor, S::rows);
    machine::pending_store store;
    store.reads = machine::note_async_read(src, "store_async", true);
    store.read = &machine::read_store<S>;
    store.write = &machine::write_store<S>;
    store.destination = &dst.descriptor;
    store.tile = &src;
    store.col = at.col, store.row = at.row, store.batch = dst.batch_coord(at.batch);
    machine::self().stores.push_back(std::move(store));
}

// Until at most `InFlight` of this warp's stores have still to read their tile.
template <int InFlight = 0>
void store_async_read_wait(const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("store_async_read_wait", where)) return;
    constexpr size_t most_unwritten = 8;  // what was read is held back, but not without end
    machine::advance_stores(InFlight, InFlight + most_unwritten);
    ++machine::self().clock.lane_meetings;
}

// Until at most `InFlight` of this warp's stores are incomplete.
template <int InFlight = 0>
void store_async_wait(const std::source_location where = std::source_location::current()) {
    if (machine::sabotage::drops("store_async_wait", where)) return;
    machine::advance_stores(InFlight, InFlight);
    ++machine::self().clock.lane_meetings;
}

}  // namespace tma

TK_NAMESPACE_END
