// Launching a block template over its tasks: the checks and the shared memory that follow from its
// configuration.
#pragma once
#include "tk/grid/launch.hpp"

TK_NAMESPACE_BEGIN

// Runs Template, a lcf or lcsf, on `grid` blocks: clusters of g.config.cluster. On the stream; the
// device is current (`device_scope`). Throws std::runtime_error for what cannot work: a ring deeper
// than the kernel has, a grid that is not whole clusters, what the scheduler lacks.
template <class Template>
void launch_tasks(const typename Template::globals& g, int grid, int device = 0,
                  void* stream = nullptr) {
    Template::check(g.config, grid);
    launch<Template>(
        g, {grid, g.config.cluster.blocks(), Template::shared_bytes(g.config), device, stream});
}

TK_NAMESPACE_END
