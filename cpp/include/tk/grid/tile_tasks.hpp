// The tasks of a kernel that computes output tiles: which tile, and which split of its K, is the
// i-th; over a batch, in a tile order, clusters side by side.
#pragma once
#include "tk/block/cluster_tile.hpp"
#include "tk/block/split_k.hpp"
#include "tk/grid/order.hpp"

TK_NAMESPACE_BEGIN

// One task of the calling block.
struct tile_task {
    coord at;                    // the corner of its output tile; its matrix is the depth
    multicast along_n, along_m;  // who shares the loads of its row, and of its column
    int split, k_begin;          // which split, and its first K tile
    int tile;                    // the number of the tile among all
};

template <int TileM, int TileN>
struct tile_tasks {
    tile_order order;  // over cluster tiles
    split_k split;
    int batch = 1;
    fast_divider tasks_per_tile;  // its splits, unless they are the blocks of a cluster
    fast_divider tiles;           // of a matrix

    tile_tasks() = default;
    // For an output of (batch, m, n).
    tile_tasks(int batch_, int64_t m, int64_t n, cluster_shape shape, int order_kind,
               int order_param, const int32_t* order_table, split_k split_)
        : order(order_kind, order_param, covering(m, TileM * shape.m), covering(n, TileN * shape.n),
                order_table),
          split(split_),
          batch(batch_),
          tasks_per_tile(uint32_t(shape.k > 1 ? 1 : split_.splits)),
          tiles(uint32_t(order.rows) * uint32_t(order.cols)) {}

    TK_HOST_DEVICE int count() const {
        return batch * int(tiles.divisor) * int(tasks_per_tile.divisor);
    }

    // Task `index`; returns the number of its K tiles.
    TK_DEVICE int get(int index, const cluster_tile& place, cluster_shape shape,
                      tile_task& task) const {
        const int tile = int(tasks_per_tile.divide(uint32_t(index)));
        const int matrix = batch == 1 ? 0 : int(tiles.divide(uint32_t(tile)));
        const tile_coord position = order.at(tile - matrix * int(tiles.divisor));
        task.at = {matrix, (position.row * shape.m + place.m) * TileM,
                   (position.col * shape.n + place.n) * TileN};
        task.along_n = place.along_n, task.along_m = place.along_m;
        task.split = shape.k > 1 ? cluster::rank() : index - tile * int(tasks_per_tile.divisor);
        task.k_begin = split.begin(task.split);
        task.tile = (tile * shape.m + place.m) * shape.n + place.n;
        return split.count(task.split);
    }
};

TK_NAMESPACE_END
