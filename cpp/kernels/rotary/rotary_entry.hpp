// What the dispatcher knows of an instance of the rotation.
#pragma once
#include "kernels/rotary/rotary_api.h"
#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

struct rotary_entry {
    tk_rotary_instance info;
    int64_t (*num_tasks)(const tk_rotary_problem&);
    void (*run)(const tk_rotary_problem&, const tk_rotary_pointers&);
};

// The name of the function that returns an instance's entry, from its line in the table.
#define TK_ROTARY_ENTRY(dtype, width) rotary_entry_##dtype##_##width

TK_NAMESPACE_END
