// Starting a kernel template over a grid: the same call on every architecture.
#pragma once
#include "tk/block/lcf.hpp"

TK_NAMESPACE_BEGIN

struct launch_config {
    int grid = 1;  // blocks
    int cluster_blocks = 1;
    int64_t shared_bytes = 0;
    int device = 0;
    void* stream = nullptr;
};

TK_NAMESPACE_END

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/launch.hpp"
#else
#include "tk/arch/host/launch.hpp"
#endif
