// What the host tells a block template of a launch: the depths of its rings, and its tasks.
#pragma once
#include "tk/block/cluster_tile.hpp"

TK_NAMESPACE_BEGIN

// Tasks are numbers from 0 to num_tasks - 1; what one means is the kernel's business
// (`common_setup`). All blocks of a cluster work on the same task.
struct lcf_config {
    int num_stages = 1;  // of the input ring
    int num_tasks = 0;
    cluster_shape cluster;
    // For schedulers that draw from a queue: a counter in global memory, 0 before and after. With
    // the default scheduler null means a static order.
    int* queue = nullptr;
    // For table_scheduler: task numbers in global memory; see there.
    const int* table = nullptr;
    int table_length = 0;
    int tail_bytes = 0;  // shared memory after the ring, for the kernel's own use: args.tail()
};

struct lcsf_config : lcf_config {
    int num_output_stages = 1;
};

TK_NAMESPACE_END
