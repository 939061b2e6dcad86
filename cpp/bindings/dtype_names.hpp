// Data types of the C interface in the words of instance tables.
#pragma once
#include <pybind11/pybind11.h>

#include <string>

#include "kernels/library_api.h"

namespace tk::binding {

/// "bf16", "fp16" or "fp32". ValueError for a code that this binding does not know.
inline const char* dtype_name(int code) {
    switch (code) {
        case TK_BF16:
            return "bf16";
        case TK_FP16:
            return "fp16";
        case TK_FP32:
            return "fp32";
    }
    throw pybind11::value_error("a library names the unknown dtype " + std::to_string(code));
}

}  // namespace tk::binding
