// A cluster as a small grid of output tiles, whose blocks take neighbouring tiles and share loads;
// or as the splits of one tile, whose blocks share nothing but the sum.
#pragma once
#include "tk/tile/group.hpp"

TK_NAMESPACE_BEGIN

// Rows x columns of blocks in a cluster; rank = row * columns + column. Or `k` splits of one tile,
// and then one row and one column; the rank is the number of the split.
struct cluster_shape {
    int m = 1, n = 1, k = 1;
    TK_HOST_DEVICE int blocks() const { return m * n * k; }
};

// The calling block's place in its cluster, and with whom it shares loads.
struct cluster_tile {
    int m = 0, n = 0;
    multicast along_n;         // what depends on the row alone is shared by the blocks of a row
    multicast along_m;         // what depends on the column alone is shared by those of a column
    uint32_t loader_mask = 1;  // the blocks that write into this one's ring: its row, its column
    int num_loaders = 1;

    TK_DEVICE explicit cluster_tile(cluster_shape shape) {
        if (shape.blocks() == 1) return;
        const int rank = cluster::rank();
        if (shape.k > 1) {
            loader_mask = 1u << rank;
            return;
        }
        m = shape.n == 1 ? rank : rank / shape.n;
        n = rank - m * shape.n;
        const uint32_t row_mask = ((1u << shape.n) - 1u) << (m * shape.n);
        uint32_t column_mask = 0;
        TK_NO_UNROLL
        for (int i = 0; i < shape.m; ++i) column_mask |= 1u << (i * shape.n + n);
        along_n = {shape.n, n, uint16_t(row_mask)};
        along_m = {shape.m, m, uint16_t(column_mask)};
        loader_mask = row_mask | column_mask;
        num_loaders = shape.m + shape.n - 1;
    }
};

TK_NAMESPACE_END
