// TMA descriptors on the host: what a CUtensorMap says, and the walk over the elements of one box
// as the hardware makes it.
#pragma once
#include <algorithm>
#include <array>

#include "tk/tile/tma_request.hpp"

TK_NAMESPACE_BEGIN

// The coordinates of a box, the innermost first.
using tma_place = std::array<int, tma_request::max_rank>;

struct tma_descriptor {
    char* base = nullptr;
    int rank = 0, element_bytes = 1, swizzle_bytes = 0;
    std::array<int64_t, tma_request::max_rank> sizes{1, 1, 1, 1, 1};
    std::array<int64_t, tma_request::max_rank> strides{};  // bytes
    std::array<int, tma_request::max_rank> box{1, 1, 1, 1, 1};

    int64_t box_bytes() const {
        int64_t result = element_bytes;
        for (const int size : box) result *= size;
        return result;
    }

    // Where the hardware puts 16 bytes that are due at this address of the shared memory: as far as
    // the swizzle is wide, their number among 128 bytes is xor-ed with the number of the 128 bytes
    // (PTX ISA, "tensor swizzling modes").
    int64_t swizzled(int64_t address) const {
        const int64_t mask = swizzle_bytes == 0 ? 0 : swizzle_bytes / 16 - 1;
        return address ^ ((address >> 7 & mask) << 4);
    }

    // For every 16 bytes of a box that lies from `address` of the shared memory: `begin` with their
    // own address and whether all of them lie inside the tensor, then f(address, address in the
    // tensor, bytes) for the part that does.
    template <class Begin, class F>
    void for_chunks(int64_t address, const tma_place& at, Begin&& begin, F&& f) const {
        const int chunk = 16 / element_bytes;
        for (int i4 = 0; i4 < box[4]; ++i4) {
            for (int i3 = 0; i3 < box[3]; ++i3) {
                for (int i2 = 0; i2 < box[2]; ++i2) {
                    for (int i1 = 0; i1 < box[1]; ++i1) {
                        const int64_t place[] = {0, int64_t(at[1]) + i1, int64_t(at[2]) + i2,
                                                 int64_t(at[3]) + i3, int64_t(at[4]) + i4};
                        int64_t offset = 0;
                        bool inside = true;
                        for (size_t i = 1; i < 5; ++i) {
                            inside = inside && place[i] >= 0 && place[i] < sizes[i];
                            offset += place[i] * strides[i];
                        }
                        for (int c = 0; c < box[0]; c += chunk, address += 16) {
                            const int64_t col = int64_t(at[0]) + c;
                            const auto clip = [&](int64_t x) {
                                return inside ? int(std::clamp<int64_t>(x, 0, chunk)) : 0;
                            };
                            const int first = clip(-col), last = clip(sizes[0] - col);
                            const int64_t to = swizzled(address);
                            begin(to, last - first == chunk);
                            if (first >= last) continue;
                            f(to + first * element_bytes,
                              base + offset + (col + first) * element_bytes,
                              size_t(last - first) * size_t(element_bytes));
                        }
                    }
                }
            }
        }
    }
};

namespace detail {

// Of a request that was checked.
inline tma_descriptor encode(const tma_request& asked) {
    tma_descriptor result;
    result.base = static_cast<char*>(asked.base);
    result.rank = asked.rank;
    result.element_bytes = asked.element_bytes;
    result.swizzle_bytes = asked.swizzle_bytes;
    for (int i = 0; i < asked.rank; ++i) {
        result.sizes[size_t(i)] = asked.axes[i].size;
        result.strides[size_t(i)] = asked.axes[i].stride;
        result.box[size_t(i)] = asked.axes[i].box;
    }
    return result;
}

}  // namespace detail

TK_NAMESPACE_END
