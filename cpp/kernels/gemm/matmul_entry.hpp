// What the dispatcher knows of an instance of the matrix product.
#pragma once
#include "kernels/gemm/matmul_api.h"
#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

struct matmul_entry {
    tk_matmul_instance info;  // filled from the kernel's own types: shared memory is counted once
    void (*run)(const tk_matmul_problem&, const tk_matmul_pointers&);
};

TK_NAMESPACE_END
