// One instance of attention behind a plain function: what a generated translation unit expands a
// line of the instance table into.
#pragma once
#include "kernels/attention/attention.hpp"
#include "kernels/attention/attention_entry.hpp"

TK_NAMESPACE_BEGIN

template <class K, class T, class Scores>
struct attention_runner {
    using globals = typename K::globals;
    using template_type = lcf<K>;

    static int limit(int64_t distance) {
        return int(distance < 0 || distance > key_band::no_limit ? key_band::no_limit : distance);
    }

    static Scores scores(const tk_attention_problem& p, const tk_attention_pointers& at) {
        constexpr float log2_e = 1.4426950408889634f;
        Scores result;
        result.left = limit(p.window_left), result.right = limit(p.window_right);
        if (p.causal) result.right = 0;  // a wider window does not undo it
        if constexpr (std::is_same_v<Scores, plain_scores>) {
            result.factor = p.scale * log2_e;
        } else {
            result.scale = p.scale, result.softcap = p.softcap;
            result.slopes = at.alibi_slopes;
            std::copy(p.alibi_strides, p.alibi_strides + 2, result.slope_strides);
            if (p.bias_dtype == TK_FP32) {
                result.wide_bias = static_cast<const float*>(at.bias);
            } else {
                result.bias = static_cast<const T*>(at.bias);
            }
            std::copy(p.bias_strides, p.bias_strides + 4, result.bias_strides);
        }
        return result;
    }

    static attention_tasks tasks(const tk_attention_problem& p, const tk_attention_pointers& at) {
        const int sharers = int(p.heads / p.kv_heads), pack = p.pack_heads ? sharers : 1;
        attention_tasks result;
        result.heads = fast_divider(uint32_t(p.heads / pack));
        result.pack = fast_divider(uint32_t(pack)),
        result.sharers = fast_divider(uint32_t(sharers));
        result.splits = fast_divider(uint32_t(p.splits));
        const auto [rows, columns] = attention_grid(p, K::tile_q);
        result.order = {p.order_kind, p.order_param, int(rows), int(columns), at.order_table};
        result.sequences = int(p.batch);
        result.longest_first = p.longest_first != 0;
        result.lengths = {int(p.queries), int(p.keys)};
        result.first_queries = at.cu_seqlens_q, result.first_keys = at.cu_seqlens_k;
        return result;
    }

    static void run(const tk_attention_problem& p, const tk_attention_pointers& at) {
        const device_scope scope(p.device);
        globals g{};
        const bool packed_rows = p.packed != 0;
        const int64_t batch = packed_rows ? 1 : p.batch;
        const auto make = [&](auto& tensor, const void* data, int64_t heads, int64_t rows,
                              int64_t dim, const int64_t* strides) {
            tensor = make_gl<std::remove_cvref_t<decltype(tensor)>>(
                static_cast<T*>(const_cast<void*>(data)), gl_shape(batch, heads, rows, dim),
                gl_strides(strides[2], strides[1], strides[0]));
        };
        const int64_t queries = packed_rows ? p.total_queries : p.queries;
        const int64_t keys = packed_rows ? p.total_keys : p.keys;
        make(g.k, at.k, p.kv_heads, keys, p.head_dim, p.k_strides);
        make(g.v, at.v, p.kv_heads, keys, p.value_dim, p.v_strides);
        if (p.pack_heads) {
            g.packed_q = static_cast<const T*>(at.q);
            std::copy(p.q_strides, p.q_strides + 3, g.q_strides);
        } else {
            make(g.q, at.q, p.heads, queries, p.head_dim, p.q_strides);
        }
        g.head_dim = int(p.head_dim);
        g.scores = scores(p, at);
        g.tasks = tasks(p, at);
        g.turns = p.turns != 0;
        auto& e = g.epilogue;
        e.out = static_cast<T*>(at.out), e.lse = at.lse;
        std::copy(p.out_strides, p.out_strides + 3, e.out_strides);
        std::copy(p.lse_strides, p.lse_strides + 3, e.lse_strides);
        e.value_dim = int(p.value_dim);
        e.workspace = at.workspace;
        if (p.splits > 1) e.counters = at.counters + (p.dynamic ? 1 : 0);
        g.config = {p.num_stages, g.tasks.count(), {}, p.dynamic ? at.counters : nullptr};
        launch_tasks<template_type>(g, p.grid, p.device, at.stream);
    }

    static attention_entry entry(const char* name) {
        attention_entry result{};
        auto& info = result.info;
        for (int i = 0; name[i] != '\0' && i < 63; ++i) info.name[i] = name[i];
        info.dtype = int(tag_of<T>);
        info.head_dim = K::head_dim, info.value_dim = K::value_dim;
        info.scores = std::is_same_v<Scores, plain_scores> ? TK_SCORES_PLAIN : TK_SCORES_GENERAL;
        info.tile_q = K::tile_q, info.tile_k = K::tile_k;
        info.consumer_warpgroups = K::num_consumer_warpgroups;
        info.bytes_per_stage = template_type::bytes_per_stage;
        info.fixed_bytes = template_type::fixed_bytes;
        info.min_stages = 1, info.max_stages = K::max_stages;
        result.floats_per_part = attention_epilogue<T>::floats_per_part(K::value_dim);
        result.run = &run;
        return result;
    }
};

// The words of the instance table.
namespace attention_words {
using fp16 = half;
using tk::bf16;
template <class T>
using plain = plain_scores;
template <class T>
using general = general_scores<T>;
}  // namespace attention_words

TK_NAMESPACE_END

#define TK_DEFINE_ATTENTION_INSTANCE(dtype, head_dim, value_dim, scores, tile_k, consumers)       \
    TK_NAMESPACE_BEGIN                                                                            \
    attention_entry TK_ATTENTION_ENTRY(dtype, head_dim, value_dim, scores, tile_k, consumers)() { \
        using T = attention_words::dtype;                                                         \
        using rule = attention_words::scores<T>;                                                  \
        return attention_runner<attention<T, head_dim, value_dim, tile_k, consumers, rule>, T,    \
                                rule>::entry(#dtype "_" #head_dim "_" #value_dim "_" #scores      \
                                                    "_" #tile_k "_" #consumers);                  \
    }                                                                                             \
    TK_NAMESPACE_END
