"""Bank conflicts of every access that the library's copies make to every kind of shared tile, held
to a table, which docs/tiles.md prints."""

from __future__ import annotations

from functools import cache

import host_programs
import pytest
import tile_tables

_PROGRAM = "host_bank_conflicts"
pytestmark = pytest.mark.prepare(host_programs.start_builds, [(_PROGRAM, "plain")])

_ELEMENTWISE = "load, store of global memory, element by element"
# The most wavefronts over the fewest, by operation and dtype, of swizzles of 128, 64, 32 and 0
# bytes; all others take the fewest everywhere.
_KNOWN = {
    # Rows of global memory are walked for its sake: where a row is many panels, they have the same
    # banks. The widest swizzle, which a tile has unless told otherwise, has none.
    **{
        ("load, store of global memory, aligned", dtype): (1, 2, 4, 8)
        for dtype in ("bf16, fp16", "fp32", "e4m3, e5m2")
    },
    ("load, store of global memory, unaligned along rows", "bf16, fp16"): (1, 2, 4, 8),
    (f"{_ELEMENTWISE} along rows", "bf16, fp16"): (1, 1, 2, 4),
    (f"{_ELEMENTWISE} along rows", "fp32"): (1, 2, 4, 8),
    (f"{_ELEMENTWISE} along rows", "e4m3, e5m2"): (1, 1, 1, 2),
    # A column's banks repeat after the 8 rows of a swizzle atom.
    **{
        (f"{_ELEMENTWISE} down columns", dtype): (4, 4, 4, 4)
        for dtype in ("bf16, fp16", "fp32", "e4m3, e5m2")
    },
    ("for_each8 along rows", "fp32"): (1, 2, 4),
    # Rows 4 q of 8-bit elements, and two panels of 16 bytes, have the same banks.
    ("load, store of a register tile, column layout", "e4m3, e5m2"): (2, 2, 2, 2),
    ("load, store of a register tile, column layout", "fp32"): (1, 2, 2, 2),
    ("load, store of a register tile, row layout", "fp32"): (1, 1, 1, 2),
}


@cache
def _costs() -> tuple[tile_tables.Cost, ...]:
    done = host_programs.run(_PROGRAM, "plain")
    assert done.returncode == 0, done.stdout[-500:]
    return tuple(tile_tables.read_costs(done.stdout))


def test_every_access_takes_the_wavefronts_it_is_known_to_take() -> None:
    found = {
        key: tuple(
            by_swizzle[swizzle][1] for swizzle in (128, 64, 32, 0, -1) if swizzle in by_swizzle
        )
        for key, by_swizzle in tile_tables.worst_by_swizzle(_costs()).items()
    }
    assert _KNOWN.keys() <= found.keys()
    assert found == {key: _KNOWN.get(key, (1,) * len(worst)) for key, worst in found.items()}


def test_the_widest_swizzle_has_conflicts_in_column_walks_and_8_bit_columns_alone() -> None:
    conflicts = {
        (cost.operation, cost.dtype) for cost in _costs() if cost.swizzle == 128 and cost.worst > 1
    }
    assert all(
        "down columns" in operation or ("column layout" in operation and dtype == "e4m3, e5m2")
        for operation, dtype in conflicts
    )


def test_the_documented_table_is_the_current_one() -> None:
    assert tile_tables.documented("bank conflicts") == tile_tables.bank_table(_costs())
