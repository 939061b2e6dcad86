// tk._binding: the Python module. Thin, one file a family; raw addresses, sizes, strides and a
// stream go in, nothing of torch. The kernel libraries are opened at run time, never linked.
#include <pybind11/pybind11.h>

#include "attention.hpp"
#include "l2_replay.hpp"
#include "library.hpp"
#include "matmul.hpp"
#include "rotary.hpp"

PYBIND11_MODULE(_binding, module) {
    module.doc() = "Opens the kernel libraries of tk and calls them; replays an L2 cache.";
    tk::binding::bind_library(module);
    tk::binding::bind_matmul(module);
    tk::binding::bind_attention(module);
    tk::binding::bind_rotary(module);
    tk::binding::bind_l2_replay(module);
}
