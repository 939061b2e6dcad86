// Memory that kernels of either architecture and the caller reach: the host's own on the host,
// managed memory on a GPU.
#pragma once
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "tk/tk.hpp"

namespace checks {

template <class T>
class device_memory {
  public:
    // Not written: only the pages that are touched cost memory.
    explicit device_memory(size_t count) : size_(count) {
        const size_t bytes = std::max(size_t(1), count * sizeof(T));  // none has an address too
#if defined(TK_ARCH_SM90)
        tk::detail::check(cudaMallocManaged(&data_, bytes), "the check's memory");
#else
        data_ = static_cast<T*>(::operator new(bytes, alignment));
#endif
    }
    device_memory(size_t count, T value) : device_memory(count) {
        std::fill(data_, data_ + count, value);
    }
    explicit device_memory(const std::vector<T>& values) : device_memory(values.size()) {
        put(0, values);
    }
    ~device_memory() {
#if defined(TK_ARCH_SM90)
        cudaFree(data_);
#else
        ::operator delete(data_, alignment);
#endif
    }
    device_memory(const device_memory&) = delete;
    device_memory& operator=(const device_memory&) = delete;

    // The caller's access needs `finish_kernels` before it.
    T* data() { return data_; }
    T& operator[](size_t i) { return data_[i]; }
    size_t size() const { return size_; }
    // From element `first`.
    void put(size_t first, const std::vector<T>& values) {
        std::copy(values.begin(), values.end(), data_ + first);
    }
    std::vector<T> get(size_t first, size_t count) {
        return {data_ + first, data_ + first + count};
    }
    std::vector<T> get() { return get(0, size_); }

  private:
    static constexpr std::align_val_t alignment{1024};
    size_t size_;
    T* data_ = nullptr;
};

// Until the kernels launched so far have ended; raises their error.
inline void finish_kernels() {
#if defined(TK_ARCH_SM90)
    tk::detail::check(cudaDeviceSynchronize(), "the kernel");
#endif
}

inline void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
}

}  // namespace checks
