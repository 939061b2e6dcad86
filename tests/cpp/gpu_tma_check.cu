// TMA's copies and the synchronisation on a GPU, against plain loops; "ok", or what is wrong.
//
//   nvcc -std=c++20 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a gpu_tma_check.cu
#include <cstdio>

#include "sync_values.hpp"
#include "tma_cluster_values.hpp"

int main() {
    int failures = 0;
    for (const checks::test_list* list :
         {&checks::tma_value_checks, &checks::tma_cluster_checks, &checks::sync_value_checks}) {
        for (const auto& [name, check] : *list) {
            try {
                check();
            } catch (const std::exception& error) {
                std::printf("%s: %s\n", name.c_str(), error.what());
                ++failures;
                if (cudaGetLastError() != cudaSuccess && cudaDeviceSynchronize() != cudaSuccess) {
                    return 1;  // no kernel runs in this process any more
                }
            }
        }
    }
    if (failures == 0) std::printf("ok\n");
    return failures == 0 ? 0 : 1;
}
