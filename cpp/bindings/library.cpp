// Opening a kernel library, and what it says of itself.
#include "library.hpp"

#include <dlfcn.h>

#include <tuple>

namespace py = pybind11;

namespace tk::binding {
namespace {

[[noreturn]] void raise_os_error(const std::string& path, const std::string& reason) {
    PyErr_SetString(PyExc_OSError, (path + ": " + reason).c_str());
    throw py::error_already_set();
}

std::tuple<int, int> order_tile(const Library& library, int kind, int param, int rows, int cols,
                                int64_t index, std::uintptr_t table) {
    int32_t row = 0, column = 0;
    if (library.order_tile(kind, param, rows, cols, reinterpret_cast<const int32_t*>(table), index,
                           &row, &column) != 0) {
        throw py::value_error(library.last_error());
    }
    return {row, column};
}

}  // namespace

template <class Function>
void Library::find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr) raise_os_error(path_, std::string("has no function ") + name);
}

Library::Library(const std::string& path) : path_(path) {
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
        const std::string reason = dlerror();  // most often begins with the path itself
        const bool names_path = reason.rfind(path + ": ", 0) == 0;
        raise_os_error(path, names_path ? reason.substr(path.size() + 2) : reason);
    }
    decltype(&tk_abi_version) abi_version;
    find(abi_version, "tk_abi_version");
    if (abi_version() != TK_ABI_VERSION) {
        raise_os_error(path, "has interface version " + std::to_string(abi_version()) +
                                 ", this binding needs " + std::to_string(TK_ABI_VERSION) +
                                 ": build both from the same source");
    }
    const char* (*architecture)();
    find(architecture, "tk_architecture");
    architecture_ = architecture();
    find(num_matmul_instances, "tk_num_matmul_instances");
    find(get_matmul_instance, "tk_get_matmul_instance");
    find(matmul_workspace_bytes, "tk_matmul_workspace_bytes");
    find(matmul_num_counters, "tk_matmul_num_counters");
    find(matmul, "tk_matmul");
    find(num_attention_instances, "tk_num_attention_instances");
    find(get_attention_instance, "tk_get_attention_instance");
    find(attention_workspace_bytes, "tk_attention_workspace_bytes");
    find(attention_num_counters, "tk_attention_num_counters");
    find(attention, "tk_attention");
    find(num_rotary_instances, "tk_num_rotary_instances");
    find(get_rotary_instance, "tk_get_rotary_instance");
    find(rotary_num_tasks, "tk_rotary_num_tasks");
    find(rotary, "tk_rotary");
    find(last_error, "tk_last_error");
    find(order_tile, "tk_order_tile");
}

void bind_library(py::module_& module) {
    py::class_<Library>(module, "Library",
                        "A kernel library opened by its path. Raises OSError, naming the path, "
                        "when it cannot be loaded or belongs to another version.")
        .def(py::init<const std::string&>(), py::arg("path"))
        .def_property_readonly("path", &Library::path)
        .def_property_readonly("architecture", &Library::architecture,
                               "\"host\" or \"sm90\": what the library was built for.")
        .def("order_tile", &order_tile, py::arg("kind"), py::arg("param"), py::arg("rows"),
             py::arg("cols"), py::arg("index"), py::arg("table") = 0,
             "(row, column) of the tile that an order visits at `index`, as the kernels walk a "
             "grid of rows x cols tiles; `table` is the address of an int32 table (kind 5).")
        .def("__repr__", [](const Library& library) {
            return "Library('" + library.path() + "', architecture='" + library.architecture() +
                   "')";
        });
}

}  // namespace tk::binding
