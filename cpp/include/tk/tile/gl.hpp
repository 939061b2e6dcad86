// Global tensors: a pointer, sizes and strides; and, for the tile they are copied by, a TMA
// descriptor.
#pragma once
#include "tk/tile/st.hpp"

TK_NAMESPACE_BEGIN

// A (batch, rows, cols) tensor in global memory; strides in elements, any of them.
template <class T>
struct gl_view {
    using dtype = T;
    T* data = nullptr;
    int64_t batch = 1, rows = 0, cols = 0;
    int64_t batch_stride = 0, row_stride = 0, col_stride = 1;

    TK_HOST_DEVICE int64_t offset(int64_t b, int64_t r, int64_t c) const {
        return b * batch_stride + r * row_stride + c * col_stride;
    }
};

// How one tile copy is shared by the blocks of a cluster: each block loads part `part` of `parts`
// and multicasts it to the blocks in `mask`. `parts` is a power of two.
struct multicast {
    int parts = 1;
    int part = 0;
    uint16_t mask = 1;
};

// The box of one TMA copy of tile S when `parts` blocks share it: whole panels where they can be
// dealt out, otherwise rows of every panel.
template <shared_tile S>
struct tma_box {
    TK_HOST_DEVICE static constexpr bool by_panel(int parts) { return S::panels % parts == 0; }
    TK_HOST_DEVICE static constexpr int rows(int parts) {
        return by_panel(parts) ? S::rows : S::rows / parts;
    }
    TK_HOST_DEVICE static constexpr bool legal(int parts) {
        return by_panel(parts) || (S::rows % (8 * parts) == 0);
    }
};

// How long the second-level cache is asked to keep what a TMA load brings.
enum class eviction { normal, first };

// A global tensor with the TMA descriptor for copies of tile S. `tma_descriptor` is the
// architecture's; columns are contiguous, and a batch stride of 0 (the same matrix for every
// batch) is expressed by a batch size of 1 in the descriptor.
template <class T, shared_tile S, class Descriptor>
struct gl_tma : gl_view<T> {
    using tile = S;
    Descriptor descriptor;
    bool batch_is_broadcast = false;
    eviction keep = eviction::normal;

    TK_HOST_DEVICE int batch_coord(int batch) const { return batch_is_broadcast ? 0 : batch; }
};

// A complex tensor: a tensor of the real parts and one of the imaginary parts.
template <class G>
struct cgl {
    G real, imag;
};

TK_NAMESPACE_END
