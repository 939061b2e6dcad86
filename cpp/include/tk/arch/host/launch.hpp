// Launching on the host. Errors are exceptions; the callers at the C interface turn them into
// messages.
#pragma once
#include <stdexcept>
#include <string>

#include "tk/arch/host/grid_run.hpp"
#include "tk/grid/launch_config.hpp"

TK_NAMESPACE_BEGIN

// There is one host, and it is always current.
class device_scope {
  public:
    explicit device_scope(int) {}
    ~device_scope() {}
    device_scope(const device_scope&) = delete;
    device_scope& operator=(const device_scope&) = delete;
};

// Blocks that are worth starting at once: they share the host's processors in any case.
inline int multiprocessors(int) { return 4; }

// Runs Template::run to its end. The device and the stream mean nothing here, and launches follow
// one another: what a programmatic one reads before `wait_dependency` is there already.
template <class Template>
void launch(const typename Template::globals& g, const launch_config& config) {
    static_assert(sizeof(semaphore) == 8, "shared memory must be counted as on the GPU");
    static_assert(Template::num_threads % 128 == 0 && Template::num_threads <= 1024,
                  "launch: a block has whole warpgroups and at most 1024 threads");
    constexpr int64_t most_shared_bytes = machine::block_context::most_bytes;
    if (config.cluster_blocks < 1 || config.cluster_blocks > 16) {
        throw std::runtime_error("launch: a cluster of " + std::to_string(config.cluster_blocks) +
                                 " blocks");
    }
    if (config.grid < 1 || config.grid % config.cluster_blocks != 0) {
        throw std::runtime_error("launch: a grid of " + std::to_string(config.grid) +
                                 " blocks is not made of clusters of " +
                                 std::to_string(config.cluster_blocks));
    }
    if (config.shared_bytes < 0 || config.shared_bytes > most_shared_bytes) {
        throw std::runtime_error("launch: " + std::to_string(config.shared_bytes) +
                                 " bytes of shared memory, of " +
                                 std::to_string(most_shared_bytes));
    }
    machine::kernel_type kernel;
    kernel.run = [](const void* globals) {
        Template::run(*static_cast<const typename Template::globals*>(globals));
    };
    kernel.globals = &g;
    kernel.warps = Template::num_threads / 32;
    kernel.grid = config.grid;
    kernel.cluster_blocks = config.cluster_blocks;
    kernel.shared_bytes = config.shared_bytes;
    kernel.programmatic = config.programmatic;
    machine::grid_run{kernel}();
}

TK_NAMESPACE_END
