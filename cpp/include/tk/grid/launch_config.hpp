// The shape of a launch, whatever the architecture.
#pragma once
#include <cstdint>

#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

struct launch_config {
    int grid = 1;  // blocks
    int cluster_blocks = 1;
    int64_t shared_bytes = 0;
    int device = 0;
    void* stream = nullptr;
    // May start before the kernel before it in the stream has ended, once all blocks of that one
    // have called `launch_dependents` or exited: reads nothing that it wrote, and writes nothing
    // that it uses, before `wait_dependency` ("programmatic dependent launch").
    bool programmatic = false;
};

TK_NAMESPACE_END
