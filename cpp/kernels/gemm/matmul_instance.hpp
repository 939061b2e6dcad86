// One instance of the matrix product behind a plain function: what a generated translation unit
// expands a line of the instance table into.
#pragma once
#include "kernels/gemm/matmul.hpp"
#include "kernels/gemm/matmul_entry.hpp"

TK_NAMESPACE_BEGIN

template <element T>
constexpr int dtype_code = int(tag_of<T>);

// Strides of rows, columns and batch, in elements.
inline any_gl make_any(const void* data, int dtype, const int64_t* strides) {
    const bool by_vectors = reinterpret_cast<uintptr_t>(data) % 16 == 0 && strides[1] == 1 &&
                            strides[0] % 8 == 0 && strides[2] % 8 == 0;
    any_gl result;
    result.data = const_cast<void*>(data), result.tag = dtype_tag(dtype);
    result.depth_stride = strides[2];
    result.row_stride = strides[0], result.col_stride = strides[1];
    result.by_vectors = by_vectors;
    return result;
}

template <class K, class T>
struct matmul_runner {
    using globals = typename K::globals;
    using template_type = lcf<K>;

    // Of a matrix for each depth, from a problem's strides of rows, columns and batch; which of the
    // first two is the stride of the tensor's rows, and of its columns if they are not contiguous.
    static gl_strides strides(const int64_t* from, int row, int col = -1) {
        return {0, from[2], from[row], col < 0 ? 1 : from[col]};
    }

    static void run(const tk_matmul_problem& p, const tk_matmul_pointers& at) {
        const device_scope scope(p.device);
        globals g{};
        auto* a = static_cast<T*>(const_cast<void*>(at.a));
        auto* b = static_cast<T*>(const_cast<void*>(at.b));
        if constexpr (K::gathers) {
            g.a = {a, gl_shape(p.batch, p.m, p.k), strides(p.a_strides, 0, 1)};
            g.b = {b, gl_shape(p.batch, p.n, p.k), strides(p.b_strides, 1, 0)};
        } else {
            // Rows and columns of the operand as it lies in memory: columns are contiguous.
            constexpr int a_row = K::a_transposed ? 1 : 0, b_row = K::b_transposed ? 1 : 0;
            g.a = make_gl<typename K::a_source>(
                a, K::a_transposed ? gl_shape(p.batch, p.k, p.m) : gl_shape(p.batch, p.m, p.k),
                strides(p.a_strides, a_row), p.cluster_n);
            g.b = make_gl<typename K::b_source>(
                b, K::b_transposed ? gl_shape(p.batch, p.n, p.k) : gl_shape(p.batch, p.k, p.n),
                strides(p.b_strides, b_row), p.cluster_m);
        }
        auto& e = g.epilogue;
        e.alpha = p.alpha, e.beta = p.beta, e.activation = p.activation;
        // The bias lies along the columns of out, which are rows here if the product is exchanged.
        const int64_t bias_strides[3] = {p.swapped ? p.bias_stride : 0,
                                         p.swapped ? 0 : p.bias_stride, 0};
        if (at.bias != nullptr) e.bias = make_any(at.bias, p.bias_dtype, bias_strides);
        if (at.c != nullptr) e.c = make_any(at.c, p.c_dtype, p.c_strides);
        e.out_any = make_any(at.out, p.out_dtype, p.out_strides);
        e.rows = int(p.m), e.cols = int(p.n);
        // A column count of whole 16-byte units: what lies beside the output stays as it is.
        e.by_tma = at.c == nullptr && at.bias == nullptr && p.activation == TK_NONE &&
                   p.out_dtype == dtype_code<T> && e.out_any.by_vectors && p.n % 8 == 0 &&
                   p.out_strides[0] > 0 && p.out_strides[2] >= 0;
        if (e.by_tma) {
            e.out = make_gl<typename matmul_epilogue<T, K::tile_n>::output>(
                static_cast<T*>(at.out), gl_shape(p.batch, p.m, p.n), strides(p.out_strides, 0));
        }
        const int k_tiles = int((p.k + K::tile_k - 1) / K::tile_k);
        const cluster_shape cluster{p.cluster_m, p.cluster_n, p.splits_in_cluster ? p.splits : 1};
        g.tasks = {int(p.batch),
                   p.m,
                   p.n,
                   cluster,
                   p.order_kind,
                   p.order_param,
                   at.order_table,
                   split_k(p.splits, k_tiles, at.workspace, at.counters + (p.dynamic ? 1 : 0))};
        g.config = {p.num_stages, g.tasks.count(), cluster, p.dynamic ? at.counters : nullptr};
        g.config.tail_bytes = int((cluster.k - 1) * K::bytes_per_part);
        if constexpr (!K::gathers) {  // what no other cluster reads need not stay in the cache
            const auto once = [&](int64_t batch_stride) {
                return p.batch == 1 || batch_stride != 0;
            };
            if (g.tasks.order.cols == 1 && once(p.a_strides[2])) g.a.keep = eviction::first;
            if (g.tasks.order.rows == 1 && once(p.b_strides[2])) g.b.keep = eviction::first;
        }
        launch_tasks<template_type>(g, p.grid, p.device, at.stream);
    }

    static matmul_entry entry(const char* name, int a_major, int b_major, int consumers) {
        matmul_entry result{};
        for (int i = 0; name[i] != '\0' && i < 63; ++i) result.info.name[i] = name[i];
        result.info.dtype = dtype_code<T>;
        result.info.a_major = a_major, result.info.b_major = b_major;
        result.info.loader = K::gathers ? TK_LOADER_GATHER : TK_LOADER_TMA;
        result.info.tile_k = K::tile_k;
        result.info.tile_m = K::tile_m, result.info.tile_n = K::tile_n;
        result.info.consumer_warpgroups = consumers;
        result.info.bytes_per_stage = template_type::bytes_per_stage;
        result.info.fixed_bytes = template_type::fixed_bytes;
        result.info.max_stages = K::max_stages;
        result.info.bytes_per_part = K::bytes_per_part;
        result.run = &run;
        return result;
    }
};

// The words of the instance table.
namespace matmul_words {
using fp16 = half;
using tk::bf16;
constexpr bool a_k = false, a_m = true;  // is a transposed?
constexpr bool b_k = true, b_n = false;  // is b?
}  // namespace matmul_words

TK_NAMESPACE_END

#define TK_DEFINE_MATMUL_INSTANCE(dtype, a, b, loader, tile_m, tile_n, tile_k, consumers)       \
    TK_NAMESPACE_BEGIN                                                                          \
    matmul_entry TK_MATMUL_ENTRY(dtype, a, b, loader, tile_m, tile_n, tile_k, consumers)() {    \
        using T = matmul_words::dtype;                                                          \
        using kernel = matmul<T, matmul_words::a_##a, matmul_words::b_##b, loader_kind::loader, \
                              tile_m, tile_n, tile_k, consumers>;                               \
        return matmul_runner<kernel, T>::entry(                                                 \
            #dtype "_" #a #b "_" #loader "_" #tile_m "x" #tile_n "x" #tile_k,                   \
            matmul_words::a_##a ? 1 : 0, matmul_words::b_##b ? 0 : 1, consumers);               \
    }                                                                                           \
    TK_NAMESPACE_END
