"""The matrix product's kernel on the host architecture, against sums of integers: over sizes,
stages, clusters, splits, loaders and ways out, plain and clean under sanitizers."""

from __future__ import annotations

import host_programs
import pytest

_PROGRAM = "host_matmul_check"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.prepare(
        host_programs.start_builds, [(_PROGRAM, flavour) for flavour in host_programs.FLAVOURS]
    ),
]
# What each is there for: `run` in tests/cpp/host_matmul_check.cpp.
_INSTANCES = ["kk", "kk_fp32", "kn", "mn", "mk", "narrow", "short", "gather"]

_CASES = [
    "m=200,n=136,k=200",  # edges in every dimension
    "m=1,n=1,k=1,stages=4",
    "m=70,n=72,k=40,batch=3,stages=3,grid=2",
    "m=300,n=300,k=264,splits=2,stages=2,delay=100",
    "m=300,n=300,k=264,cluster_m=2,stages=2,order=2,param=2",
    "m=200,n=300,k=264,cluster_n=2,splits=2,stages=3,grid=2,seed=7",
    "m=300,n=300,k=64,stages=4,grid=2",  # a ring deeper than a tile
    "m=300,n=136,k=136,cluster_m=2,cluster_n=2,grid=4,order=4",
    "m=300,n=300,k=264,dynamic=1,stages=2,grid=3",
    "m=500,n=300,k=64,dynamic=1,stages=4,grid=2,delay=100",  # tasks drawn far ahead
    "m=300,n=136,k=264,dynamic=1,splits=2,stages=3,grid=4,runs=2",
    "m=200,n=136,k=520,splits=2,splits_in_cluster=1,stages=2",
    "m=130,n=300,k=600,splits=4,splits_in_cluster=1,stages=2,batch=2,delay=100",
    "m=150,n=150,k=400,splits=3,splits_in_cluster=1,out_odd=3,alpha=2,bias=1,relu=1",
    "m=150,n=150,k=200,out_odd=3,alpha=2,bias=1,relu=1",  # out by single elements
    "m=150,n=152,k=200,out_columns=1",  # out with its rows contiguous
]


@pytest.mark.parametrize("instance", _INSTANCES)
@pytest.mark.parametrize("flavour", host_programs.FLAVOURS)
def test_the_product_is_exact_and_the_sanitizers_are_silent(flavour: str, instance: str) -> None:
    # Only TMA multicasts: no plan has a cluster for the gather loader. Wide parts stay in memory.
    wanted = [
        case
        for case in _CASES
        if (instance != "gather" or "cluster" not in case)
        and (instance not in ("mn", "mk") or "splits_in_cluster" not in case)
    ]
    cases = [f"instance={instance},{case}" for case in wanted]
    done = host_programs.run(_PROGRAM, flavour, *cases)
    assert dict(zip(cases, done.stdout.splitlines(), strict=False)) == dict.fromkeys(cases, "ok")
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("seed", range(4))
def test_no_order_in_which_loads_complete_changes_the_product(seed: int) -> None:
    cases = [
        f"instance={instance},m=300,n=300,k=520,cluster_m=2,stages=3,seed={seed},delay=300"
        for instance in ("kk", "mn")
    ]
    assert host_programs.run(_PROGRAM, "plain", *cases).stdout.split() == ["ok"] * len(cases)
