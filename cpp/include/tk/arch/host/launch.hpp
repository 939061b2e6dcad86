// Launching on the host, and TMA descriptors with the checks that cuTensorMapEncodeTiled makes.
// Errors are exceptions; the callers at the C interface turn them into messages.
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

// A gl for copies of tile S, each shared by `parts` blocks. Strides in elements.
template <shared_tile S>
gl<typename S::dtype, S> make_gl(typename S::dtype* data, int64_t batch, int64_t rows, int64_t cols,
                                 int64_t batch_stride, int64_t row_stride, int parts = 1) {
    using T = typename S::dtype;
    gl<T, S> result{};
    result.data = data, result.batch = batch, result.rows = rows, result.cols = cols;
    result.batch_stride = batch_stride, result.row_stride = row_stride, result.col_stride = 1;
    if (rows == 0 || cols == 0) return result;  // nothing will be copied
    result.batch_is_broadcast = batch == 1 || batch_stride == 0;
    // A dimension of size 1 is never stepped along: give it a stride that TMA takes.
    const auto legal = [](int64_t extent, int64_t stride) {
        return extent == 1 ? 16 : stride * int64_t(sizeof(T));
    };
    tma_descriptor& map = result.descriptor;
    map.base = reinterpret_cast<char*>(data);
    map.batch = result.batch_is_broadcast ? 1 : batch;
    map.rows = rows, map.cols = cols;
    map.row_stride = legal(rows, row_stride), map.batch_stride = legal(map.batch, batch_stride);
    map.box_rows = tma_box<S>::rows(parts), map.box_cols = S::panel_cols;

    // CUDA driver API, cuTensorMapEncodeTiled.
    const auto refuse = [&](const std::string& reason) {
        throw std::runtime_error("TMA refuses (batch, rows, cols) = (" + std::to_string(map.batch) +
                                 ", " + std::to_string(rows) + ", " + std::to_string(cols) +
                                 ") with strides (" + std::to_string(map.batch_stride) + ", " +
                                 std::to_string(map.row_stride) + ", " + std::to_string(sizeof(T)) +
                                 ") bytes: " + reason);
    };
    if (reinterpret_cast<uintptr_t>(data) % 16 != 0) refuse("the address is no multiple of 16");
    for (const int64_t size : {map.batch, map.rows, map.cols}) {
        if (size < 1 || size > int64_t(1) << 32) refuse("a size is not in 1 to 2^32");
    }
    for (const int64_t stride : {map.row_stride, map.batch_stride}) {
        if (stride % 16 != 0) refuse("a stride is no multiple of 16");
        if (stride <= 0 || stride >= int64_t(1) << 40) refuse("a stride is not in 16 to 2^40");
    }
    if (!tma_box<S>::legal(parts)) refuse("the tile cannot be shared so");
    if (map.box_rows < 1 || map.box_rows > 256) refuse("the box has not 1 to 256 rows");
    return result;
}

// Runs Template::run to its end. The device and the stream mean nothing here.
template <class Template>
void launch(const typename Template::globals& g, const launch_config& config) {
    static_assert(sizeof(semaphore) == 8, "shared memory must be counted as on the GPU");
    static_assert(Template::num_threads % 128 == 0 && Template::num_threads <= 1024,
                  "launch: a block has whole warpgroups and at most 1024 threads");
    constexpr int64_t most_shared_bytes = 232448;  // of a block on Hopper
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
    machine::grid_run{kernel}();
}

TK_NAMESPACE_END
