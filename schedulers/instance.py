"""A compiled kernel as planning sees it: its tile, operands and shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from tk.schedulers.order import is_whole


@dataclass(frozen=True)
class Instance:
    """One line of a kernel family's instance table, as the compiled library reports it.

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

    def __post_init__(self) -> None:
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"instance: {name} is {getattr(self, name)!r}; needs a text")
        for names, least in ((_AT_LEAST_ONE, 1), (_AT_LEAST_ZERO, 0)):
            for name in names:
                value = getattr(self, name)
                whole = isinstance(value, int) and not isinstance(value, bool)
                if not whole or not least <= value <= _MOST:
                    raise ValueError(
                        f"instance {self.name!r}: {name} is {value!r}; needs >= {least}, a whole"
                        " number of 31 bits"
                    )

    @property
    def tile(self) -> str:
        """The tile in words, e.g. "128x256x64"."""
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}"

    @property
    def threads(self) -> int:
        """Threads of a block: one producer warpgroup and the consumers."""
        return (1 + self.consumer_warpgroups) * 128

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Instance:
        """From a dict with these fields; others are ignored. ValueError names what is missing or of
        another type."""
        missing = [
            f.name for f in fields(Instance) if f.default is MISSING and f.name not in record
        ]
        if missing:
            raise ValueError(f"instance record lacks: {', '.join(missing)}")
        for each in fields(Instance):
            value = record.get(each.name, each.default)
            if not (is_whole(value) if each.type == "int" else isinstance(value, str)):
                raise ValueError(f"instance record: {each.name} is {value!r}")
        return Instance(**{f.name: record[f.name] for f in fields(Instance) if f.name in record})


_MOST = (1 << 31) - 1  # ints in the kernels
_TEXTS = ("name", "dtype", "a_major", "b_major", "loader")
_AT_LEAST_ZERO = ("index", "fixed_bytes", "bytes_per_part")
_AT_LEAST_ONE = (
    "tile_m",
    "tile_n",
    "tile_k",
    "consumer_warpgroups",
    "bytes_per_stage",
    "max_stages",
)
