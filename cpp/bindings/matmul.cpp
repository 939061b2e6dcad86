// The matrix product: its instances, and calls prepared once and made many times.
#include "matmul.hpp"

#include <pybind11/stl.h>

#include <array>

#include "dtype_names.hpp"
#include "library.hpp"
#include "prepared_call.hpp"

namespace py = pybind11;

namespace tk::binding {
namespace {

using Strides = std::array<int64_t, 3>;

py::dict instance_dict(const tk_matmul_instance& instance, int index) {
    py::dict entry;
    entry["index"] = index;
    entry["name"] = instance.name;
    entry["dtype"] = dtype_name(instance.dtype);
    entry["a_major"] = instance.a_major == 0 ? "k" : "m";
    entry["b_major"] = instance.b_major == 0 ? "k" : "n";
    entry["loader"] = instance.loader == TK_LOADER_TMA ? "tma" : "gather";
    entry["tile_m"] = instance.tile_m;
    entry["tile_n"] = instance.tile_n;
    entry["tile_k"] = instance.tile_k;
    entry["consumer_warpgroups"] = instance.consumer_warpgroups;
    entry["bytes_per_stage"] = instance.bytes_per_stage;
    entry["fixed_bytes"] = instance.fixed_bytes;
    entry["max_stages"] = instance.max_stages;
    entry["bytes_per_part"] = instance.bytes_per_part;
    return entry;
}

py::list matmul_instances(const Library& library) {
    return instance_table(library, library.num_matmul_instances, library.get_matmul_instance,
                          instance_dict);
}

class MatmulCall : public PreparedCall<tk_matmul_problem, tk_matmul_pointers> {
  public:
    MatmulCall(const Library& library, const tk_matmul_problem& problem)
        : PreparedCall(library, problem, library.matmul_workspace_bytes,
                       library.matmul_num_counters, library.matmul) {}

    void operator()(std::uintptr_t a, std::uintptr_t b, std::uintptr_t c, std::uintptr_t bias,
                    std::uintptr_t out, std::uintptr_t order_table, std::uintptr_t workspace,
                    std::uintptr_t counters, std::uintptr_t stream) const {
        const tk_matmul_pointers pointers{
            reinterpret_cast<const void*>(a),    reinterpret_cast<const void*>(b),
            reinterpret_cast<const void*>(c),    reinterpret_cast<const void*>(bias),
            reinterpret_cast<void*>(out),        reinterpret_cast<const int32_t*>(order_table),
            reinterpret_cast<float*>(workspace), reinterpret_cast<int32_t*>(counters),
            reinterpret_cast<void*>(stream)};
        run(pointers);
    }
};

MatmulCall make_call(const Library& library, int64_t m, int64_t n, int64_t k, int64_t batch,
                     const Strides& a_strides, const Strides& b_strides, const Strides& c_strides,
                     const Strides& out_strides, int64_t bias_stride, int c_dtype, int bias_dtype,
                     int out_dtype, int activation, float alpha, float beta, int instance,
                     int num_stages, int cluster_m, int cluster_n, int order_kind, int order_param,
                     int splits, int grid, int device, int swapped, int dynamic,
                     int splits_in_cluster) {
    const auto& [am, ak, ab] = a_strides;
    const auto& [bk, bn, bb] = b_strides;
    const auto& [cm, cn, cb] = c_strides;
    const auto& [om, on, ob] = out_strides;
    return MatmulCall(library, tk_matmul_problem{.m = m,
                                                 .n = n,
                                                 .k = k,
                                                 .batch = batch,
                                                 .a_strides = {am, ak, ab},
                                                 .b_strides = {bk, bn, bb},
                                                 .c_strides = {cm, cn, cb},
                                                 .out_strides = {om, on, ob},
                                                 .bias_stride = bias_stride,
                                                 .c_dtype = c_dtype,
                                                 .bias_dtype = bias_dtype,
                                                 .out_dtype = out_dtype,
                                                 .activation = activation,
                                                 .alpha = alpha,
                                                 .beta = beta,
                                                 .instance = instance,
                                                 .num_stages = num_stages,
                                                 .cluster_m = cluster_m,
                                                 .cluster_n = cluster_n,
                                                 .order_kind = order_kind,
                                                 .order_param = order_param,
                                                 .splits = splits,
                                                 .grid = grid,
                                                 .device = device,
                                                 .swapped = swapped,
                                                 .dynamic = dynamic,
                                                 .splits_in_cluster = splits_in_cluster});
}

}  // namespace

void bind_matmul(py::module_& module) {
    py::object library = module.attr("Library");
    library.attr("matmul_instances") = py::cpp_function(
        &matmul_instances, py::name("matmul_instances"), py::is_method(library),
        "The table of matrix product instances: a dict each, dtype, majors and loader as words.");

    py::class_<MatmulCall>(module, "MatmulCall",
                           "A matrix product with sizes, strides (in elements) and plan fixed; "
                           "fields as in tk_matmul_problem (cpp/kernels/gemm/matmul_api.h).")
        .def(py::init(&make_call), py::keep_alive<1, 2>(), py::arg("library"), py::kw_only(),
             py::arg("m"), py::arg("n"), py::arg("k"), py::arg("batch"), py::arg("a_strides"),
             py::arg("b_strides"), py::arg("c_strides"), py::arg("out_strides"),
             py::arg("bias_stride"), py::arg("c_dtype"), py::arg("bias_dtype"),
             py::arg("out_dtype"), py::arg("activation"), py::arg("alpha"), py::arg("beta"),
             py::arg("instance"), py::arg("num_stages"), py::arg("cluster_m"), py::arg("cluster_n"),
             py::arg("order_kind"), py::arg("order_param"), py::arg("splits"), py::arg("grid"),
             py::arg("device"), py::arg("swapped") = 0, py::arg("dynamic") = 0,
             py::arg("splits_in_cluster") = 0)
        .def_property_readonly("workspace_bytes", &MatmulCall::workspace_bytes)
        .def_property_readonly("num_counters", &MatmulCall::num_counters)
        .def("__call__", &MatmulCall::operator(), py::arg("a"), py::arg("b"), py::arg("c"),
             py::arg("bias"), py::arg("out"), py::arg("order_table"), py::arg("workspace"),
             py::arg("counters"), py::arg("stream"),
             "Runs the product on these addresses (0 for none) and this stream. Raises "
             "RuntimeError with the library's words. Others may have the GIL during a host call.");
}

}  // namespace tk::binding
