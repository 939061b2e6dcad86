// Memory that kernels can reach, and a stopwatch: CUDA's on the GPU, the process's own on the host.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "tk/tk.hpp"

#if defined(TK_ARCH_SM90)
#include <cuda_runtime.h>
constexpr bool has_gpu = true;
#else
constexpr bool has_gpu = false;
#endif

inline void require(bool done, const char* what) {
    if (!done) throw std::runtime_error(what);
}

template <class T>
class device_array {
  public:
    explicit device_array(size_t size) : size_(size) {
#if defined(TK_ARCH_SM90)
        require(cudaMalloc(&data_, size * sizeof(T)) == cudaSuccess, "cudaMalloc failed");
#else
        data_ = static_cast<T*>(std::aligned_alloc(256, (size * sizeof(T) + 255) / 256 * 256));
        require(data_ != nullptr, "there is no memory");
#endif
    }
    ~device_array() {
#if defined(TK_ARCH_SM90)
        cudaFree(data_);
#else
        std::free(data_);
#endif
    }
    device_array(const device_array&) = delete;
    device_array& operator=(const device_array&) = delete;

    T* data() const { return data_; }
    void write(const std::vector<T>& from) { copy(data_, from.data()); }
    void read(std::vector<T>& to) const { copy(to.data(), data_); }
    void fill_with_nan() {
        std::vector<T> values(size_);
        std::memset(static_cast<void*>(values.data()), 0xff, size_ * sizeof(T));
        write(values);
    }
    void fill_with_noise(unsigned seed) {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        std::vector<T> values(size_), some(4099);
        for (T& value : some) value = T(normal(random));
        for (size_t i = 0; i < size_; ++i) values[i] = some[i * 31 % some.size()];
        write(values);
    }

  private:
    void copy(T* to, const T* from) const {
#if defined(TK_ARCH_SM90)
        require(cudaMemcpy(to, from, size_ * sizeof(T), cudaMemcpyDefault) == cudaSuccess,
                "cudaMemcpy failed: a kernel before it may have");
#else
        std::memcpy(static_cast<void*>(to), from, size_ * sizeof(T));
#endif
    }

    size_t size_;
    T* data_ = nullptr;
};

// The GPU's multiprocessors; on the host as few as keep the walk over tasks in play.
inline int num_processors() {
#if defined(TK_ARCH_SM90)
    int count = 0;
    require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess,
            "there is no GPU");
    return count;
#else
    return 3;
#endif
}

// Seconds of a call: the median of 20, each with a cold second-level cache.
template <class F>
double measure(F&& call) {
#if defined(TK_ARCH_SM90)
    device_array<char> flush(size_t(1) << 28);
    cudaEvent_t begin, end;
    cudaEventCreate(&begin), cudaEventCreate(&end);
    std::vector<float> times;
    for (int i = 0; i < 23; ++i) {
        cudaMemsetAsync(flush.data(), 0, size_t(1) << 28);
        cudaEventRecord(begin);
        call();
        cudaEventRecord(end);
        require(cudaEventSynchronize(end) == cudaSuccess, "the kernel failed");
        float milliseconds = 0;
        cudaEventElapsedTime(&milliseconds, begin, end);
        if (i >= 3) times.push_back(milliseconds);
    }
    std::nth_element(times.begin(), times.begin() + 10, times.end());
    return times[10] * 1e-3;
#else
    (void)call;
    return 0;
#endif
}
