// Attention's part of the binding.
#pragma once
#include <pybind11/pybind11.h>

namespace tk::binding {

/// Adds AttentionCall, and Library.attention_instances; comes after bind_library.
void bind_attention(pybind11::module_& module);

}  // namespace tk::binding
