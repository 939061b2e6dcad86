"""What an exported function takes, and the check of a call's arguments against it."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tk.errors import describe, wrong_type, wrong_value
from tk.ops.overlap import overlaps_itself

__all__ = ["Argument", "Signature"]

_MISSING = object()


@dataclass(frozen=True)
class Argument:
    """One argument: a tensor of a dtype and rank, read or written; or an int, a float, a bool."""

    name: str
    kind: str  # "tensor", "int", "float" or "bool"
    default: Any = _MISSING
    dtype: torch.dtype | None = None
    rank: int = 0
    is_written: bool = False

    @property
    def is_tensor(self) -> bool:
        return self.kind == "tensor"

    def __str__(self) -> str:
        if self.is_tensor:
            written = ", written" if self.is_written else ""
            return f"{self.name}: {self.dtype}[{self.rank}]{written}"
        return f"{self.name}: {self.kind}" + (
            "" if self.default is _MISSING else f" = {self.default}"
        )


class Signature:
    """The name and the arguments of an exported function."""

    def __init__(self, name: str, arguments: Sequence[Argument]) -> None:
        self.name = name
        self.arguments = tuple(arguments)
        self.tensors = tuple(i for i, one in enumerate(arguments) if one.is_tensor)
        self.written = tuple(i for i in self.tensors if self.arguments[i].is_written)
        codes = (
            "q" * (1 + 2 * one.rank) if one.is_tensor else "d" if one.kind == "float" else "q"
            for one in arguments
        )
        self._pack = struct.Struct("=" + "".join(codes)).pack

    @staticmethod
    def parse(text: str) -> Signature:
        """From the words of tk/extend.hpp: the name, "out, x, factor = 1.0", and for each argument
        a line such as "tensor float32 2 write"."""
        name, names, *kinds = text.split("\n")
        arguments = []
        for given, words in zip(names.split(",") if names else [], kinds, strict=True):
            own, _, literal = (part.strip() for part in given.partition("="))
            kind, *more = words.split()
            if kind == "tensor":
                if literal:
                    raise ValueError(f"{name}: tensor {own} has the default {literal}")
                dtype = getattr(torch, more[0])
                arguments.append(
                    Argument(
                        own, kind, dtype=dtype, rank=int(more[1]), is_written=more[2] == "write"
                    )
                )
            else:
                default = _default(name, own, kind, literal) if literal else _MISSING
                arguments.append(Argument(own, kind, default))
        return Signature(name, arguments)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"

    def bind(self, given: Sequence[object], named: Mapping[str, object]) -> list[object]:
        """The values of all arguments in order. TypeError as for a Python function."""
        names = [one.name for one in self.arguments]
        if len(given) > len(names):
            raise TypeError(f"{self} takes {len(names)} arguments but {len(given)} were given")
        if not named and len(given) == len(names):
            return list(given)
        values = [*given, *(one.default for one in self.arguments[len(given) :])]
        for name, value in named.items():
            if name not in names:
                raise TypeError(f"{self} has no argument {name}")
            place = names.index(name)
            if place < len(given):
                raise TypeError(f"{self}: argument {name} is given twice")
            values[place] = value
        missing = [one for one, value in zip(names, values, strict=True) if value is _MISSING]
        if missing:
            raise TypeError(f"{self} lacks {', '.join(missing)}")
        return values

    def takes(self, values: Sequence[object]) -> bool:
        """Whether the tensors among the values have the dtypes and ranks of the arguments."""
        return all(
            isinstance(value := values[i], torch.Tensor)
            and value.dtype == self.arguments[i].dtype
            and value.dim() == self.arguments[i].rank
            for i in self.tensors
        )

    def words(self, values: Sequence[Any], device: torch.device) -> bytes:
        """The values as the library takes them, all checked. TypeError or ValueError names the
        argument, what it was and what is allowed."""
        flat: list[int | float] = []
        for argument, value in zip(self.arguments, values, strict=True):
            if argument.kind == "tensor":
                self._check_tensor(argument, value, device)
                flat.append(self._address(argument, value))
                flat += value.shape
                flat += value.stride()
            else:
                flat.append(self._scalar(argument, value))
        try:
            return self._pack(*flat)
        except struct.error:
            big = [v for v in values if isinstance(v, int) and not -(1 << 63) <= v < 1 << 63]
            raise wrong_value(
                self.name, "an integer argument", str(big[0] if big else "?"), "a 64-bit integer"
            ) from None

    def _check_tensor(self, argument: Argument, value: object, device: torch.device) -> None:
        if not isinstance(value, torch.Tensor):
            raise wrong_type(
                self.name, argument.name, value, f"a {argument.rank}-dimensional tensor of "
                f"{argument.dtype}"
            )  # fmt: skip
        if value.dtype != argument.dtype or value.dim() != argument.rank:
            raise wrong_value(
                self.name, argument.name, describe(value),
                f"a {argument.rank}-dimensional tensor of {argument.dtype}",
            )  # fmt: skip
        if value.device != device:
            raise wrong_value(self.name, argument.name, describe(value), f"on {device}")
        if type(value) is not torch.Tensor and _is_fake(value):
            raise wrong_value(
                self.name, argument.name, "a fake tensor, which has no memory",
                "a real one (register_fake says what an operation made of this kernel returns)",
            )  # fmt: skip
        if value.layout != torch.strided:
            raise wrong_value(self.name, argument.name, f"of layout {value.layout}", "strided")
        if value.is_conj() or value.is_neg():
            raise wrong_value(
                self.name, argument.name, "a view that is conjugated or negated when it is read",
                "resolved (resolve_conj, resolve_neg)",
            )  # fmt: skip
        if argument.is_written and not value.is_contiguous() and _overlaps_itself(value):
            strides = ", ".join(map(str, value.stride()))
            how = "a stride of 0" if 0 in value.stride() else f"the strides {strides}"
            raise wrong_value(
                self.name, argument.name, f"{describe(value)} with {how}",
                "a tensor whose elements are apart, since it is written",
            )  # fmt: skip

    def _address(self, argument: Argument, value: torch.Tensor) -> int:
        try:
            address = value.data_ptr()
        except RuntimeError:  # of torch.func and of vmap
            raise wrong_value(
                self.name, argument.name, "a tensor without memory of its own, as torch.func has",
                "a real one (torch.library.custom_op makes an operation with transforms)",
            ) from None  # fmt: skip
        if address == 0 and value.numel() != 0:  # freed, or zeros that autograd does not store
            raise wrong_value(
                self.name, argument.name, "a tensor without memory", "one whose memory is there"
            )
        return address

    def _scalar(self, argument: Argument, value: Any) -> int | float:
        kind = argument.kind
        if kind == "bool":
            if not isinstance(value, bool):
                raise wrong_type(self.name, argument.name, value, "a bool")
            return int(value)
        if isinstance(value, (bool, torch.Tensor)):
            raise wrong_type(self.name, argument.name, value, f"a Python {kind}")
        try:
            number: int | float = value.__index__() if kind == "int" else value.__float__()
        except (TypeError, AttributeError):  # float() would take a string
            raise wrong_type(self.name, argument.name, value, f"a Python {kind}") from None
        except OverflowError:
            raise wrong_value(
                self.name, argument.name, "an integer beyond every float", "a Python float"
            ) from None
        return number


def _overlaps_itself(value: torch.Tensor) -> bool:
    """Whether two indices of a tensor are one element."""
    reach = 0
    for stride, size in sorted(zip(value.stride(), value.shape, strict=True)):
        if size > 1 and stride <= reach:
            break  # perhaps
        reach += (size - 1) * stride
    else:
        return False
    return overlaps_itself(value.shape, value.stride())


def _is_fake(value: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)


def _default(function: str, name: str, kind: str, literal: str) -> int | float | bool:
    """The value of a default in TK_EXPORT's text: a literal of C++."""
    try:
        if kind == "bool":
            return {"true": True, "false": False}[literal]
        if kind == "int":
            return int(re.sub(r"[uUlL]+$", "", literal), 0)
        return float(re.sub(r"[fFlL]$", "", literal))
    except (KeyError, ValueError):
        raise ValueError(
            f"{function}: {name} has the default {literal}; must be a literal of type {kind}"
        ) from None
