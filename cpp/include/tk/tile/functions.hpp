// Scalar functions that tile operations map over a tile; the same formulas on both architectures.
#pragma once
#include <cmath>

#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

namespace functions {

TK_HOST_DEVICE float sigmoid(float x) {
#if defined(__CUDA_ARCH__)
    return __fdividef(1.0f, 1.0f + __expf(-x));
#else
    return 1.0f / (1.0f + std::exp(-x));
#endif
}

struct relu {
    // NaN propagates, as in PyTorch: a comparison with NaN is false.
    TK_HOST_DEVICE float operator()(float x) const { return x < 0.0f ? 0.0f : x; }
};

// x * Phi(x), Phi the normal distribution function (Hendrycks & Gimpel, arXiv 1606.08415, eq. 1).
struct gelu {
    TK_HOST_DEVICE float operator()(float x) const {
        return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    }
};

// The tanh form of the same paper, by 0.5 * (1 + tanh(u)) = sigmoid(2 u).
struct gelu_tanh {
    TK_HOST_DEVICE float operator()(float x) const {
        const float u = x * (1.5957691216057308f + 0.07135481282636165f * x * x);
        return x * sigmoid(u);
    }
};

// x * sigmoid(x) (same paper, section 3). NaN at -infinity, as PyTorch's.
struct silu {
    TK_HOST_DEVICE float operator()(float x) const { return x * sigmoid(x); }
};

}  // namespace functions

TK_NAMESPACE_END
