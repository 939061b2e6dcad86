// TMA descriptors on sm90: CUtensorMap, encoded by the driver on the host.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include "tk/tile/tma_request.hpp"

TK_NAMESPACE_BEGIN

using tma_descriptor = CUtensorMap;

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

// Needs a current device (`device_scope`), and a request that was checked.
inline tma_descriptor encode(const tma_request& asked) {
    cuuint64_t sizes[tma_request::max_rank], strides[tma_request::max_rank];
    cuuint32_t box[tma_request::max_rank], steps[tma_request::max_rank];
    for (int i = 0; i < asked.rank; ++i) {
        sizes[i] = cuuint64_t(asked.axes[i].size);
        box[i] = cuuint32_t(asked.axes[i].box);
        steps[i] = 1;
        if (i > 0) strides[i - 1] = cuuint64_t(asked.axes[i].stride);
    }
    const auto type = asked.element == tma_element::byte   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                      : asked.element == tma_element::half ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                      : asked.element == tma_element::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                           : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    const auto swizzle = asked.swizzle_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                         : asked.swizzle_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                         : asked.swizzle_bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                     : CU_TENSOR_MAP_SWIZZLE_NONE;
    // Rows that start off 256 bytes would fetch two such lines for every one that a box needs.
    const auto promotion = asked.axes[1].stride % 256 == 0 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                                                           : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    tma_descriptor result;
    const CUresult status = tensor_map_encoder()(
        &result, type, cuuint32_t(asked.rank), asked.base, sizes, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        asked.refuse("cuTensorMapEncodeTiled gives error " + std::to_string(int(status)));
    }
    return result;
}

}  // namespace detail

TK_NAMESPACE_END
