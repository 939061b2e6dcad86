// The C interface of the matrix product: the same symbols in the CUDA and in the host library.
//
// out = activation(alpha * a @ b + bias + beta * c), a (batch, m, k), b (batch, k, n),
// c and out (batch, m, n), bias (n). All strides are in elements; everything is checked by the
// caller but for what only the device knows. Nothing here knows of Python or torch.
#pragma once
#include "kernels/library_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tk_activation { TK_NONE = 0, TK_RELU = 1, TK_GELU = 2, TK_GELU_TANH = 3, TK_SILU = 4 };
enum tk_loader { TK_LOADER_TMA = 0, TK_LOADER_GATHER = 1 };

typedef struct tk_matmul_instance {
    char name[64];
    int dtype;    // of a and b
    int a_major;  // 0: K is contiguous, 1: M is
    int b_major;  // 0: K is contiguous, 1: N is
    int loader;
    int tile_m, tile_n, tile_k;
    int consumer_warpgroups;
    int64_t bytes_per_stage;  // shared memory of one stage of the input ring
    int64_t fixed_bytes;      // shared memory of everything else
    int max_stages;           // the barriers of the ring are an array of this length
    // Shared memory for each of the other splits of a tile, if those are the blocks of a cluster;
    // 0: they cannot be.
    int64_t bytes_per_part;
} tk_matmul_instance;

typedef struct tk_matmul_problem {
    int64_t m, n, k, batch;
    int64_t a_strides[3];    // m, k, batch
    int64_t b_strides[3];    // k, n, batch
    int64_t c_strides[3];    // m, n, batch
    int64_t out_strides[3];  // m, n, batch
    int64_t bias_stride;
    int c_dtype, bias_dtype, out_dtype, activation;
    float alpha, beta;
    // the plan
    int instance, num_stages, cluster_m, cluster_n, order_kind, order_param, splits, grid, device;
    // 1: the kernel computes out^T = b^T a^T, so that a small m meets the narrow side of the tile.
    // The instance's majors, the cluster and the order are then those of the exchanged problem.
    int swapped;
    // 1: a block takes the next task when it is free, not every grid-th. Clusters of one block.
    int dynamic;
    // 1: the splits of a tile are the blocks of a cluster, 2 to 8, and their sum is formed in its
    // shared memory. cluster_m and cluster_n are 1, and every tile has a cluster of its own: grid
    // is tiles * splits.
    int splits_in_cluster;
} tk_matmul_problem;

typedef struct tk_matmul_pointers {
    const void *a, *b, *c, *bias;  // c and bias may be null
    void* out;
    const int32_t* order_table;  // order_kind 5: one entry a cluster tile, row << 16 | column
    float* workspace;            // tk_matmul_workspace_bytes
    int32_t* counters;           // tk_matmul_num_counters; 0 before the first call, 0 after each
    void* stream;
} tk_matmul_pointers;

int tk_num_matmul_instances(void);
int tk_get_matmul_instance(int index, tk_matmul_instance* out);
// 0 without splits or with splits_in_cluster, but for the one counter of a dynamic plan. -1 (see
// tk_last_error) for a plan with either that is illegal; tk_matmul checks every plan.
int64_t tk_matmul_workspace_bytes(const tk_matmul_problem*);
int64_t tk_matmul_num_counters(const tk_matmul_problem*);
int tk_matmul(const tk_matmul_problem*, const tk_matmul_pointers*);
int tk_order_tile(int kind, int param, int rows, int cols, const int32_t* table, int64_t index,
                  int32_t* row, int32_t* col);

#ifdef __cplusplus
}
#endif
