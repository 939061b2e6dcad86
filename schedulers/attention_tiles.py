"""How much work each query tile of attention is: which key tiles a causal mask or a window leaves.

Masks are aligned at the bottom right: the last query sees the last key. Query i may see key j when
-left <= j - (i + key_length - query_length) <= right; a causal mask is right = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Window = tuple[int | None, int | None]
"""How many keys to the left and to the right of its own a query sees; None: all."""


def key_tiles(
    query_length: int,
    key_length: int,
    query_tile: int,
    key_tile: int,
    *,
    causal: bool = False,
    window: Window = (None, None),
) -> list[range]:
    """The key tiles that each query tile reads, in the order of the query tiles.

    Lengths and tiles are in rows. A query tile that sees no key has an empty range; its output is
    still to be written. ValueError names what is no length, tile or window.
    """
    for name, value, least in (
        ("query_length", query_length, 0),
        ("key_length", key_length, 0),
        ("query_tile", query_tile, 1),
        ("key_tile", key_tile, 1),
        ("window[0]", window[0], 0),
        ("window[1]", window[1], 0),
    ):
        if value is not None and value < least:
            raise ValueError(f"{name} is {value}; needs >= {least}")
    left, right = window[0], 0 if causal else window[1]
    offset = key_length - query_length
    found = []
    for first in range(0, query_length, query_tile):
        last = min(first + query_tile, query_length) - 1
        # Of neighbouring queries the visible keys overlap or touch, so that there is no gap.
        low = 0 if left is None else max(first + offset - left, 0)
        high = key_length - 1 if right is None else min(last + offset + right, key_length - 1)
        seen = range(low // key_tile, high // key_tile + 1) if low <= high else range(0)
        found.append(seen)
    return found


def attention_costs(
    query_length: int,
    key_length: int,
    query_tile: int,
    key_tile: int,
    *,
    causal: bool = False,
    window: Window = (None, None),
    overhead: float = 0.0,
) -> list[float]:
    """The cost of each query tile in key tiles; `overhead` is what every one takes beside them
    (loading its queries, writing its output), in the same unit."""
    seen = key_tiles(query_length, key_length, query_tile, key_tile, causal=causal, window=window)
    return [len(tiles) + overhead for tiles in seen]


@dataclass(frozen=True)
class QueryTile:
    """One work item of a batch of sequences: a query tile and the key tiles that it reads."""

    sequence: int
    head: int
    tile: int  # of the sequence's query tiles
    keys: range


def varlen_tiles(
    query_lengths: Sequence[int],
    key_lengths: Sequence[int],
    query_tile: int,
    key_tile: int,
    *,
    heads: int = 1,
    causal: bool = False,
    window: Window = (None, None),
) -> list[QueryTile]:
    """The work items of a batch of sequences with lengths of their own: by sequence, then by head,
    then by query tile. A sequence without queries has none. ValueError names what does not fit."""
    if len(query_lengths) != len(key_lengths):
        raise ValueError(
            f"query_lengths has {len(query_lengths)} sequences, key_lengths {len(key_lengths)}"
        )
    if heads < 1:
        raise ValueError(f"heads is {heads}; needs >= 1")
    items = []
    for sequence, (queries, keys) in enumerate(zip(query_lengths, key_lengths, strict=True)):
        seen = key_tiles(queries, keys, query_tile, key_tile, causal=causal, window=window)
        items += [
            QueryTile(sequence, head, tile, tiles)
            for head in range(heads)
            for tile, tiles in enumerate(seen)
        ]
    return items


def varlen_costs(items: Sequence[QueryTile], overhead: float = 0.0) -> list[float]:
    """The cost of each item in key tiles, as `attention_costs` gives it for one sequence."""
    return [len(item.keys) + overhead for item in items]
