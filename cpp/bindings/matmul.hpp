// The matrix product's part of the binding.
#pragma once
#include <pybind11/pybind11.h>

namespace tk::binding {

/// Adds MatmulCall, and Library.matmul_instances; comes after bind_library.
void bind_matmul(pybind11::module_& module);

}  // namespace tk::binding
