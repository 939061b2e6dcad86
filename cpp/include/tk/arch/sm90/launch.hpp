// Launching on sm90. Errors are exceptions; the callers at the C interface turn them into messages.
#pragma once
#include <cuda_runtime.h>

#include <atomic>

#include "tk/arch/sm90/tma_descriptor.hpp"
#include "tk/grid/launch_config.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <class Template>
__global__ void __launch_bounds__(Template::num_threads, 1)
    kernel_entry(const __grid_constant__ typename Template::globals g) {
    Template::run(g);
}

}  // namespace detail

// Makes a device current while it lives, with its context: TMA descriptors are refused on a thread
// that has none yet, such as one of autograd's.
class device_scope {
  public:
    explicit device_scope(int device) {
        detail::check(cudaGetDevice(&before_), "cudaGetDevice");
        thread_local uint64_t visited = 0;  // by this thread, a bit a device
        const uint64_t bit = uint64_t(1) << (device & 63);
        if (before_ != device || (visited & bit) == 0) {
            detail::check(cudaSetDevice(device), "cudaSetDevice");
            visited |= bit;
        }
        restores_ = before_ != device;
    }
    ~device_scope() {
        if (restores_) cudaSetDevice(before_);
    }
    device_scope(const device_scope&) = delete;
    device_scope& operator=(const device_scope&) = delete;

  private:
    int before_ = 0;
    bool restores_ = false;
};

// Multiprocessors of a device.
inline int multiprocessors(int device) {
    int count = 0;
    detail::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
                  "cudaDeviceGetAttribute(MultiProcessorCount)");
    return count;
}

// Launches Template::run on the stream; the device is current (`device_scope`).
template <class Template>
void launch(const typename Template::globals& g, const launch_config& config) {
    auto* kernel = &detail::kernel_entry<Template>;
    // The limit belongs to the function on one device, and is raised to the most a block may have:
    // a smaller one would be in the way of another thread's deeper ring.
    static std::atomic<uint64_t> raised{0};
    const uint64_t bit = uint64_t(1) << (config.device & 63);
    if ((raised.load(std::memory_order_relaxed) & bit) == 0) {
        int most = 0;
        detail::check(
            cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, config.device),
            "cudaDeviceGetAttribute(MaxSharedMemoryPerBlockOptin)");
        detail::check(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
            "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
        raised.fetch_or(bit, std::memory_order_relaxed);
    }
    cudaLaunchAttribute attributes[2];
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {unsigned(config.cluster_blocks), 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t launch{};
    launch.gridDim = dim3(unsigned(config.grid));
    launch.blockDim = dim3(Template::num_threads);
    launch.dynamicSmemBytes = size_t(config.shared_bytes);
    launch.stream = static_cast<cudaStream_t>(config.stream);
    launch.attrs = attributes;
    launch.numAttrs = config.programmatic ? 2 : 1;
    detail::check(cudaLaunchKernelEx(&launch, kernel, g), "cudaLaunchKernelEx");
}

TK_NAMESPACE_END
