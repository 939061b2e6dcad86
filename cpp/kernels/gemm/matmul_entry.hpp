// What the dispatcher knows of an instance of the matrix product.
#pragma once
#include "kernels/gemm/matmul_api.h"
#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

struct matmul_entry {
    tk_matmul_instance info;  // filled from the kernel's own types: shared memory is counted once
    void (*run)(const tk_matmul_problem&, const tk_matmul_pointers&);
};

// The name of the function that returns an instance's entry, from its line in the table.
#define TK_MATMUL_ENTRY(dtype, a, b, loader, tile_m, tile_n, tile_k, consumers) \
    matmul_entry_##dtype##_##a##b##_##loader##_##tile_m##x##tile_n##x##tile_k##_##consumers

TK_NAMESPACE_END
