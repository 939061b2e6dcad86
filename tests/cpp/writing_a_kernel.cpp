// The steps of docs/writing-a-kernel.md, for the tests.
#include "../../examples/writing_a_kernel/run.cpp"
