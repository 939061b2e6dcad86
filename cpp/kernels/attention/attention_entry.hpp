// What the dispatcher knows of an instance of attention.
#pragma once
#include "kernels/attention/attention_api.h"
#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

struct attention_entry {
    tk_attention_instance info;  // filled from the kernel's own types
    int64_t floats_per_part;     // of the workspace, a split of a consumer's 64 rows
    void (*run)(const tk_attention_problem&, const tk_attention_pointers&);
};

// The grid of tasks: rows, of heads, and columns, of query tiles. Of packed sequences only the
// total is known: all but one of the tiles of each, at most, are whole.
struct attention_grid_shape {
    int64_t rows, columns;
};
inline attention_grid_shape attention_grid(const tk_attention_problem& p, int tile_q) {
    const int64_t pack = p.pack_heads ? p.heads / p.kv_heads : 1, heads = p.heads / pack;
    if (p.packed) return {heads, p.total_queries * pack / tile_q + p.batch};
    return {p.batch * heads, (p.queries * pack + tile_q - 1) / tile_q};
}

// The name of the function that returns an instance's entry, from its line in the table.
#define TK_ATTENTION_ENTRY(dtype, head_dim, value_dim, scores, tile_k, consumers) \
    attention_entry_##dtype##_##head_dim##_##value_dim##_##scores##_##tile_k##_##consumers

TK_NAMESPACE_END
