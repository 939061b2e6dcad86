"""The cases of the attention suite as data: sizes, masks, lengths of packed sequences."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["SUITES", "Case", "decode", "forward", "host", "packed", "suite_named"]


@dataclass(frozen=True)
class Case:
    """q (batch, heads, queries, dimension) over keys of `kv_heads`; with `lengths` packed sequences
    of so many queries and keys each, of which `queries` and `keys` are then all."""

    group: str
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    dimension: int
    causal: bool = False
    lengths: tuple[int, ...] = ()
    in_mean: bool = True

    def __str__(self) -> str:
        heads = str(self.heads) if self.heads == self.kv_heads else f"{self.heads}/{self.kv_heads}"
        return f"{self.group} {self.batch}x{heads}x{self.queries}x{self.keys}x{self.dimension}"


def forward() -> list[Case]:
    """Full and causal, head dimensions 128 and 64, 1k to 16k tokens, and one with grouped heads:
    the same number of tokens in all, so that batch times heads falls as the length grows."""
    cases = [
        Case("causal" if causal else "full", batch, heads, heads, length, length, dimension, causal)
        for dimension in (128, 64)
        for causal in (False, True)
        for length, batch, heads in ((1024, 16, 16), (4096, 8, 16), (16384, 2, 16))
    ]
    return [*cases, Case("grouped", 4, 32, 8, 8192, 8192, 128, True)]


def decode() -> list[Case]:
    """One query a sequence against a cache: memory binds."""
    return [Case("decode", 32, 32, 8, 1, keys, 128, in_mean=False) for keys in (2048, 8192, 32768)]


def packed() -> list[Case]:
    """32 sequences drawn log-uniformly from 64 to 8192, and so many of equal length that the work
    is the same: what their lengths cost is the ratio of the two rates."""
    draw = random.Random(5)
    lengths = tuple(round(64 * 128 ** draw.random()) for _ in range(32))
    equal = round(math.sqrt(sum(length**2 for length in lengths) / 32))
    return [
        Case(
            name,
            32,
            32,
            32,
            sum(each),
            sum(each),
            128,
            True,
            lengths=each,
            in_mean=False,
        )
        for name, each in (("packed, drawn", lengths), ("packed, equal", (equal,) * 32))
    ]


def host() -> list[Case]:
    """Small ones that the host architecture computes."""
    return [
        Case("full", 1, 2, 2, 130, 130, 64),
        Case("causal", 1, 2, 2, 130, 200, 128, True),
        Case("grouped", 1, 4, 2, 65, 65, 64, True),
        Case("decode", 2, 4, 2, 1, 500, 128),
        Case("packed", 3, 2, 2, 170, 170, 64, True, lengths=(100, 1, 69)),
    ]


@dataclass(frozen=True)
class Suite:
    """Cases that are measured together, and what for."""

    name: str
    about: str
    cases: tuple[Case, ...]


SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("full", "everything", (*forward(), *decode(), *packed())),
        Suite("forward", "what makes the geometric mean", tuple(forward())),
        Suite("decode", "one query against a long cache: memory binds", tuple(decode())),
        Suite("packed", "sequences of different lengths", tuple(packed())),
        Suite("host", "small ones that the host architecture computes", tuple(host())),
    )
}
"""By name, in the order in which they are listed."""


def suite_named(name: str) -> Suite:
    """A suite; ValueError names those that there are."""
    if name not in SUITES:
        raise ValueError(f"'{name}' is no suite; there are {', '.join(SUITES)}")
    return SUITES[name]
