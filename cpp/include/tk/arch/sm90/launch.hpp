// Launching on sm90, and TMA descriptors made on the host. Errors are exceptions; the callers at
// the C interface turn them into messages.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "tk/arch/sm90/tma.hpp"
#include "tk/grid/launch_config.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

inline void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess) {
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
    }
}

// cuTensorMapEncodeTiled without linking libcuda.
inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder() {
    static const auto function = [] {
        void* pointer = nullptr;
        cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
        const cudaError_t status = cudaGetDriverEntryPointByVersion(
            "cuTensorMapEncodeTiled", &pointer, 12000, cudaEnableDefault, &result);
#else
        const cudaError_t status =
            cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &pointer, cudaEnableDefault, &result);
#endif
        check(status, "the driver's entry point of cuTensorMapEncodeTiled");
        if (result != cudaDriverEntryPointSuccess) {
            throw std::runtime_error("the driver has no cuTensorMapEncodeTiled (needs CUDA 12)");
        }
        return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(pointer);
    }();
    return function;
}

template <class Template>
__global__ void __launch_bounds__(Template::num_threads, 1)
    kernel_entry(const __grid_constant__ typename Template::globals g) {
    Template::run(g);
}

}  // namespace detail

// A gl for copies of tile S, each shared by `parts` blocks. Strides in elements.
template <shared_tile S>
gl<typename S::dtype, S> make_gl(typename S::dtype* data, int64_t batch, int64_t rows, int64_t cols,
                                 int64_t batch_stride, int64_t row_stride, int parts = 1) {
    using T = typename S::dtype;
    gl<T, S> result{};
    result.data = data, result.batch = batch, result.rows = rows, result.cols = cols;
    result.batch_stride = batch_stride, result.row_stride = row_stride, result.col_stride = 1;
    if (rows == 0 || cols == 0) return result;  // nothing will be copied
    if (!tma_box<S>::legal(parts)) {
        throw std::runtime_error("a tile of " + std::to_string(S::rows) + " x " +
                                 std::to_string(S::cols) + " cannot be shared by " +
                                 std::to_string(parts) + " blocks");
    }
    result.batch_is_broadcast = batch == 1 || batch_stride == 0;
    // A dimension of size 1 is never stepped along: give it a stride that TMA takes.
    const auto legal = [](int64_t extent, int64_t stride) {
        return uint64_t(extent == 1 ? 16 : stride * int64_t(sizeof(T)));
    };
    const cuuint64_t sizes[3] = {cuuint64_t(cols), cuuint64_t(rows),
                                 cuuint64_t(result.batch_is_broadcast ? 1 : batch)};
    const cuuint64_t strides[2] = {legal(rows, row_stride), legal(int64_t(sizes[2]), batch_stride)};
    const cuuint32_t box[3] = {S::panel_cols, cuuint32_t(tma_box<S>::rows(parts)), 1};
    const cuuint32_t steps[3] = {1, 1, 1};
    const auto type = std::is_same_v<T, bf16>   ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                      : std::is_same_v<T, half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    const auto swizzle = S::swizzle_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                         : S::swizzle_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                  : CU_TENSOR_MAP_SWIZZLE_32B;
    // Rows that start off 256 bytes would fetch two such lines for every one that a box needs.
    const auto promotion = strides[0] % 256 == 0 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                                                 : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    const CUresult status = detail::tensor_map_encoder()(
        &result.descriptor, type, 3, data, sizes, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        throw std::runtime_error("cuTensorMapEncodeTiled refused (batch, rows, cols) = (" +
                                 std::to_string(sizes[2]) + ", " + std::to_string(rows) + ", " +
                                 std::to_string(cols) + ") with strides (" +
                                 std::to_string(strides[1]) + ", " + std::to_string(strides[0]) +
                                 ", 2) bytes: error " + std::to_string(int(status)));
    }
    return result;
}

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
    cudaLaunchAttribute attributes[1];
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {unsigned(config.cluster_blocks), 1, 1};
    cudaLaunchConfig_t launch{};
    launch.gridDim = dim3(unsigned(config.grid));
    launch.blockDim = dim3(Template::num_threads);
    launch.dynamicSmemBytes = size_t(config.shared_bytes);
    launch.stream = static_cast<cudaStream_t>(config.stream);
    launch.attrs = attributes;
    launch.numAttrs = 1;
    detail::check(cudaLaunchKernelEx(&launch, kernel, g), "cudaLaunchKernelEx");
}

TK_NAMESPACE_END
