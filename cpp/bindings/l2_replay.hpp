// The replay of a grid through an L2 cache, for tk.schedulers.l2.
#pragma once
#include <pybind11/pybind11.h>

namespace tk::binding {

/// Adds replay_l2.
void bind_l2_replay(pybind11::module_& module);

}  // namespace tk::binding
