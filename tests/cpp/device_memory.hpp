// Memory that kernels of either architecture can reach, filled and read by the caller: the host's
// own on the host, device memory on a GPU.
#pragma once
#include <vector>

#include "tk/tk.hpp"

namespace checks {

#if defined(TK_ARCH_SM90)
inline void require_cuda(cudaError_t status) { tk::detail::check(status, "the check's memory"); }
#endif

template <class T>
class device_memory {
  public:
    explicit device_memory(const std::vector<T>& values) : device_memory(values.size()) {
        put(0, values);
    }
    // Not written: only the pages that are touched cost memory on the host.
    explicit device_memory(size_t count) {
#if defined(TK_ARCH_SM90)
        require_cuda(cudaMalloc(&data_, count * sizeof(T)));
#else
        data_ = static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{1024}));
#endif
    }
    ~device_memory() {
#if defined(TK_ARCH_SM90)
        cudaFree(data_);
#else
        ::operator delete(data_, std::align_val_t{1024});
#endif
    }
    device_memory(const device_memory&) = delete;
    device_memory& operator=(const device_memory&) = delete;

    T* data() { return data_; }
    // From element `first`.
    void put(size_t first, const std::vector<T>& values) {
#if defined(TK_ARCH_SM90)
        require_cuda(cudaMemcpy(data_ + first, values.data(), values.size() * sizeof(T),
                                cudaMemcpyHostToDevice));
#else
        std::copy(values.begin(), values.end(), data_ + first);
#endif
    }
    std::vector<T> get(size_t first, size_t count) {
        std::vector<T> result(count);
#if defined(TK_ARCH_SM90)
        require_cuda(
            cudaMemcpy(result.data(), data_ + first, count * sizeof(T), cudaMemcpyDeviceToHost));
#else
        std::copy(data_ + first, data_ + first + count, result.begin());
#endif
        return result;
    }

  private:
    T* data_ = nullptr;
};

// Until the kernels launched so far have ended; raises their error.
inline void finish_kernels() {
#if defined(TK_ARCH_SM90)
    require_cuda(cudaDeviceSynchronize());
#endif
}

inline void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
}

}  // namespace checks
