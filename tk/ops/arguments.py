"""What the arguments of all operations share: data types, the checks of one tensor and one number.

Works on real, fake and meta tensors alike. Reads no memory and asks the device nothing.
"""

from __future__ import annotations

import numbers

import torch

from tk.errors import describe, listed, wrong_type, wrong_value

__all__ = [
    "DTYPE_CODES",
    "DTYPE_NAMES",
    "check_device",
    "check_dtype",
    "check_tensor",
    "refuse_inference",
    "scalar",
]

DTYPE_CODES: dict[torch.dtype, int] = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2}
"""Data types and their codes in the C interface (enum tk_dtype)."""

DTYPE_NAMES: dict[torch.dtype, str] = {
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float32: "fp32",
}
"""Data types as problems and plans name them."""

_DEVICES = ("cpu", "cuda", "meta")
_LARGEST_FLOAT = float(torch.finfo(torch.float32).max)


def scalar(operation: str, argument: str, value: object) -> float:
    """A number as a float. TypeError for anything but a real number, ValueError when fp32, in
    which kernels apply it, cannot hold it."""
    if isinstance(value, torch.SymFloat | torch.SymInt):
        return value  # type: ignore[return-value]
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        allowed = "a real number"
        if isinstance(value, torch.Tensor):
            allowed += " (a tensor would have to be waited for; use its .item())"
        raise wrong_type(operation, argument, value, allowed)
    try:
        number = float(value)
    except OverflowError:
        raise wrong_value(
            operation, argument, "a number beyond all floats", "representable in float32"
        ) from None
    if _LARGEST_FLOAT < abs(number) < float("inf"):
        raise wrong_value(operation, argument, repr(number), "representable in float32")
    return number


def check_tensor(operation: str, name: str, tensor: object, *, optional: bool) -> None:
    """TypeError unless it is a tensor, ValueError unless it is strided and where kernels run."""
    if not isinstance(tensor, torch.Tensor):
        allowed = "a torch.Tensor or None" if optional else "a torch.Tensor"
        raise wrong_type(operation, name, tensor, allowed)
    if tensor.layout != torch.strided:
        raise wrong_value(operation, name, f"of layout {tensor.layout}", "of layout torch.strided")
    if tensor.device.type not in _DEVICES:
        raise wrong_value(operation, name, describe(tensor), "on a CPU or a CUDA device")


def check_dtype(
    operation: str, name: str, tensor: torch.Tensor, allowed: tuple[torch.dtype, ...]
) -> None:
    """ValueError when the tensor has none of the data types."""
    if tensor.dtype not in allowed:
        raise wrong_value(operation, name, describe(tensor), f"of {listed(allowed)}")


def check_device(
    operation: str, name: str, tensor: torch.Tensor, first_name: str, first: torch.Tensor
) -> None:
    """ValueError when the tensor is on another device than the operation's first one."""
    if tensor.device != first.device:
        was = f"on {tensor.device} while {first_name} is on {first.device}"
        raise wrong_value(operation, name, was, f"on {first_name}'s device")


def refuse_inference(operation: str, out: torch.Tensor) -> None:
    """ValueError for an output of inference mode outside of it, which torch lets nobody write."""
    if out.is_inference() and not torch.is_inference_mode_enabled():
        raise wrong_value(
            operation, "out", "a tensor of inference mode outside of it", "an ordinary tensor"
        )
