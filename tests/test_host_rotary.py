"""The rotation's kernel on the host architecture, against the formula in fp64: pairings, partial
rotation, strides, positions, packed sequences, in place; clean under sanitizers."""

from __future__ import annotations

import host_programs
import pytest

_PROGRAM = "host_rotary_check"
_FLAVOURS = ("thread", "address_only")  # the latter: CUTLASS's conversion to half overflows an int
pytestmark = [
    pytest.mark.slow,
    pytest.mark.prepare(host_programs.start_builds, [(_PROGRAM, flavour) for flavour in _FLAVOURS]),
]

_WIDE = [
    "",
    "rows=1,batch=1,heads=1",
    "rows=129,heads=7,k_heads=2,heads_per_task=8",
    "d=128,rotary_dim=32",
    "d=128,rotary_dim=32,in_place=1",
    "d=72,rotary_dim=16",  # an odd number of units is copied
    "d=640,rotary_dim=608,rows=5",  # more slots than a warp has lanes
    "rows_first=1,groups_first=1,heads=9,gap=8",
    "gap=8,in_place=1,offset=3",
    "table=narrow",
    "positions=int32",
    "positions=int64,outside=1",
    "batch=1,rows=70,ends=5/5/40/70,offset=2",
    "batch=1,rows=70,ends=0/70,grid=1",
    "inverse=1,heads=0",
    "k_heads=0,grid=9",
]
_NARROW = [
    "d=80,rotary_dim=20",
    "d=7,rotary_dim=2,step=2,gap=3",
    "d=9,rotary_dim=6,in_place=1",
    "d=65,rotary_dim=64,table=narrow,positions=int64,heads=5",
    "rotary_dim=30,rows_first=1,groups_first=1,batch=1,ends=20/37",
]
_CASES = [
    f"instance={instance},{case},interleaved={interleaved}".replace(",,", ",")
    for instances, cases in (
        (("bf16_8", "fp32_4", "fp16_8"), _WIDE),
        (("bf16_1", "fp32_1"), _NARROW),
    )
    for instance in instances
    for case in cases
    for interleaved in (0, 1)
]


@pytest.mark.parametrize("flavour", _FLAVOURS)
def test_the_rotation_is_right_and_the_sanitizers_are_silent(flavour: str) -> None:
    done = host_programs.run(_PROGRAM, flavour, *_CASES)
    assert dict(zip(_CASES, done.stdout.splitlines(), strict=False)) == dict.fromkeys(_CASES, "ok")
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_unit_that_is_not_aligned_is_an_error() -> None:
    done = host_programs.run(_PROGRAM, "address_only", "gap=3", "gap=3,instance=bf16_1")
    first, second = done.stdout.splitlines()
    assert first.startswith("error: ")
    assert "which is no multiple of 16 bytes" in first
    assert second == "ok"
