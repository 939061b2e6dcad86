"""Attention's kernel on the host architecture, against the formula in fp64: over lengths, masks,
changes of scores, heads, packed sequences, splits and orders, plain and clean under sanitizers."""

from __future__ import annotations

import host_programs
import pytest

_PROGRAM = "host_attention_check"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.prepare(
        host_programs.start_builds, [(_PROGRAM, flavour) for flavour in host_programs.FLAVOURS]
    ),
]

_LENGTHS = [
    f"q={queries},k={keys}{more}"
    for queries, keys in (
        *((1, 1), (2, 2), (63, 64), (64, 63), (65, 65), (127, 129), (128, 128), (129, 127)),
        *((113, 203), (203, 113), (1, 300), (300, 1)),
    )
    for more in ("", ",causal=1")
]
_PLAIN = [
    "k=0",  # nothing to attend to
    "left=20,right=5",
    "left=0,right=0",
    "causal=1,left=40,q=100,k=300",
    "nan_row=3",
    "inf_key=7",
    "size=8",
    "lse=0,odd=1",
    "rows_outermost=1,heads=6,kv=3",
    "d=56,dv=40",
    # order, grid and turns
    "q=300,k=300,causal=1,order=2,param=3,longest=1,dynamic=1,grid=4,delay=100",
    "q=300,k=500,turns=1,stages=3,grid=2",
    "q=200,k=300,causal=1,turns=1,stages=1,delay=100",
    # one query tile for all heads that share a key head
    "pack=1,heads=8,kv=2,q=1,k=700,splits=4,grid=4,runs=2",
    "pack=1,heads=6,kv=1,q=30,odd=3,rows_outermost=1,causal=1",
    # splits, some of them without keys
    "splits=4,q=70,k=300,causal=1,grid=4",
    "splits=3,q=70,k=100,dynamic=1,grid=4,delay=100,runs=2",
    # sequences of several lengths, none among them
    "varlen=5:9/0:70/130:64/64:0/33:200",
    "varlen=5:9/0:70/130:64/64:0/33:200,causal=1,rows_outermost=1,splits=2,longest=1",
    "varlen=70:70/130:150/40:60/7:7,nan_sequence=1",
    "varlen=7:7/1:300/0:0/150:150,pack=1,heads=4,kv=2,causal=1",
]
_GENERAL = [
    "",
    "softcap=3",
    "scale=0",
    "scale=-0.3,causal=1",
    "alibi=1,q=65,k=129",
    "bias=full,q=129,k=65",
    "bias=hidden,splits=3",  # rows that see nothing, by -infinity alone
    "bias=shared,softcap=5,alibi=1,causal=1,wide_bias=1",
    "pack=1,heads=8,kv=2,q=7,k=300,bias=full,alibi=1,splits=2,causal=1",
    "varlen=5:9/0:70/130:64,bias=shared,alibi=1,left=30",
]
_CASES = [
    *(f"instance=plain,{case}" for case in _LENGTHS + _PLAIN),
    *(f"instance=general,{case}" for case in _GENERAL),
    *(f"instance=one,{case}" for case in [*_GENERAL, "d=56,dv=72"]),
    "instance=three,q=300,k=333,causal=1,turns=1,stages=3",
    "instance=three,q=200,k=81",
    # consumers that skip the tiles after their last query, in turns and with splits
    "instance=three,q=400,k=400,causal=1,turns=1,stages=3,grid=2,dynamic=1",
    "instance=three,q=400,k=100,causal=1,turns=1",
    "instance=three,q=400,k=400,causal=1,splits=3",
    "instance=three,varlen=5:9/0:70/130:64/400:400/33:200,causal=1,turns=1,stages=2",
    "instance=plain,q=400,k=500,causal=1,left=50,turns=1,stages=2",
    "instance=narrow,q=100,k=200,left=30",
    "instance=narrow,d=80,dv=24",
]


@pytest.mark.parametrize("flavour", host_programs.FLAVOURS)
def test_attention_is_right_and_the_sanitizers_are_silent(flavour: str) -> None:
    cases = [case.rstrip(",") for case in _CASES]
    if flavour == "address":  # CUTLASS's conversion to half overflows an int, which is harmless
        half = ("instance=one", "instance=three")
        cases = [case for case in cases if not case.startswith(half)]
    done = host_programs.run(_PROGRAM, flavour, *cases, timeout=400)
    assert dict(zip(cases, done.stdout.splitlines(), strict=False)) == dict.fromkeys(cases, "ok")
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("seed", range(4))
def test_no_order_in_which_loads_complete_changes_the_result(seed: int) -> None:
    cases = [
        f"instance=plain,q=300,k=400,causal=1,stages={stages},turns=1,seed={seed},delay=300"
        for stages in (1, 2, 3)
    ]
    assert host_programs.run(_PROGRAM, "plain", *cases).stdout.split() == ["ok"] * len(cases)
