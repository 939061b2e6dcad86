"""Whether a call is for the library alone, or for torch's dispatcher, which has to see it."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

__all__ = ["is_plain"]

_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_transforms = torch._C._functorch.peek_interpreter_stack
_tracing = torch._C._get_tracing_state


def is_plain(tensors: tuple[object, ...]) -> bool:
    """Whether nothing but us has to see the call. What is no tensor is named later."""
    for each in tensors:
        if each is not None and isinstance(each, torch.Tensor):
            kind = type(each)
            if (kind is not torch.Tensor and kind is not torch.nn.Parameter) or each.is_neg():
                return False
    return (
        not _dispatch_modes()
        and not _function_modes()
        and _transforms() is None
        and forward_ad._current_level < 0
        and _tracing() is None
    )
