// A warp's asynchronous matrix products on the host: those issued and not yet waited for, the
// groups they are committed in, and the register tiles they hold.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include "tk/arch/host/sanitizer.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

// A register tile that belongs to the tensor cores until its last product is done. Its owner's is
// poisoned: every byte 0xff, NaN in every dtype.
struct registers_in_flight {
    void* registers = nullptr;
    size_t bytes = 0;
    std::vector<float> content;  // what they really hold, bytes of any dtype
    bool is_accumulator = false;
    int products = 0;

    bool is_poisoned() const {
        const auto* at = static_cast<const unsigned char*>(registers);
        return std::all_of(at, at + bytes, [](unsigned char byte) { return byte == 0xff; });
    }
};

struct pending_product {
    std::vector<uint64_t> reads;  // tickets of the access log
    std::function<void()> execute;
    void* accumulator = nullptr;
    const void* operand = nullptr;  // a in registers
};

struct products_in_flight {
    std::deque<pending_product> issued;
    std::deque<int> groups;  // how many of them, from the first, belong to each
    int uncommitted = 0;     // and how many of the last to none
    std::deque<registers_in_flight> registers;
    // What `mma_fence` named since the last commit, as it was then.
    struct fenced_registers {
        const void* registers;
        std::vector<char> content;
    };
    std::vector<fenced_registers> fenced;

    bool empty() const { return issued.empty(); }

    registers_in_flight* find(const void* tile) {
        const auto found = std::find_if(registers.begin(), registers.end(),
                                        [=](auto& each) { return each.registers == tile; });
        return found == registers.end() ? nullptr : &*found;
    }
    // Takes a register tile for one more product.
    registers_in_flight& take(void* tile, size_t bytes, bool is_accumulator) {
        registers_in_flight* taken = find(tile);
        if (taken == nullptr) {
            taken = &registers.emplace_back();
            taken->registers = tile, taken->bytes = bytes;
            taken->is_accumulator = is_accumulator;
            taken->content.resize((bytes + 3) / 4);
            std::memcpy(taken->content.data(), tile, bytes);
            std::memset(tile, 0xff, bytes);
        }
        ++taken->products;
        return *taken;
    }
    // Gives it back after one product. False: the owner wrote to it meanwhile.
    bool give_back(const void* tile) {
        registers_in_flight* taken = find(tile);
        if (--taken->products != 0) return true;
        const bool untouched = taken->is_poisoned();
        std::memcpy(taken->registers, taken->content.data(), taken->bytes);
        std::erase_if(registers, [=](auto& each) { return &each == taken; });
        return untouched;
    }
    void commit() {
        groups.push_back(uncommitted);
        uncommitted = 0;
        fenced.clear();
    }
};

}  // namespace machine

TK_NAMESPACE_END
