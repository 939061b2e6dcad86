// Attention: its instances, and calls prepared once and made many times.
#include "attention.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>

#include "dtype_names.hpp"
#include "library.hpp"
#include "prepared_call.hpp"

namespace py = pybind11;

namespace tk::binding {
namespace {

py::dict instance_dict(const tk_attention_instance& instance, int index) {
    py::dict entry;
    entry["index"] = index;
    entry["name"] = instance.name;
    entry["dtype"] = dtype_name(instance.dtype);
    entry["head_dim"] = instance.head_dim;
    entry["value_dim"] = instance.value_dim;
    entry["scores"] = instance.scores == TK_SCORES_PLAIN ? "plain" : "general";
    entry["tile_q"] = instance.tile_q;
    entry["tile_k"] = instance.tile_k;
    entry["consumer_warpgroups"] = instance.consumer_warpgroups;
    entry["bytes_per_stage"] = instance.bytes_per_stage;
    entry["fixed_bytes"] = instance.fixed_bytes;
    entry["min_stages"] = instance.min_stages;
    entry["max_stages"] = instance.max_stages;
    return entry;
}

py::list attention_instances(const Library& library) {
    return instance_table(library, library.num_attention_instances, library.get_attention_instance,
                          instance_dict);
}

class AttentionCall : public PreparedCall<tk_attention_problem, tk_attention_pointers> {
  public:
    AttentionCall(const Library& library, const tk_attention_problem& problem)
        : PreparedCall(library, problem, library.attention_workspace_bytes,
                       library.attention_num_counters, library.attention) {}

    void operator()(std::uintptr_t q, std::uintptr_t k, std::uintptr_t v, std::uintptr_t out,
                    std::uintptr_t lse, std::uintptr_t cu_seqlens_q, std::uintptr_t cu_seqlens_k,
                    std::uintptr_t alibi_slopes, std::uintptr_t bias, std::uintptr_t workspace,
                    std::uintptr_t counters, std::uintptr_t stream) const {
        const tk_attention_pointers pointers{
            .q = reinterpret_cast<const void*>(q),
            .k = reinterpret_cast<const void*>(k),
            .v = reinterpret_cast<const void*>(v),
            .out = reinterpret_cast<void*>(out),
            .lse = reinterpret_cast<float*>(lse),
            .cu_seqlens_q = reinterpret_cast<const int32_t*>(cu_seqlens_q),
            .cu_seqlens_k = reinterpret_cast<const int32_t*>(cu_seqlens_k),
            .alibi_slopes = reinterpret_cast<const float*>(alibi_slopes),
            .bias = reinterpret_cast<const void*>(bias),
            .order_table = nullptr,
            .workspace = reinterpret_cast<float*>(workspace),
            .counters = reinterpret_cast<int32_t*>(counters),
            .stream = reinterpret_cast<void*>(stream)};
        run(pointers);
    }
};

template <std::size_t N>
void copy_strides(const std::array<int64_t, N>& from, int64_t (&to)[N]) {
    std::copy(from.begin(), from.end(), to);
}

using Strides = std::array<int64_t, 3>;

AttentionCall make_call(const Library& library, int64_t batch, int64_t heads, int64_t kv_heads,
                        int64_t queries, int64_t keys, int64_t head_dim, int64_t value_dim,
                        int64_t total_queries, int64_t total_keys, bool packed,
                        const Strides& q_strides, const Strides& k_strides,
                        const Strides& v_strides, const Strides& out_strides,
                        const Strides& lse_strides, const std::array<int64_t, 2>& alibi_strides,
                        const std::array<int64_t, 4>& bias_strides, int bias_dtype, bool causal,
                        int64_t window_left, int64_t window_right, float scale, float softcap,
                        int instance, int num_stages, int grid, int device, int order_kind,
                        int order_param, bool longest_first, bool dynamic, bool turns,
                        bool pack_heads, int splits) {
    tk_attention_problem problem{};
    problem.batch = batch;
    problem.heads = heads;
    problem.kv_heads = kv_heads;
    problem.queries = queries;
    problem.keys = keys;
    problem.head_dim = head_dim;
    problem.value_dim = value_dim;
    problem.total_queries = total_queries;
    problem.total_keys = total_keys;
    problem.packed = packed;
    copy_strides(q_strides, problem.q_strides);
    copy_strides(k_strides, problem.k_strides);
    copy_strides(v_strides, problem.v_strides);
    copy_strides(out_strides, problem.out_strides);
    copy_strides(lse_strides, problem.lse_strides);
    copy_strides(alibi_strides, problem.alibi_strides);
    copy_strides(bias_strides, problem.bias_strides);
    problem.bias_dtype = bias_dtype;
    problem.causal = causal;
    problem.window_left = window_left;
    problem.window_right = window_right;
    problem.scale = scale;
    problem.softcap = softcap;
    problem.instance = instance;
    problem.num_stages = num_stages;
    problem.grid = grid;
    problem.device = device;
    problem.order_kind = order_kind;
    problem.order_param = order_param;
    problem.longest_first = longest_first;
    problem.dynamic = dynamic;
    problem.turns = turns;
    problem.pack_heads = pack_heads;
    problem.splits = splits;
    return AttentionCall(library, problem);
}

}  // namespace

void bind_attention(py::module_& module) {
    py::object library = module.attr("Library");
    library.attr("attention_instances") = py::cpp_function(
        &attention_instances, py::name("attention_instances"), py::is_method(library),
        "The table of attention instances: a dict each, dtype and scores as words.");

    py::class_<AttentionCall>(module, "AttentionCall",
                              "Attention with sizes, strides (in elements) and plan fixed; fields "
                              "as in tk_attention_problem (cpp/kernels/attention/attention_api.h).")
        .def(py::init(&make_call), py::keep_alive<1, 2>(), py::arg("library"), py::kw_only(),
             py::arg("batch"), py::arg("heads"), py::arg("kv_heads"), py::arg("queries"),
             py::arg("keys"), py::arg("head_dim"), py::arg("value_dim"), py::arg("total_queries"),
             py::arg("total_keys"), py::arg("packed"), py::arg("q_strides"), py::arg("k_strides"),
             py::arg("v_strides"), py::arg("out_strides"), py::arg("lse_strides"),
             py::arg("alibi_strides"), py::arg("bias_strides"), py::arg("bias_dtype"),
             py::arg("causal"), py::arg("window_left"), py::arg("window_right"), py::arg("scale"),
             py::arg("softcap"), py::arg("instance"), py::arg("num_stages"), py::arg("grid"),
             py::arg("device"), py::arg("order_kind"), py::arg("order_param"),
             py::arg("longest_first"), py::arg("dynamic"), py::arg("turns"), py::arg("pack_heads"),
             py::arg("splits"))
        .def_property_readonly("workspace_bytes", &AttentionCall::workspace_bytes)
        .def_property_readonly("num_counters", &AttentionCall::num_counters)
        .def("__call__", &AttentionCall::operator(), py::arg("q"), py::arg("k"), py::arg("v"),
             py::arg("out"), py::arg("lse"), py::arg("cu_seqlens_q"), py::arg("cu_seqlens_k"),
             py::arg("alibi_slopes"), py::arg("bias"), py::arg("workspace"), py::arg("counters"),
             py::arg("stream"),
             "Runs attention on these addresses (0 for none) and this stream. Raises RuntimeError "
             "with the library's words. Others may have the GIL during a host call.");
}

}  // namespace tk::binding
