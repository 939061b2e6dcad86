// The rotation: its instances, and calls prepared once and made many times.
#include "rotary.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>

#include "dtype_names.hpp"
#include "library.hpp"
#include "prepared_call.hpp"

namespace py = pybind11;

namespace tk::binding {
namespace {

py::dict instance_dict(const tk_rotary_instance& instance, int index) {
    py::dict entry;
    entry["index"] = index;
    entry["name"] = instance.name;
    entry["dtype"] = dtype_name(instance.dtype);
    entry["width"] = instance.width;
    entry["heads_at_once"] = instance.heads_at_once;
    return entry;
}

py::list rotary_instances(const Library& library) {
    return instance_table(library, library.num_rotary_instances, library.get_rotary_instance,
                          instance_dict);
}

// It needs no memory of its own.
int64_t no_memory(const tk_rotary_problem*) { return 0; }

class RotaryCall : public PreparedCall<tk_rotary_problem, tk_rotary_pointers> {
  public:
    RotaryCall(const Library& library, const tk_rotary_problem& problem)
        : PreparedCall(library, problem, no_memory, no_memory, library.rotary) {
        // Says what is wrong with the problem, if anything is.
        if (library.rotary_num_tasks(&problem) < 0) throw py::value_error(library.last_error());
    }

    void operator()(std::uintptr_t q, std::uintptr_t k, std::uintptr_t cos, std::uintptr_t sin,
                    std::uintptr_t positions, std::uintptr_t cu_seqlens, std::uintptr_t q_out,
                    std::uintptr_t k_out, std::uintptr_t stream) const {
        const tk_rotary_pointers pointers{
            .q = reinterpret_cast<const void*>(q),
            .k = reinterpret_cast<const void*>(k),
            .cos = reinterpret_cast<const void*>(cos),
            .sin = reinterpret_cast<const void*>(sin),
            .positions = reinterpret_cast<const void*>(positions),
            .cu_seqlens = reinterpret_cast<const int32_t*>(cu_seqlens),
            .q_out = reinterpret_cast<void*>(q_out),
            .k_out = reinterpret_cast<void*>(k_out),
            .stream = reinterpret_cast<void*>(stream)};
        run(pointers);
    }
};

template <std::size_t N>
void copy_strides(const std::array<int64_t, N>& from, int64_t (&to)[N]) {
    std::copy(from.begin(), from.end(), to);
}

using Strides = std::array<int64_t, 4>;
using Pair = std::array<int64_t, 2>;

RotaryCall make_call(const Library& library, int64_t batch, int64_t rows, int64_t head_dim,
                     int64_t rotary_dim, int64_t table_rows, int64_t q_heads, int64_t k_heads,
                     const Strides& q_strides, const Strides& q_out_strides,
                     const Strides& k_strides, const Strides& k_out_strides,
                     const Pair& cos_strides, const Pair& sin_strides, int table_dtype,
                     int position_bytes, const Pair& position_strides, int64_t offset,
                     int sequences, bool interleaved, bool inverse, bool in_place, int instance,
                     int heads_per_task, bool groups_first, int grid, int device) {
    tk_rotary_problem problem{};
    problem.batch = batch;
    problem.rows = rows;
    problem.head_dim = head_dim;
    problem.rotary_dim = rotary_dim;
    problem.table_rows = table_rows;
    problem.q.heads = q_heads;
    problem.k.heads = k_heads;
    copy_strides(q_strides, problem.q.in_strides);
    copy_strides(q_out_strides, problem.q.out_strides);
    copy_strides(k_strides, problem.k.in_strides);
    copy_strides(k_out_strides, problem.k.out_strides);
    copy_strides(cos_strides, problem.cos_strides);
    copy_strides(sin_strides, problem.sin_strides);
    problem.table_dtype = table_dtype;
    problem.position_bytes = position_bytes;
    copy_strides(position_strides, problem.position_strides);
    problem.offset = offset;
    problem.sequences = sequences;
    problem.interleaved = interleaved;
    problem.inverse = inverse;
    problem.in_place = in_place;
    problem.instance = instance;
    problem.heads_per_task = heads_per_task;
    problem.groups_first = groups_first;
    problem.grid = grid;
    problem.device = device;
    return RotaryCall(library, problem);
}

}  // namespace

void bind_rotary(py::module_& module) {
    py::object library = module.attr("Library");
    library.attr("rotary_instances") =
        py::cpp_function(&rotary_instances, py::name("rotary_instances"), py::is_method(library),
                         "The table of the rotation's instances: a dict each, dtype as a word.");

    py::class_<RotaryCall>(module, "RotaryCall",
                           "The rotation with sizes, strides (in elements) and plan fixed; fields "
                           "as in tk_rotary_problem (cpp/kernels/rotary/rotary_api.h).")
        .def(py::init(&make_call), py::keep_alive<1, 2>(), py::arg("library"), py::kw_only(),
             py::arg("batch"), py::arg("rows"), py::arg("head_dim"), py::arg("rotary_dim"),
             py::arg("table_rows"), py::arg("q_heads"), py::arg("k_heads"), py::arg("q_strides"),
             py::arg("q_out_strides"), py::arg("k_strides"), py::arg("k_out_strides"),
             py::arg("cos_strides"), py::arg("sin_strides"), py::arg("table_dtype"),
             py::arg("position_bytes"), py::arg("position_strides"), py::arg("offset"),
             py::arg("sequences"), py::arg("interleaved"), py::arg("inverse"), py::arg("in_place"),
             py::arg("instance"), py::arg("heads_per_task"), py::arg("groups_first"),
             py::arg("grid"), py::arg("device"))
        .def("__call__", &RotaryCall::operator(), py::arg("q"), py::arg("k"), py::arg("cos"),
             py::arg("sin"), py::arg("positions"), py::arg("cu_seqlens"), py::arg("q_out"),
             py::arg("k_out"), py::arg("stream"),
             "Runs the rotation on these addresses (0 for none) and this stream. Raises "
             "RuntimeError with the library's words. Others may have the GIL during a host call.");
}

}  // namespace tk::binding
