// The block templates on a GPU: the cases of template_cases.hpp, a line each, and "ok" at the end
// if all are right.
//
//   gpu_templates_check               all cases
//   gpu_templates_check all KERNEL    those of a kernel
//   gpu_templates_check CASE...       those named
#include "template_cases.hpp"

int main(int count, char** arguments) {
    cudaSetDevice(0);
    cudaFree(nullptr);
    const int status = template_cases::run_named(count, arguments, 1);
    std::printf(status == 0 ? "ok\n" : "failed\n");
    return status;
}
