// Scalar functions that tile operations map over a tile, in fp32; the same formulas on both
// architectures. Those of the special-function unit are good to 2 units in the last place (CUDA C++
// Programming Guide, "Intrinsic functions"), and what would be denormal is 0 there.
#pragma once
#include <cmath>
#include <limits>

#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

namespace functions {

// --- Of one value ---

struct exp2 {
    TK_HOST_DEVICE float operator()(float x) const {
#if defined(__CUDA_ARCH__)
        float result;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
        return result;
#else
        return std::exp2(x);
#endif
    }
};
// 2^(x log2 e): the error grows with |x|, to 1.2 |x| units in the last place.
struct exp {
    TK_HOST_DEVICE float operator()(float x) const { return exp2{}(x * 1.4426950408889634f); }
};
struct log {
    TK_HOST_DEVICE float operator()(float x) const { return logf(x); }
};
struct log2 {
    TK_HOST_DEVICE float operator()(float x) const { return log2f(x); }
};
struct abs {
    TK_HOST_DEVICE float operator()(float x) const { return fabsf(x); }
};
struct sqrt {
    TK_HOST_DEVICE float operator()(float x) const { return sqrtf(x); }
};
struct rsqrt {
    TK_HOST_DEVICE float operator()(float x) const {
#if defined(__CUDA_ARCH__)
        return rsqrtf(x);
#else
        return 1.0f / std::sqrt(x);
#endif
    }
};
struct sin {
    TK_HOST_DEVICE float operator()(float x) const { return sinf(x); }
};
struct cos {
    TK_HOST_DEVICE float operator()(float x) const { return cosf(x); }
};
struct tanh {
    TK_HOST_DEVICE float operator()(float x) const { return tanhf(x); }
};

TK_HOST_DEVICE float sigmoid(float x) {
#if defined(__CUDA_ARCH__)
    return __fdividef(1.0f, 1.0f + __expf(-x));
#else
    return 1.0f / (1.0f + std::exp(-x));
#endif
}
struct logistic {
    TK_HOST_DEVICE float operator()(float x) const { return sigmoid(x); }
};

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

// --- Of two values ---

struct add {
    TK_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct sub {
    TK_HOST_DEVICE float operator()(float a, float b) const { return a - b; }
};
struct mul {
    TK_HOST_DEVICE float operator()(float a, float b) const { return a * b; }
};
// A product that stays one: never the first half of a multiply-add, which would not round it.
struct rounded_mul {
    TK_HOST_DEVICE float operator()(float a, float b) const {
#if defined(__CUDA_ARCH__)
        return __fmul_rn(a, b);
#else
        const volatile float product = a * b;
        return product;
#endif
    }
};
struct div {
    TK_HOST_DEVICE float operator()(float a, float b) const { return a / b; }
};
// The larger and the smaller; NaN if either is NaN, as in PyTorch; -0 is below 0.
struct max {
    TK_HOST_DEVICE float operator()(float a, float b) const {
#if defined(__CUDA_ARCH__)
        float result;
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
        return result;
#else
        return std::isnan(a) || a > b || (a == b && !std::signbit(a)) ? a : b;
#endif
    }
};
struct min {
    TK_HOST_DEVICE float operator()(float a, float b) const {
#if defined(__CUDA_ARCH__)
        float result;
        asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
        return result;
#else
        return std::isnan(a) || a < b || (a == b && std::signbit(a)) ? a : b;
#endif
    }
};

// --- Of three values: a b + c, rounded once ---

struct fma {
    TK_HOST_DEVICE float operator()(float a, float b, float c) const { return fmaf(a, b, c); }
};

}  // namespace functions

TK_NAMESPACE_END
