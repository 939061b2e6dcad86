// Matrix products on the GPU: "ok", or a line for each case with wrong elements and exit status 1.
#include "mma_cases.hpp"

int main() {
    int failed = 0;
    mma_cases::for_each_case([&](const char* name, int (*wrong_elements)()) {
        try {
            const int wrong = wrong_elements();
            if (wrong == 0) return;
            std::printf("%s: %d wrong elements\n", name, wrong);
        } catch (const std::exception& error) {
            std::printf("%s: %s\n", name, error.what());
        }
        ++failed;
    });
    if (failed == 0) std::printf("ok\n");
    return failed == 0 ? 0 : 1;
}
