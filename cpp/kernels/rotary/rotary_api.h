// The C interface of the rotation: the same symbols in the CUDA and in the host library.
//
// q (batch, heads, rows, head_dim) and k, of heads of its own; cos and sin (table_rows,
// rotary_dim / 2). Packed sequences are one batch. All strides are in elements; everything is
// checked by the caller but for what only the device knows.
#pragma once
#include "kernels/library_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tk_rotary_instance {
    char name[64];
    int dtype;  // of q and k
    // Elements that a lane moves at once, aligned to their size: they divide head_dim, and twice
    // them (once, if it is 1) divides rotary_dim. Of more than 1 all columns are contiguous, and
    // the tables' are aligned to half of them.
    int width;
    int heads_at_once;  // heads_per_task is a multiple
} tk_rotary_instance;

typedef struct tk_rotary_tensor {
    int64_t heads;           // 0: no such tensor
    int64_t in_strides[4];   // batch, head, row, column
    int64_t out_strides[4];  // the same
} tk_rotary_tensor;

typedef struct tk_rotary_problem {
    int64_t batch, rows, head_dim, rotary_dim, table_rows;
    tk_rotary_tensor q, k;
    int64_t cos_strides[2];  // row, column
    int64_t sin_strides[2];
    int table_dtype;              // that of q, or TK_FP32
    int position_bytes;           // of an element of positions, 4 or 8; 0: they are counted
    int64_t position_strides[2];  // batch, row
    int64_t offset;               // the position of a sequence's first row, if they are counted
    int sequences;                // of cu_seqlens; 0: not packed
    int interleaved, inverse;
    int in_place;  // 1: columns from rotary_dim on are left alone, not copied
    // the plan
    int instance, heads_per_task, groups_first, grid, device;
} tk_rotary_problem;

typedef struct tk_rotary_pointers {
    const void *q, *k, *cos, *sin;
    const void* positions;      // null if they are counted
    const int32_t* cu_seqlens;  // (sequences + 1), null if not packed
    void *q_out, *k_out;
    void* stream;
} tk_rotary_pointers;

int tk_num_rotary_instances(void);
int tk_get_rotary_instance(int index, tk_rotary_instance* out);
// The tasks of a problem, -1 (see tk_last_error) if it is illegal. A block has four at a time.
int64_t tk_rotary_num_tasks(const tk_rotary_problem*);
int tk_rotary(const tk_rotary_problem*, const tk_rotary_pointers*);

#ifdef __cplusplus
}
#endif
