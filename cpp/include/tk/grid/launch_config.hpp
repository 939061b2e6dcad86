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
};

TK_NAMESPACE_END
