// What a TMA descriptor is asked to say, and the checks that cuTensorMapEncodeTiled makes (CUDA
// driver API), in words: the same for both architectures.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

// What `make_gl` throws for sizes, strides or an address that do not fit.
struct refused_tensor : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// How TMA reads the elements; `byte` is for every dtype of one byte, which it only moves.
enum class tma_element { byte, half, bf16, fp32 };

struct tma_request {
    struct axis {
        const char* name = "";
        int64_t size = 1;    // elements
        int64_t stride = 0;  // bytes
        int box = 1;         // elements of one copy
    };
    static constexpr int max_rank = 5;

    void* base = nullptr;
    tma_element element = tma_element::byte;
    int element_bytes = 1;
    int swizzle_bytes = 0;
    int rank = 0;
    axis axes[max_rank];  // the innermost first: its elements are contiguous

    void add(const axis& next) { axes[rank++] = next; }
    // A dimension of size 1 is never stepped along: whatever its stride, it gets one that TMA
    // takes.
    void add(const char* name, int64_t size, int64_t stride_elements, int box) {
        add({name, size, size == 1 ? 16 : stride_elements * element_bytes, box});
    }

    // Throws refused_tensor with the dimension, what it is and what is allowed.
    void check() const {
        if (base == nullptr) refuse("its address is null");
        if (reinterpret_cast<uintptr_t>(base) % 16 != 0) {
            refuse("its address is " + std::to_string(reinterpret_cast<uintptr_t>(base) % 16) +
                   " bytes past a multiple of 16, and must be one");
        }
        for (int i = 0; i < rank; ++i) {
            const axis& each = axes[i];
            const std::string name = each.name;
            if (each.size < 1 || each.size > int64_t(1) << 32) {
                refuse("the number of " + name + " is " + std::to_string(each.size) +
                       ", and must be 1 to 2^32");
            }
            if (i > 0 &&
                (each.stride % 16 != 0 || each.stride < 16 || each.stride >= int64_t(1) << 40)) {
                refuse("the stride of " + name + " is " + std::to_string(each.stride) +
                       " bytes, and must be a multiple of 16 from 16 to 2^40 - 16");
            }
            if (each.box < 1 || each.box > 256) {
                refuse("its boxes have " + std::to_string(each.box) + " " + name +
                       ", and must have 1 to 256");
            }
        }
        const int row_bytes = axes[0].box * element_bytes;
        if (row_bytes % 16 != 0 || (swizzle_bytes != 0 && row_bytes > swizzle_bytes)) {
            refuse("the rows of its boxes have " + std::to_string(row_bytes) +
                   " bytes, and must have a multiple of 16, no more than the swizzle's " +
                   std::to_string(swizzle_bytes));
        }
    }

    [[noreturn]] void refuse(const std::string& reason) const {
        std::string names, sizes;
        for (int i = rank - 1; i >= 0; --i) {
            names += axes[i].name + std::string(i > 0 ? ", " : "");
            sizes += std::to_string(axes[i].size) + (i > 0 ? ", " : "");
        }
        throw refused_tensor("TMA refuses a tensor of (" + names + ") = (" + sizes + ") with " +
                             std::to_string(element_bytes) + "-byte elements: " + reason);
    }
};

TK_NAMESPACE_END
