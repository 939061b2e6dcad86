"""Every operation as a PyTorch formula: what kernels are tested against, never what a call runs."""

from tk.reference.matmul import activate, matmul

__all__ = ["activate", "matmul"]
