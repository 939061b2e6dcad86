// The C interface of attention: the same symbols in the CUDA and in the host library.
//
//   out = softmax(score(scale * q k^T)) v,    lse = ln sum exp score(scale * q k^T)
//
// q (batch, heads, queries, head_dim), k (batch, kv_heads, keys, head_dim), v (batch, kv_heads,
// keys, value_dim), out (batch, heads, queries, value_dim), lse (batch, heads, queries) in fp32.
// Query head h reads key head h / (heads / kv_heads). All strides are in elements; the last
// dimensions of q, k, v and out are contiguous. Everything is checked by the caller but for what
// only the device knows. Nothing here knows of Python or torch.
//
// Query i and key j are aligned at the bottom right: with shift = keys - queries, key j is seen by
// query i if j <= i + shift (causal), and if i + shift - window_left <= j <= i + shift +
// window_right. A query that sees no key gives 0 and an lse of -infinity. A score is changed in
// this order:
//   s = scale * q_i k_j;   s = softcap * tanh(s / softcap);
//   s -= alibi_slope * |i + shift - j|;   s += bias[batch, head, i, j];   masks
//
// Packed sequences of different lengths: with cu_seqlens_q and cu_seqlens_k `batch` is the number
// of sequences, `queries` and `keys` are the longest lengths (or any larger number), and sequence b
// has the rows from cu_seqlens[b] to cu_seqlens[b + 1] - 1 of q, out and lse, and of k and v, whose
// batch strides are 0. i, j and shift are within a sequence.
#pragma once
#include "kernels/library_api.h"

#ifdef __cplusplus
extern "C" {
#endif

// Of an instance: plain has masks (causal, window, lengths) alone and needs 0 < scale < infinity;
// general takes all options and any finite scale.
enum tk_attention_scores { TK_SCORES_PLAIN = 0, TK_SCORES_GENERAL = 1 };

typedef struct tk_attention_instance {
    char name[64];
    int dtype;                // of q, k, v and out
    int head_dim, value_dim;  // the largest that it takes; smaller ones are a multiple of 8
    int scores;               // tk_attention_scores
    int tile_q;               // rows of a query tile: queries, or with pack_heads queries x heads
    int tile_k;               // keys of a key tile
    int consumer_warpgroups;
    int64_t bytes_per_stage;  // shared memory of a stage: a tile of keys and one of values
    int64_t fixed_bytes;      // shared memory of everything else
    int min_stages, max_stages;
} tk_attention_instance;

typedef struct tk_attention_problem {
    int64_t batch, heads, kv_heads, queries, keys, head_dim, value_dim;
    // Rows of q (of k), and of all sequences together with cu_seqlens; else queries and keys.
    int64_t total_queries, total_keys;
    int packed;  // 1: with cu_seqlens
    // row (query or key), head, batch. The strides of q, k and v are multiples of 8, but those of q
    // with pack_heads, which may be any.
    int64_t q_strides[3], k_strides[3], v_strides[3], out_strides[3];
    int64_t lse_strides[3];    // row, head, batch
    int64_t alibi_strides[2];  // batch, head
    int64_t bias_strides[4];   // batch, head, query, key; 0 broadcasts
    int bias_dtype;            // that of q, or TK_FP32
    int causal;
    int64_t window_left, window_right;  // -1: no limit
    float scale, softcap;               // softcap 0: none
    // the plan
    int instance, num_stages, grid, device;
    // The order of tasks over the grid of batch * heads (batch * kv_heads with pack_heads) rows x
    // query tiles columns: an order_kind of tk/grid/order.hpp. Kind 2 with order_param n is n heads
    // a group: the tiles of n heads, one head after the other, before the next n heads. With packed
    // the rows are those of one sequence, and the columns the query tiles of all sequences, one
    // sequence after the other: as many as there may be, total rows / tile_q + batch.
    int order_kind, order_param;
    int longest_first;  // 1: query tiles from the last to the first, as causal work is longest
                        // there
    int dynamic;        // 1: a block takes the next task when it is free, not every grid-th
    int turns;  // 1: consumers take turns, so that one's softmax runs under another's products
    // 1: the rows of a query tile are the queries of all heads that share a key head, for decoding.
    int pack_heads;
    // So many blocks share the keys of a query tile; their parts meet in the workspace, and are
    // summed in an order that does not depend on which is done last.
    int splits;
} tk_attention_problem;

typedef struct tk_attention_pointers {
    const void *q, *k, *v;
    void* out;
    float* lse;                                  // null: none
    const int32_t *cu_seqlens_q, *cu_seqlens_k;  // batch + 1 numbers each; null: equal lengths
    const float* alibi_slopes;                   // null: none
    const void* bias;                            // null: none
    const int32_t* order_table;  // order_kind 5: one entry a query tile, row << 16 | column
    float* workspace;            // tk_attention_workspace_bytes
    int32_t* counters;           // tk_attention_num_counters; 0 before the first call, 0 after each
    void* stream;
} tk_attention_pointers;

int tk_num_attention_instances(void);
int tk_get_attention_instance(int index, tk_attention_instance* out);
// 0 without splits, but for the one counter of a dynamic plan. -1 (see tk_last_error) for a plan
// with either that is illegal; tk_attention checks every plan.
int64_t tk_attention_workspace_bytes(const tk_attention_problem*);
int64_t tk_attention_num_counters(const tk_attention_problem*);
int tk_attention(const tk_attention_problem*, const tk_attention_pointers*);

#ifdef __cplusplus
}
#endif
