"""What is to be computed: sizes, data types, majors. A family of kernels adds a class here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol

DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
"""Bytes of an element, by the names that problems and instances use."""

MAX_SIZE = (1 << 31) - 1024
"""Kernels number rows and columns in 32 bits, up to the end of the last tile."""


class Problem(Protocol):
    """What every family's problem has."""

    family: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, from which the family's problem class can be made again."""
        ...


@dataclass(frozen=True)
class GemmProblem:
    """out (batch, m, n) = a (batch, m, k) @ b (batch, k, n).

    dtype is that of a and b, out_dtype that of out. a_major "k" or "m" and b_major "k" or "n" name
    the contiguous axis. loader "tma" needs what TMA needs of bases and strides; "gather" takes any.
    store "vectors" says that out has aligned contiguous rows and that the product is only scaled,
    without bias, activation or addend; "elements" is anything else, which is slower.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "bf16"
    a_major: str = "k"
    b_major: str = "k"
    loader: str = "tma"
    out_dtype: str = "bf16"
    store: str = "vectors"

    family: ClassVar[str] = "gemm"

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "batch"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} is {value!r}; needs an int >= 0")
        for name, allowed in _ALLOWED.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} is {value!r}; needs one of {', '.join(allowed)}")

    @property
    def flops(self) -> int:
        """Multiplications and additions: 2 m n k batch."""
        return 2 * self.m * self.n * self.k * self.batch

    @property
    def min_bytes(self) -> int:
        """Bytes of a, b and out, each once."""
        size = DTYPE_BYTES[self.dtype]
        read = (self.m + self.n) * self.k * size
        return self.batch * (read + self.m * self.n * DTYPE_BYTES[self.out_dtype])

    @property
    def stored_by_vectors(self) -> bool:
        """Whether the output leaves 16 bytes at a time, as it is."""
        return self.store == "vectors" and self.out_dtype == self.dtype and self.n % 8 == 0

    def exchanged(self) -> GemmProblem:
        """out^T = b^T a^T, as a kernel sees it whose plan is swapped: a small m is then its n.

        A transposed output has no contiguous rows.
        """
        a_major, b_major = exchanged_majors(self.a_major, self.b_major)
        return replace(self, m=self.n, n=self.m, a_major=a_major, b_major=b_major, store="elements")

    def __str__(self) -> str:
        batch = f"{self.batch} x " if self.batch != 1 else ""
        majors = f"a[{self.a_major}] b[{self.b_major}]"
        loader = "" if self.loader == "tma" else f" {self.loader}"
        loader += "" if self.store == "vectors" else f" {self.store}"
        return (
            f"gemm {batch}{self.m} x {self.n} x {self.k}"
            f" {self.dtype}->{self.out_dtype} {majors}{loader}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> GemmProblem:
        """The inverse of `to_dict`. ValueError names a missing or unknown field."""
        unknown = sorted(set(record) - {f.name for f in fields(GemmProblem)})
        if unknown:
            raise ValueError(f"gemm problem has unknown fields: {', '.join(unknown)}")
        try:
            return GemmProblem(**record)
        except TypeError as error:
            raise ValueError(f"gemm problem is incomplete: {error}") from None


def exchanged_majors(a_major: str, b_major: str) -> tuple[str, str]:
    """The majors of b^T and a^T, as those of a first and a second operand; its own inverse."""
    return "k" if b_major == "k" else "m", "k" if a_major == "k" else "n"


_ALLOWED = {
    "dtype": ("bf16", "fp16"),
    "a_major": ("k", "m"),
    "b_major": ("k", "n"),
    "loader": ("tma", "gather"),
    "out_dtype": ("bf16", "fp16", "fp32"),
    "store": ("vectors", "elements"),
}
