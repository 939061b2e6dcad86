// Chooses the architecture of a translation unit, once, before anything else of the library.
//
// TK_ARCH_SM90 (nvcc) and TK_ARCH_HOST (any C++20 compiler) select the inline namespace `tk::sm90`
// or `tk::host`, so that both can be linked into one program. Without either macro, nvcc takes
// sm90 and every other compiler takes the host. Another architecture is a third branch here and a
// third folder beside arch/sm90.
#pragma once

#if !defined(TK_ARCH_SM90) && !defined(TK_ARCH_HOST)
#if defined(__CUDACC__)
#define TK_ARCH_SM90 1
#else
#define TK_ARCH_HOST 1
#endif
#endif

#if defined(TK_ARCH_SM90) && defined(TK_ARCH_HOST)
#error "TK_ARCH_SM90 and TK_ARCH_HOST exclude each other in one translation unit"
#endif

#if defined(TK_ARCH_SM90)
#if !defined(__CUDACC__)
#error "TK_ARCH_SM90 needs nvcc; compile with TK_ARCH_HOST instead"
#endif
#define TK_NAMESPACE_BEGIN \
    namespace tk {         \
    inline namespace sm90 {
#define TK_DEVICE __device__ __forceinline__
#define TK_HOST_DEVICE __host__ __device__ __forceinline__
#define TK_UNROLL _Pragma("unroll")
#define TK_NO_UNROLL _Pragma("unroll 1")
#else
#define TK_NAMESPACE_BEGIN \
    namespace tk {         \
    inline namespace host {
#define TK_DEVICE inline
#define TK_HOST_DEVICE inline
#define TK_UNROLL
#define TK_NO_UNROLL
#endif

#define TK_NAMESPACE_END \
    }                    \
    }
