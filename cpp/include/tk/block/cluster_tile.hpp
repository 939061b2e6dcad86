// A cluster as a small grid of output tiles: its blocks take neighbouring tiles and share loads.
#pragma once
#include "tk/tile/group.hpp"

TK_NAMESPACE_BEGIN

// Rows x columns of blocks in a cluster; rank = row * columns + column.
struct cluster_shape {
    int m = 1, n = 1;
    TK_HOST_DEVICE int blocks() const { return m * n; }
};

// The calling block's place in its cluster, and with whom it shares loads.
struct cluster_tile {
    int m, n;
    multicast along_n;     // what depends on the row alone is shared by the blocks of a row
    multicast along_m;     // what depends on the column alone is shared by those of a column
    uint32_t loader_mask;  // the blocks that write into this one's ring: its row and its column
    int num_loaders;

    TK_DEVICE explicit cluster_tile(cluster_shape shape) {
        const int rank = shape.blocks() == 1 ? 0 : cluster::rank();
        m = rank / shape.n;
        n = rank % shape.n;
        const uint32_t row_mask = ((1u << shape.n) - 1u) << (m * shape.n);
        uint32_t column_mask = 0;
        for (int i = 0; i < shape.m; ++i) column_mask |= 1u << (i * shape.n + n);
        along_n = {shape.n, n, uint16_t(row_mask)};
        along_m = {shape.m, m, uint16_t(column_mask)};
        loader_mask = row_mask | column_mask;
        num_loaders = shape.m + shape.n - 1;
    }
};

TK_NAMESPACE_END
