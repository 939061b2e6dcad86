"""A compiled kernel as planning sees it: a line of its family's instance table, of any family and
of the matrix product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, TypeVar

from tk.schedulers.order import is_whole

Made = TypeVar("Made", bound="TableLine")
_MOST = (1 << 31) - 1  # ints in the kernels


@dataclass(frozen=True)
class TableLine:
    """What the lines of all families' tables share: texts and whole numbers, each checked, and
    their plain values. A family's class has the fields; `may_be_zero` names those that may be 0."""

    may_be_zero: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        each = [(f.name, f.type, getattr(self, f.name)) for f in fields(self)]
        for name, kind, value in each:
            if kind == "str" and not isinstance(value, str):
                raise ValueError(f"instance: {name} is {value!r}; needs a text")
        name_of = getattr(self, "name", "")
        for name, kind, value in each:
            least = 0 if name in self.may_be_zero else 1
            if kind == "int" and not (is_whole(value) and least <= value <= _MOST):
                raise ValueError(
                    f"instance {name_of!r}: {name} is {value!r}; needs >= {least}, a whole number"
                    " of 31 bits"
                )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls: type[Made], record: Mapping[str, Any]) -> Made:
        """From a dict with these fields; others are ignored. ValueError names what is missing or of
        another type."""
        missing = [f.name for f in fields(cls) if f.default is MISSING and f.name not in record]
        if missing:
            raise ValueError(f"instance record lacks: {', '.join(missing)}")
        for each in fields(cls):
            value = record.get(each.name, each.default)
            if not (is_whole(value) if each.type == "int" else isinstance(value, str)):
                raise ValueError(f"instance record: {each.name} is {value!r}")
        return cls(**{f.name: record[f.name] for f in fields(cls) if f.name in record})


@dataclass(frozen=True)
class Instance(TableLine):
    """One line of the matrix product's instance table, as the compiled library reports it.

    Shared memory of a block is num_stages * bytes_per_stage + fixed_bytes and, if the splits of a
    tile are the blocks of a cluster, bytes_per_part for each of the others (0: they cannot be). The
    kernel itself says these figures, so that there is one source of truth.
    """

    index: int
    name: str
    dtype: str
    a_major: str
    b_major: str
    loader: str
    tile_m: int
    tile_n: int
    tile_k: int
    consumer_warpgroups: int
    bytes_per_stage: int
    fixed_bytes: int
    max_stages: int
    bytes_per_part: int = 0

    may_be_zero: ClassVar[frozenset[str]] = frozenset({"index", "fixed_bytes", "bytes_per_part"})

    @property
    def tile(self) -> str:
        """The tile in words, e.g. "128x256x64"."""
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}"

    @property
    def threads(self) -> int:
        """Threads of a block: one producer warpgroup and the consumers."""
        return (1 + self.consumer_warpgroups) * 128
