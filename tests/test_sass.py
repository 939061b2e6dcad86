"""Operations on tiles cost no more instructions than the same written by hand (tests/cpp/sass)."""

from __future__ import annotations

from functools import cache

import background
import pytest
import tile_tables


@cache
def _comparison() -> background.Task[dict[str, tuple[int, int]]]:
    return background.Task(tile_tables.compare_instructions)


def _pairs() -> dict[str, tuple[int, int]]:
    return _comparison().result()


pytestmark = [
    pytest.mark.slow,
    pytest.mark.prepare.with_args(_comparison),
    pytest.mark.skipif(
        bool(tile_tables.missing_tools()), reason="needs nvcc, cuobjdump and nvdisasm"
    ),
]


def test_no_operation_takes_two_percent_more_instructions_than_by_hand() -> None:
    assert len(_pairs()) >= 12
    dearer = {name: pair for name, pair in _pairs().items() if pair[0] > pair[1] * 1.02}
    assert dearer == {}


def test_the_documented_table_is_close_to_the_current_one() -> None:
    rows = (line.split("|") for line in tile_tables.documented("instructions").splitlines()[2:])
    documented = {row[1].strip(" `"): (int(row[2]), int(row[3])) for row in rows}
    assert documented.keys() == _pairs().keys()
    # compilers differ from version to version
    for name, counts in _pairs().items():
        assert counts == pytest.approx(documented[name], rel=0.1), name
