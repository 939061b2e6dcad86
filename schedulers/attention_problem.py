"""What attention computes, and its compiled kernels, as planning sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from tk.schedulers.attention_tiles import Window
from tk.schedulers.instance import TableLine
from tk.schedulers.order import is_whole
from tk.schedulers.problem import DTYPE_BYTES

SCORES = ("plain", "general")
"""What a kernel can do to scores: masks alone, or also softcap, alibi, a bias and any scale."""

MAX_LENGTH = (1 << 28) - 1
"""The most keys, and queries (times the heads of a packed tile), whose differences are an int."""

NO_LIMIT = -1
"""The side of a window that has no limit."""


@dataclass(frozen=True)
class AttentionProblem:
    """out (batch, heads, queries, value_dim) of q (…, head_dim) over `keys` keys of `kv_heads`.

    Query i sees key j when i + s - window_left <= j <= i + s + window_right with s = keys -
    queries, -1 being no limit; causal is a window_right of 0. `total_queries` and `total_keys` are
    the rows of all sequences together: with `packed` those of sequences of different lengths, of
    which `queries` and `keys` are the longest, or more where the lengths are not known.
    """

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_dim: int
    value_dim: int
    dtype: str = "bf16"
    window_left: int = NO_LIMIT
    window_right: int = NO_LIMIT
    scores: str = "plain"
    packed: bool = False
    total_queries: int = 0
    total_keys: int = 0

    family: ClassVar[str] = "attention"

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            least = NO_LIMIT if f.name.startswith("window") else 0
            if f.type == "int" and not (is_whole(value) and value >= least):
                raise ValueError(f"{f.name} is {value!r}; needs an int >= {least}")
        for name, allowed in (("dtype", ("bf16", "fp16")), ("scores", SCORES)):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; needs one of {', '.join(allowed)}"
                )
        if not isinstance(self.packed, bool):
            raise ValueError(f"packed is {self.packed!r}; needs True or False")
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(
                f"heads is {self.heads}; needs a multiple of kv_heads, {self.kv_heads}"
            )
        if not self.packed:
            object.__setattr__(self, "total_queries", self.queries)
            object.__setattr__(self, "total_keys", self.keys)

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.heads // max(self.kv_heads, 1)

    @property
    def window(self) -> Window:
        """As `attention_tiles` takes it."""
        left, right = self.window_left, self.window_right
        return (None if left < 0 else left), (None if right < 0 else right)

    @property
    def uneven(self) -> bool:
        """Whether query tiles may have different numbers of key tiles."""
        return self.packed or self.window != (None, None)

    @property
    def typical(self) -> tuple[int, int]:
        """(queries, keys) of a sequence; of packed ones the mean, for their lengths are unknown."""
        if not self.packed or self.batch == 0:
            return self.queries, self.keys
        mean = (-(-total // self.batch) for total in (self.total_queries, self.total_keys))
        queries, keys = mean
        return min(queries, self.queries), min(keys, self.keys)

    @property
    def flops(self) -> int:
        """Multiplications and additions of both products, over the keys that are seen."""
        queries, keys = self.typical
        pairs = visible_pairs(queries, keys, *self.window)
        return 2 * self.batch * self.heads * pairs * (self.head_dim + self.value_dim)

    @property
    def min_bytes(self) -> int:
        """Bytes of q, k, v and out, each once."""
        queries, keys = self.typical
        rows = self.heads * queries + self.kv_heads * keys
        size = DTYPE_BYTES[self.dtype]
        return self.batch * rows * (self.head_dim + self.value_dim) * size

    def __str__(self) -> str:
        heads = str(self.heads) if self.group == 1 else f"{self.heads}/{self.kv_heads}"
        dims = str(self.head_dim)
        if self.value_dim != self.head_dim:
            dims += f"/{self.value_dim}"
        left, right = self.window_left, self.window_right
        mask = ""
        if left >= 0 or right >= 0:
            mask = " causal" if (left, right) == (NO_LIMIT, 0) else f" window({left},{right})"
        packed = f" packed({self.total_queries},{self.total_keys})" if self.packed else ""
        general = "" if self.scores == "plain" else " general"
        return (
            f"attention {self.batch} x {heads} x {self.queries} x {self.keys} x {dims}"
            f" {self.dtype}{mask}{packed}{general}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> AttentionProblem:
        """The inverse of `to_dict`. ValueError names a missing or unknown field."""
        unknown = sorted(set(record) - {f.name for f in fields(AttentionProblem)})
        if unknown:
            raise ValueError(f"attention problem has unknown fields: {', '.join(unknown)}")
        try:
            return AttentionProblem(**record)
        except TypeError as error:
            raise ValueError(f"attention problem is incomplete: {error}") from None


def visible_pairs(queries: int, keys: int, left: int | None, right: int | None) -> int:
    """How many (query, key) pairs a window leaves, aligned at the bottom right; None: no limit."""

    def up_to(distance: int) -> int:
        """Pairs with j - (i + shift) <= distance: the sum over i of i + shift + distance + 1,
        clamped to 0 and `keys`."""
        first = keys - queries + distance + 1
        return _sum_of_positive(first, queries) - _sum_of_positive(first - keys, queries)

    all_below = queries * keys if right is None else up_to(right)
    return all_below - (0 if left is None else up_to(-left - 1))


def _sum_of_positive(first: int, count: int) -> int:
    """The sum of those of first, first + 1, … (`count` numbers) that are above 0."""
    last = first + count - 1
    if last <= 0:
        return 0
    terms = min(count, last)
    return terms * (2 * last - terms + 1) // 2


@dataclass(frozen=True)
class AttentionInstance(TableLine):
    """One line of attention's instance table, as the compiled library reports it.

    It takes head and value dimensions up to its own; a query tile has tile_q rows, a key tile
    tile_k. Shared memory of a block is num_stages * bytes_per_stage + fixed_bytes.
    """

    index: int
    name: str
    dtype: str
    head_dim: int
    value_dim: int
    scores: str
    tile_q: int
    tile_k: int
    consumer_warpgroups: int
    bytes_per_stage: int
    fixed_bytes: int
    min_stages: int
    max_stages: int

    may_be_zero: ClassVar[frozenset[str]] = frozenset({"index", "fixed_bytes"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scores not in SCORES:
            raise ValueError(
                f"instance {self.name!r}: scores is {self.scores!r}; needs one of"
                f" {', '.join(SCORES)}"
            )

    @property
    def tile(self) -> str:
        """The tile in words, e.g. "128x176x128": queries, keys and head dimension."""
        return f"{self.tile_q}x{self.tile_k}x{self.head_dim}"

    @property
    def threads(self) -> int:
        """Threads of a block: one producer warpgroup and the consumers."""
        return (1 + self.consumer_warpgroups) * 128
