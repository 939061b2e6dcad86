// A replay of a persistent grid's loads and stores through the partitions of an L2 cache: what
// tk.schedulers.l2_reference does, integer for integer (a test compares them), only faster.
#pragma once

#include <cstdint>
#include <vector>

namespace tk::schedulers {

/// What is replayed. A panel is what a cluster loads of an operand: the rows of a or the columns of
/// b of its tiles. Items are (batch, place in the order, split); cluster c takes every
/// delays.size()-th, from item c. All sizes are positive, bytes and capacity may be 0, and entries
/// (steps of all panels, items and outputs) are numbered in 31 bits.
struct l2_work {
    int order_kind = 0, order_param = 0;  // as tk::tile_order takes them
    std::vector<std::int32_t> order_table;
    int rows = 1, cols = 1;  // of cluster tiles
    int batch = 1, splits = 1;
    int k_tiles = 1, k_step = 1;                // K tiles in all, and loaded at a step
    std::int64_t a_bytes = 0, b_bytes = 0;      // of one K tile of a panel
    std::int64_t out_bytes = 0, sum_bytes = 0;  // of an output, and of a split's sums
    std::vector<int> delays;                    // steps that each cluster starts late
    std::vector<int> near;                      // the partition that each cluster asks
    int partitions = 1;
    std::int64_t capacity = 0;  // bytes of one partition
    bool by_wave = false;       // fill l2_counts::waves
};

/// K tiles of panels: multiply by l2_work::a_bytes or b_bytes.
struct l2_loads {
    std::int64_t a_requested = 0, b_requested = 0;  // by clusters
    std::int64_t a_crossed = 0, b_crossed = 0;      // that one partition asked of another
    std::int64_t a_read = 0, b_read = 0;            // from memory
};

/// What l2_work amounts to. Sums and outputs are counted in partitions' shares of one.
struct l2_counts {
    l2_loads total;
    std::int64_t sums_requested = 0, sums_read = 0;   // when the last split adds all of them
    std::int64_t sums_evicted = 0, outs_evicted = 0;  // written back before the end
    std::vector<l2_loads> waves;                      // by the items that a cluster did before
};

l2_counts replay_l2(const l2_work& work);

}  // namespace tk::schedulers
