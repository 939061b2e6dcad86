// The rotation's part of the binding.
#pragma once
#include <pybind11/pybind11.h>

namespace tk::binding {

/// Adds RotaryCall, and Library.rotary_instances; comes after bind_library.
void bind_rotary(pybind11::module_& module);

}  // namespace tk::binding
