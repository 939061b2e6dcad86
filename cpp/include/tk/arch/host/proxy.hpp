// Which bytes of a block's shared memory were written by ordinary stores and not yet fenced: the
// asynchronous proxy (TMA, WGMMA) must not touch them (PTX ISA, "fence.proxy.async").
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

class proxy_tracker {
  public:
    static constexpr int64_t granule = 16;  // bytes

    explicit proxy_tracker(int64_t bytes)
        : granules_(bytes / granule + 1), writer_(new std::atomic<uint8_t>[size_t(granules_)]()) {}

    // Warp `warp` wrote [first, first + bytes) by ordinary stores; `list` is its own.
    void wrote(int warp, int64_t first, int64_t bytes, std::vector<int32_t>& list) {
        for (int64_t i = first / granule; i <= (first + bytes - 1) / granule; ++i) {
            // Relaxed: who wrote and who reads are ordered by the kernel's own barriers, or wrong.
            const uint8_t before =
                writer_[i].exchange(uint8_t(warp + 1), std::memory_order_relaxed);
            if (before == 0) unfenced_.fetch_add(1, std::memory_order_relaxed);
            if (before != warp + 1) list.push_back(int32_t(i));
        }
    }
    // Warp `warp` fenced what it wrote.
    void fence(int warp, std::vector<int32_t>& list) {
        for (const int32_t i : list) {
            uint8_t expected = uint8_t(warp + 1);
            if (writer_[i].compare_exchange_strong(expected, 0, std::memory_order_relaxed)) {
                unfenced_.fetch_sub(1, std::memory_order_relaxed);
            }
        }
        list.clear();
    }
    // The warp that wrote a byte of the range and did not fence it, or -1.
    int unfenced_writer(int64_t first, int64_t bytes) const {
        if (unfenced_.load(std::memory_order_relaxed) == 0) return -1;
        for (int64_t i = first / granule; i <= (first + bytes - 1) / granule; ++i) {
            const int writer = writer_[i].load(std::memory_order_relaxed);
            if (writer != 0) return writer - 1;
        }
        return -1;
    }

  private:
    int64_t granules_;
    std::unique_ptr<std::atomic<uint8_t>[]> writer_;  // warp + 1 of an unfenced store
    std::atomic<int64_t> unfenced_{0};
};

}  // namespace machine

TK_NAMESPACE_END
