"""The callables that tk.load returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch.autograd.graph import increment_version

from tk.errors import describe

if TYPE_CHECKING:
    from tk.extension.extension import Extension
    from tk.extension.signature import Signature

__all__ = ["Kernel"]

_ARCHITECTURES = {"cpu": "host", "cuda": "sm90"}
_DEVICES = {"host": "the CPU", "sm90": "a CUDA device"}


def _no_stream(_: int) -> int:
    return 0


_cuda_stream = getattr(torch._C, "_cuda_getCurrentRawStream", _no_stream)


class Kernel:
    """An exported function. Calling it checks the arguments, runs it on the device of its tensors
    (on CUDA: on the current stream, without waiting for it) and returns None: results are in the
    tensors that the function writes.

    TypeError and ValueError name the argument, what it was and what is allowed; RuntimeError has
    the text of any other exception. Autograd does not see the call, and torch.compile runs it
    between two graphs: torch.library.custom_op makes an operation of it.
    """

    def __init__(self, extension: Extension, name: str) -> None:
        self._extension = extension
        self.__name__ = name
        self.__qualname__ = name

    def __repr__(self) -> str:
        return f"<kernel {self.__name__} of {self._extension!r}>"

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: object) -> Kernel:
        return self

    def __call__(self, *given: object, **named: object) -> None:
        device = self._device(*given, *named.values())
        architecture = _ARCHITECTURES.get(device.type)
        if architecture is None or architecture not in self._extension.architectures:
            allowed = " or ".join(_DEVICES[one] for one in self._extension.architectures)
            raise ValueError(f"{self.__name__}: the tensors are on {device}; must be on {allowed}")
        library = self._extension._library(architecture)
        overloads = library.functions.get(self.__name__)
        if overloads is None:
            raise self._extension._no_function(self.__name__)
        index, signature = overloads[0]
        values = signature.bind(given, named)
        if len(overloads) > 1 and not signature.takes(values):
            index, signature, values = self._other_overload(overloads, given, named)
        words = signature.words(values, device)
        if device.type == "cuda":
            number = device.index
            _check_hopper(number)
            library.call(index, self.__name__, words, number, _cuda_stream(number))
        else:
            library.call(index, self.__name__, words, 0, 0)
        for i in signature.written:
            increment_version(values[i])  # type: ignore[arg-type]

    def _device(self, *values: object) -> torch.device:
        for value in values:
            if isinstance(value, torch.Tensor):
                return value.device
        return torch.device("cpu")  # no tensor, or a wrong one: the checks will tell

    def _other_overload(
        self,
        overloads: Sequence[tuple[int, Signature]],
        given: Sequence[object],
        named: Mapping[str, object],
    ) -> tuple[int, Signature, list[object]]:
        """The first overload whose tensors have the dtypes and ranks of the call."""
        for index, signature in overloads:
            values = signature.bind(given, named)
            if signature.takes(values):
                return index, signature, values
        arguments = overloads[0][1].arguments
        values = overloads[0][1].bind(given, named)
        words = ", ".join(
            f"{argument.name} is {describe(value)}"
            for argument, value in zip(arguments, values, strict=True)
            if isinstance(value, torch.Tensor)
        )
        known = "; ".join(str(signature) for _, signature in overloads)
        raise ValueError(f"{self.__name__}: {words}; must be one of {known}")


_hoppers: set[int] = set()


def _check_hopper(index: int) -> None:
    """ValueError for a GPU of another generation."""
    if index not in _hoppers:
        from tk import runtime

        runtime.device(torch.device("cuda", index))
        _hoppers.add(index)
