"""Every operation as a PyTorch formula: what kernels are tested against, never what a call runs."""

from tk.reference.attention import attention, attention_merge, visible_keys
from tk.reference.matmul import activate, matmul
from tk.reference.rotary import rotary

__all__ = ["activate", "attention", "attention_merge", "matmul", "rotary", "visible_keys"]
