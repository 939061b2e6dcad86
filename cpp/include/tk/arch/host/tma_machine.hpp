// What stands behind TMA's operations on the host: the boxes of a copy, their checks, what the copy
// engine does with them, and stores that are read and written late.
#pragma once
#include "tk/arch/host/send.hpp"
#include "tk/arch/host/tile_access.hpp"
#include "tk/tile/gl.hpp"
#include "tk/tile/tma_checks.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

// For messages: "st<bf16, 64, 64>".
template <shared_object S>
std::string object_name() {
    if constexpr (shared_tile<S>) {
        return tile_name<S>();
    } else {
        return "sv of " + std::to_string(S::length) + " elements of " +
               std::to_string(sizeof(typename S::dtype)) + " bytes";
    }
}

// --- Boxes ---

// One box of a copy: where it is in the shared memory, and its coordinates.
struct box_copy {
    int64_t address = 0;
    tma_place at{};
};

// f(box_copy) for the boxes of part `share.part` of an object.
template <class G, shared_object S, class F>
void for_boxes(S& object, const G& tensor, const coord& at, const multicast& share, F&& f) {
    using type = std::remove_const_t<S>;
    const block_context& block = *self().block;
    tma_for_boxes<true, G>(object, share, [&](const auto* element, int col, int row, int panel) {
        coord corner = at;
        corner.col += col, corner.row += row;
        box_copy box;
        box.address = block.offset_of(element);
        tensor.template visit_coords<type>(corner, panel, [&](auto... c) { box.at = {c...}; });
        f(box);
    });
}

// --- Checks ---

template <shared_object S>
void require_place(const S& object, const char* operation) {
    const block_context& block = *self().block;
    const char *first, *last;
    if constexpr (shared_tile<S>) {
        first = reinterpret_cast<const char*>(object.panel_address(0, 0));
        last = reinterpret_cast<const char*>(object.panel_address(S::panels - 1, S::rows));
    } else {
        first = reinterpret_cast<const char*>(&object.data[0]);
        last = first + S::bytes;
    }
    if (!block.contains(first, last - first)) {
        fail(std::string(operation) + ": " + object_name<S>() + " is not in the shared memory");
    }
    // The hardware swizzles addresses, the layout of a tile its offsets.
    constexpr int swizzle = tma_box<S>::swizzle_bytes, unit = swizzle == 0 ? 128 : swizzle * 8;
    if (block.offset_of(first) % unit != 0) {
        fail(std::string(operation) + ": " + object_name<S>() + " is at byte " +
             std::to_string(block.offset_of(first)) + ", not aligned to " +
             (swizzle == 0 ? std::string() : "its swizzle, ") + std::to_string(unit) + " bytes");
    }
}

template <shared_object S, class G>
void require_copy(const G& tensor, const coord& at, const multicast& share) {
    const tma_descriptor& map = tensor.template descriptor<S>();
    if (map.base == nullptr) fail("a TMA copy without a descriptor (make_gl)");
    if (!tma_box<S>::legal(share.parts) || share.part < 0 || share.part >= share.parts) {
        fail("part " + std::to_string(share.part) + " of " + std::to_string(share.parts) +
             " is none of " + object_name<S>());
    }
    constexpr int unit = 16 / int(sizeof(typename S::dtype));
    if (at.col % unit != 0) {
        fail("a TMA copy of " + object_name<S>() + " from or to column " + std::to_string(at.col) +
             ", which must be a multiple of " + std::to_string(unit) + ", of 16 bytes");
    }
    constexpr bool one = G::template copies_in_one_box<S>;
    const int rows = tma_box<S>::rows(share.parts);
    const int panels = one ? tma_box<S>::panels(share.parts) : 1;
    const int has_panels = one ? map.box[2] : 1;
    if (map.box[1] != rows || has_panels != panels || map.box[0] != tma_box<S>::cols) {
        fail("a TMA copy of " + std::to_string(rows) + " rows of " + std::to_string(panels) +
             " panels of " + object_name<S>() + " with a descriptor for a box of " +
             std::to_string(map.box[1]) + " rows of " + std::to_string(has_panels));
    }
    if constexpr (one) {
        if (at.col % S::panel_cols != 0) {
            fail("a TMA copy of " + object_name<S>() + " in one box from column " +
                 std::to_string(at.col) + ", which is no multiple of " +
                 std::to_string(S::panel_cols));
        }
    }
    if ((tensor.batch_is_broadcast && (at.batch < 0 || at.batch >= tensor.batch())) ||
        (tensor.depth_is_broadcast && (at.depth < 0 || at.depth >= tensor.depth()))) {
        fail("a TMA copy at batch " + std::to_string(at.batch) + " and depth " +
             std::to_string(at.depth) + ", outside of a tensor that is the same for all of them");
    }
    if ((G::rank < 4 && at.batch != 0) || (G::rank < 3 && at.depth != 0)) {
        fail("a TMA copy at batch " + std::to_string(at.batch) + " and depth " +
             std::to_string(at.depth) + " of a tensor of " + std::to_string(G::rank) +
             " dimensions");
    }
}

// --- Loads ---

inline void copy_chunk(void* to, const void* from, size_t bytes) {
    if (bytes == 16) {
        std::memcpy(to, from, 16);
    } else {
        copy_bytes(to, from, bytes);
    }
}

inline void load_box(const async_copy& copy) {
    copy.map->for_chunks(
        copy.address, copy.at,
        [&](int64_t at, bool whole) {
            if (!whole) std::memset(copy.memory + at, 0, 16);
        },
        [&](int64_t to, const char* from, size_t bytes) {
            copy_chunk(copy.memory + to, from, bytes);
        });
}

// The boxes of this block's part of an object, each to every block in the mask.
template <shared_object S, class G>
void load_part(S& dst, const G& src, const coord& at, semaphore& bar, const multicast& share) {
    require_place(dst, "load_async");
    require_copy<S>(src, at, share);
    cluster_context& cluster = *self().cluster;
    const uint32_t mask = share.parts == 1 ? 1u << self().block->rank : share.mask;
    if (mask == 0 || mask >> cluster.blocks.size() != 0) {
        fail("a multicast mask is not of the cluster");
    }
    for_boxes(dst, src, at, share, [&](const box_copy& box) {
        for (block_context& block : cluster.blocks) {
            if ((mask >> block.rank & 1u) == 0) continue;
            async_copy copy;
            copy.execute = &load_box;
            copy.map = &src.template descriptor<S>();
            copy.at = box.at;
            copy.address = box.address;
            copy.bytes = copy.map->box_bytes();
            issue(copy, block, bar, "load_async", &object_name<S>);
        }
    });
}

// From this block's shared memory to the same place as `to` in block `rank`'s.
inline void issue_cluster_copy(const void* to, const void* from, int bytes, int rank,
                               semaphore& bar, std::string (*name)()) {
    constexpr const char* operation = "cluster::store_async";
    block_context& own = *self().block;
    block_context& target = receiver(to, bytes, rank, operation, name);
    const std::string start = std::string(operation) + ": ";
    if (!own.contains(from, bytes)) fail(start + name() + " is not in the shared memory");
    if (own.offset_of(to) % 16 != 0 || own.offset_of(from) % 16 != 0) {
        fail(start + name() + " is not aligned to 16 bytes");
    }
    async_copy copy;
    copy.execute = [](const async_copy& it) {
        copy_bytes(it.memory + it.address, it.source, size_t(it.bytes));
    };
    copy.address = own.offset_of(to);
    copy.source = static_cast<const char*>(from);
    copy.bytes = bytes;
    // The source has been read when the destination's semaphore says that the copy is complete.
    access read = make_access(operation, name, own.offset_of(from), bytes);
    read.asynchronous = read.under_way = read.by_lanes = true;
    read.agent = barrier_of(bar, target).agent();
    copy.source_log = &own.accesses;
    copy.source_ticket = note(own, read);
    issue(copy, target, bar, operation, name);
}

// --- Stores ---

// What is at `to` becomes its combination with what is at `from`, element by element, each in one
// step.
template <tma_reduction Operation, class T>
void combine(char* to, const char* from, size_t bytes) {
    using word = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
    for (size_t i = 0; i < bytes; i += sizeof(T)) {
        T given;
        std::memcpy(&given, from + i, sizeof(T));
        const std::atomic_ref<word> element(*reinterpret_cast<word*>(to + i));
        word before = element.load(std::memory_order_relaxed), after;
        do {
            T there;
            std::memcpy(&there, &before, sizeof(T));
            const float a = float(there), b = float(given);
            const T result = T(Operation == tma_reduction::add   ? a + b
                               : Operation == tma_reduction::min ? std::fmin(a, b)
                                                                 : std::fmax(a, b));
            std::memcpy(&after, &result, sizeof(T));
        } while (!element.compare_exchange_weak(before, after, std::memory_order_relaxed));
    }
}

template <shared_object S, class G>
void issue_store(const G& dst, const S& src, const coord& at, const char* operation,
                 void (*combine)(char*, const char*, size_t)) {
    require_place(src, operation);
    require_copy<S>(dst, at, multicast{});
    constexpr int unit = 16 / int(sizeof(typename S::dtype));
    if (dst.cols() % unit != 0) {
        fail(std::string(operation) + " to a tensor of " + std::to_string(dst.cols()) +
             " cols, which must be a multiple of " + std::to_string(unit) +
             ": TMA writes 16 bytes at a time, and would write beside it");
    }
    if (at.batch < 0 || at.depth < 0 || at.row < 0 || at.col < 0) {
        fail(std::string(operation) + " to (" + std::to_string(at.batch) + ", " +
             std::to_string(at.depth) + ", " + std::to_string(at.row) + ", " +
             std::to_string(at.col) + "), before the tensor: only loads may start there");
    }
    pending_store store;
    store.combine = combine;
    for_boxes(src, dst, at, multicast{}, [&](const box_copy& box) {
        store_box made;
        made.map = &dst.template descriptor<S>();
        made.at = box.at;
        made.address = box.address;
        access read = make_access(operation, &object_name<S>, box.address, made.map->box_bytes());
        read.asynchronous = read.under_way = read.by_lanes = true;
        made.reads = note(*self().block, read);
        store.boxes.push_back(std::move(made));
    });
    self().stores.push_back(std::move(store));
}

inline void read_store(pending_store& store) {
    block_context& block = *self().block;
    for (store_box& box : store.boxes) {
        box.content.resize(size_t(box.map->box_bytes()));
        copy_bytes(box.content.data(), block.memory + box.address, box.content.size());
        block.accesses.finish(box.reads, self().clock.epoch());
    }
    store.is_read = true;
}

inline void write_store(const pending_store& store) {
    const auto write =
        store.combine != nullptr ? store.combine : [](char* to, const char* from, size_t bytes) {
            copy_chunk(to, from, bytes);
        };
    for (const store_box& box : store.boxes) {
        box.map->for_chunks(
            box.address, box.at, [](int64_t, bool) {},
            [&](int64_t from, char* to, size_t bytes) {
                write(to, box.content.data() + (from - box.address), bytes);
            });
    }
}

// Reads the tiles of the oldest stores until `unread` are left, and writes what was read by stores
// older than the last `unwritten`.
inline void advance_stores(size_t unread, size_t unwritten) {
    auto& stores = self().stores;
    for (size_t i = 0; i + unread < stores.size(); ++i) {
        if (!stores[i].is_read) read_store(stores[i]);
    }
    while (stores.size() > unwritten) {
        write_store(stores.front());
        stores.pop_front();
    }
}

}  // namespace machine

TK_NAMESPACE_END
