"""How errors about arguments are worded: the argument, what it was, what is allowed."""

from __future__ import annotations

from collections.abc import Iterable

import torch

__all__ = ["describe", "listed", "wrong_type", "wrong_value"]


def describe(tensor: torch.Tensor) -> str:
    """Shape, strides, dtype and device in words, e.g. `a (3, 4) tensor of torch.float16 on cpu`."""
    shape = "(" + ", ".join(str(size) for size in tensor.shape) + ("," if tensor.dim() == 1 else "")
    return f"a {shape}) tensor of {tensor.dtype} on {tensor.device}"


def listed(allowed: Iterable[object]) -> str:
    """The allowed values, joined: `"relu", "silu" or None`."""
    names = [f'"{value}"' if isinstance(value, str) else str(value) for value in allowed]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


def wrong_type(operation: str, argument: str, value: object, allowed: str) -> TypeError:
    """The error for a Python object of the wrong kind."""
    return TypeError(f"{operation}: {argument} is {type(value).__name__}; must be {allowed}")


def wrong_value(operation: str, argument: str, was: str, allowed: str) -> ValueError:
    """The error for a value that is not allowed."""
    return ValueError(f"{operation}: {argument} is {was}; must be {allowed}")
