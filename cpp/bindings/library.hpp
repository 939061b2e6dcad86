// A kernel library (libtk_cuda.so or libtk_host.so), opened at run time by its path.
#pragma once
#include <pybind11/pybind11.h>

#include <string>

#include "kernels/attention/attention_api.h"
#include "kernels/gemm/matmul_api.h"
#include "kernels/rotary/rotary_api.h"

namespace tk::binding {

/// The C interface of one opened library. It stays open until the process ends: kernels may still
/// run when Python drops its last reference.
class Library {
  public:
    /// Throws OSError with the path and the loader's own words; also when a symbol is missing or
    /// the library was built for another version of this binding.
    explicit Library(const std::string& path);

    const std::string& path() const { return path_; }
    const std::string& architecture() const { return architecture_; }
    /// True where a call computes before it returns, so that others may have the GIL meanwhile.
    bool computes_in_call() const { return architecture_ == "host"; }

    decltype(&tk_num_matmul_instances) num_matmul_instances;
    decltype(&tk_get_matmul_instance) get_matmul_instance;
    decltype(&tk_matmul_workspace_bytes) matmul_workspace_bytes;
    decltype(&tk_matmul_num_counters) matmul_num_counters;
    decltype(&tk_matmul) matmul;
    decltype(&tk_num_attention_instances) num_attention_instances;
    decltype(&tk_get_attention_instance) get_attention_instance;
    decltype(&tk_attention_workspace_bytes) attention_workspace_bytes;
    decltype(&tk_attention_num_counters) attention_num_counters;
    decltype(&tk_attention) attention;
    decltype(&tk_num_rotary_instances) num_rotary_instances;
    decltype(&tk_get_rotary_instance) get_rotary_instance;
    decltype(&tk_rotary_num_tasks) rotary_num_tasks;
    decltype(&tk_rotary) rotary;
    decltype(&tk_last_error) last_error;
    decltype(&tk_order_tile) order_tile;

  private:
    template <class Function>
    void find(Function& function, const char* name);

    std::string path_;
    std::string architecture_;
    void* handle_ = nullptr;
};

void bind_library(pybind11::module_& module);

}  // namespace tk::binding
