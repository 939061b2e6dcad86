// What a warp of the rotation works on: which tensor, heads and tokens, and where those lie.
#pragma once
#include "tk/grid/order.hpp"
#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

// q or k, as it is read and as it is written: strides in elements.
template <element T>
struct rotary_tensor {
    struct strides {
        int64_t batch = 0, head = 0, row = 0, col = 1;
    };
    const T* in = nullptr;
    T* out = nullptr;
    strides from, to;
    int heads = 0;
    int groups = 0;  // of heads, a task each
};

// cos or sin, (rows, rotary_dim / 2); strides in elements.
struct rotary_table {
    const void* data = nullptr;
    int64_t row = 0, col = 1;
};

// Columns of a row that are treated alike, two units of them at a time. The unit in slot i begins
// at column first + i * step, its partner `partner` columns on.
struct rotary_columns {
    fast_divider slots;
    int tiles = 0;  // of 32 neighbouring slots, over all rows
    int first = 0, step = 0, partner = 0, end = 0;
};

// Which rows of cos and sin the tokens' are: by a tensor of them, or the token's number in its
// sequence, counted from `offset`.
struct rotary_positions {
    const void* data = nullptr;  // (batch, rows) of int32 or int64
    bool wide = false;
    int64_t batch_stride = 0, row_stride = 0;
    int64_t offset = 0;
    const int32_t* cu_seqlens = nullptr;  // (sequences + 1): of packed sequences
    int sequences = 0;

    TK_DEVICE int64_t of(int batch, int row) const {
        if (data != nullptr) {
            const int64_t at = batch * batch_stride + row * row_stride;
            return wide ? static_cast<const int64_t*>(data)[at]
                        : static_cast<const int32_t*>(data)[at];
        }
        return cu_seqlens == nullptr ? row + offset : row - start_of(row) + offset;
    }

  private:
    // The first row of the sequence that holds `row`: the largest of the starts up to it.
    TK_DEVICE int start_of(int row) const {
        int low = 0, high = sequences - 1;
        while (low < high) {
            const int middle = (low + high + 1) / 2;
            if (cu_seqlens[middle] <= row) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        return cu_seqlens[low];
    }
};

// The tasks: a tile of slots and a group of the heads of one tensor each.
struct rotary_tasks {
    fast_divider inner;  // tiles, or groups if those come first
    bool groups_first = false;
    int count = 0;

    struct task {
        int tile, group;
    };
    TK_DEVICE task at(int index) const {
        const int outer = int(inner.divide(uint32_t(index)));
        const int rest = index - outer * int(inner.divisor);
        return groups_first ? task{outer, rest} : task{rest, outer};
    }
};

TK_NAMESPACE_END
