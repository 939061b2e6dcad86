// A cache that keeps what was used last, over numbered entries of any size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tk::schedulers {

/// A least-recently-used cache: a doubly linked list that lies in an array by entries' numbers.
class lru_cache {
  public:
    /// For entries 0 to `entries` - 1.
    lru_cache(std::int32_t entries, std::int64_t capacity)
        : links_(static_cast<std::size_t>(entries) + 1),
          bytes_(static_cast<std::size_t>(entries)),
          ring_(entries),
          room_(capacity) {
        at(ring_) = {ring_, ring_};
    }

    /// Makes the entry the latest used and returns true, if it is here.
    bool touch(std::int32_t entry) {
        const link& here = at(entry);
        if (here.older == absent) return false;
        if (at(ring_).older != entry) {
            unlink(here);
            link_last(entry);
        }
        return true;
    }

    /// Inserts an entry that is not here, as the latest used. The oldest are dropped until all fit,
    /// and this one, too, if it alone does not; `on_drop` is told each.
    template <class OnDrop>
    void insert(std::int32_t entry, std::int64_t bytes, const OnDrop& on_drop) {
        bytes_[static_cast<std::size_t>(entry)] = bytes;
        link_last(entry);
        room_ -= bytes;
        while (room_ < 0) {
            const std::int32_t oldest = at(ring_).newer;
            room_ += bytes_[static_cast<std::size_t>(oldest)];
            unlink(at(oldest));
            at(oldest).older = absent;
            on_drop(oldest);
        }
    }

  private:
    static constexpr std::int32_t absent = -1;
    struct link {
        std::int32_t older = absent, newer = absent;
    };

    link& at(std::int32_t entry) { return links_[static_cast<std::size_t>(entry)]; }
    void unlink(const link& here) {
        at(here.older).newer = here.newer;
        at(here.newer).older = here.older;
    }
    void link_last(std::int32_t entry) {
        link& here = at(entry);
        here.older = at(ring_).older;
        here.newer = ring_;
        at(here.older).newer = entry;
        at(ring_).older = entry;
    }

    std::vector<link> links_;
    std::vector<std::int64_t> bytes_;
    std::int32_t ring_;  // closes the list: its `newer` is the oldest entry, its `older` the latest
    std::int64_t room_;
};

}  // namespace tk::schedulers
