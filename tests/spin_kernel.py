"""A Triton kernel that waits by the global timer of the device: a duration known beforehand."""

import triton
import triton.language as tl


@triton.jit
def spin(target, nanoseconds):
    start = tl.extra.cuda.globaltimer()
    now = start
    while now - start < nanoseconds:
        now = tl.extra.cuda.globaltimer()
    tl.store(target, now)
