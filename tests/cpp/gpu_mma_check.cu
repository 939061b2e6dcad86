// Matrix products on the GPU: "ok", or a line for each case with wrong elements and exit status 1.
// With -DTK_MMA_HALF=1 only operands in shared memory, with 2 only the others: each compiles in
// half the time.
#include "mma_cases.hpp"

#if !defined(TK_MMA_HALF)
#define TK_MMA_HALF 0
#endif

int main() {
    int failed = 0;
    const auto check = [&](const char* name, int (*wrong_elements)()) {
        try {
            const int wrong = wrong_elements();
            if (wrong == 0) return;
            std::printf("%s: %d wrong elements\n", name, wrong);
        } catch (const std::exception& error) {
            std::printf("%s: %s\n", name, error.what());
        }
        ++failed;
    };
#if TK_MMA_HALF != 2
    mma_cases::for_each_case_of_shared_operands(check);
#endif
#if TK_MMA_HALF != 1
    mma_cases::for_each_case_of_registers(check);
#endif
    if (failed == 0) std::printf("ok\n");
    return failed == 0 ? 0 : 1;
}
