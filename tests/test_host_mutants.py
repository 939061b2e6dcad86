"""Every synchronisation operation of the kernel and of its template is needed: each is left out in
turn, on the host architecture, and something must notice: a NaN, a wrong value, an access that no
barrier orders, a proxy that is not fenced, or a deadlock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import host_programs
import pytest

_TEMPLATES = "host_templates_check"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.prepare(
        host_programs.start_builds,
        [
            ("host_matmul_check", "plain"),
            (_TEMPLATES, "plain"),
            ("host_user_kernel", "plain"),
            ("host_user_kernel", "thread"),
        ],
    ),
]


@dataclass(frozen=True)
class Site:
    """A synchronisation operation in the source, of one instance of a template."""

    operation: str
    file: str
    line: int
    text: str  # as the programs write it

    @staticmethod
    def parse(text: str) -> Site:
        operation, place, _ = text.split(" ", 2)
        file, line = place.split(":")
        return Site(operation, file, int(line), text)


@dataclass(frozen=True)
class Case:
    """A run that passes a number of sites; more tasks than blocks and more K tiles than stages, so
    that everything is used again."""

    program: str
    arguments: tuple[str, ...]
    # Operations that this run does not need, with the reason: (operation, file, which one in it);
    # "operation: words" are those of an instance of a template whose signature has the words.
    harmless: dict[tuple[str, str, int], str]


_SMALL = "stages=2,grid=4,watchdog=3"
_SINGLE_BLOCK = {
    ("cluster::sync", "pipeline.hpp", 1): "no other block might still write into one alone",
}
_NO_OTHER_BLOCK = {
    ("fence_semaphore_init", "pipeline.hpp", 1): "only the ring's are seen by TMA or other blocks",
}
_NO_CLUSTER_OF_SPLITS = {
    ("init_semaphores", "matmul.hpp", 0): "no part of a tile is sent to another block",
}
_NO_TMA_OUTPUT = {
    ("store_async_read_wait", "pipeline.hpp", 0): "the template's, for kernels that store by TMA",
}
_FENCED = "the kernel fences what it stores, for its own stores by TMA"
CASES = {
    # three pieces a tile, operands with M and N contiguous, multicast along N
    "mn": Case(
        "host_matmul_check",
        (f"instance=mn,m=300,n=560,k=200,cluster_n=2,{_SMALL}",),
        harmless=_NO_OTHER_BLOCK,
    ),
    # two pieces a tile, operands with K contiguous, multicast along M
    "kk": Case(
        "host_matmul_check",
        (f"instance=kk,m=300,n=272,k=200,cluster_m=2,{_SMALL}",),
        harmless=_NO_CLUSTER_OF_SPLITS | _NO_OTHER_BLOCK,
    ),
    "split": Case(
        "host_matmul_check",
        (f"instance=kk_fp32,m=300,n=272,k=264,splits=2,{_SMALL}",),
        harmless=_SINGLE_BLOCK | _NO_TMA_OUTPUT | _NO_CLUSTER_OF_SPLITS | _NO_OTHER_BLOCK,
    ),
    # the splits of a tile as the blocks of a cluster, each with one task
    "cluster_splits": Case(
        "host_matmul_check",
        ("instance=kn,m=150,n=136,k=1000,splits=3,splits_in_cluster=1,stages=2,watchdog=3",),
        harmless={
            ("cluster::sync", "pipeline.hpp", 1): "a block waits for all that is sent to it",
            ("cluster::arrive: InFlight = 0", "pipeline.hpp", 0): "nothing is loaded after a task",
            ("store_async_read_wait", "epilogue.hpp", 0): "nothing is staged twice",
            ("group::sync", "epilogue.hpp", 0): "nothing is staged twice",
        },
    ),
    "gather": Case(
        "host_matmul_check",
        (f"instance=gather,m=300,n=136,k=200,{_SMALL}",),
        harmless=_SINGLE_BLOCK
        | _NO_OTHER_BLOCK
        | {
            ("fence_semaphore_init", "pipeline.hpp", 0): "neither TMA nor another block arrives",
        },
    ),
    # tasks of one iteration, drawn from the queue further ahead than they are finished
    "dynamic": Case(
        "host_matmul_check",
        ("instance=kk,m=700,n=272,k=64,dynamic=1,stages=4,grid=2,watchdog=3",),
        harmless=_SINGLE_BLOCK
        | _NO_OTHER_BLOCK
        | _NO_CLUSTER_OF_SPLITS
        | {
            ("mma_async_wait", "matmul.hpp", 0): "the only product of a task is waited for again",
            (
                "wait",
                "pipeline.hpp",
                0,
            ): "the queue keeps the producer fewer tasks than stages ahead",
        },
    ),
    # turns of two consumers, and a finish block in the place of the stages, shared loads
    "turns": Case(
        _TEMPLATES,
        ("kernel=sum_turns,cluster=2,stages=2,tasks=5,grid=4",),
        harmless={("fence_async_proxy", "pipeline.hpp", 0): _FENCED},
    ),
    # a finish block for ordinary loads and stores
    "ordinary": Case(
        _TEMPLATES,
        ("kernel=sum_ordinary,stages=2,tasks=5",),
        harmless=_SINGLE_BLOCK
        | _NO_OTHER_BLOCK
        | {("store_async_read_wait", "pipeline.hpp", 0): "nothing is stored by TMA"},
    ),
    # an output ring
    "store": Case(
        _TEMPLATES,
        ("kernel=map_turns,cluster=2,stages=3,outputs=2,tasks=5,grid=4",),
        harmless={("fence_async_proxy", "pipeline.hpp", 1): _FENCED},
    ),
    # an output ring of one stage
    "store_one": Case(
        _TEMPLATES,
        ("kernel=map_turns,stages=3,outputs=1,tasks=5",),
        harmless=_SINGLE_BLOCK
        | _NO_OTHER_BLOCK
        | {
            ("fence_async_proxy", "pipeline.hpp", 1): _FENCED,
            ("store_async_read_wait", "pipeline.hpp", 2): "every stage was waited for",
        },
    ),
    # tasks of one iteration, drawn by one block for all of its cluster
    "cluster_queue": Case(
        _TEMPLATES,
        ("kernel=map_cluster_queue,cluster=2,queue=1,stages=4,outputs=4,tasks=12,iterations=1",),
        harmless={},
    ),
    # without the template, and output by TMA
    "user": Case("host_user_kernel", ("4",), harmless={}),
}


@cache
def _sites(name: str) -> tuple[Site, ...]:
    case = CASES[name]
    done = host_programs.run(case.program, "plain", "sites", *case.arguments)
    verdict, *lines = done.stdout.splitlines()
    assert verdict == "ok", "the kernel as it is"
    return tuple(Site.parse(line) for line in lines)


def _verdict(name: str, site: Site, flavour: str = "plain", check: bool = True) -> str:
    """What the program says without the operations of a site; a race report counts as such."""
    case = CASES[name]
    environment = {} if check else {"TK_HOST_CHECK": "0"}
    done = host_programs.run(
        case.program, flavour, "drop", site.text, *case.arguments, environment=environment
    )
    if "ThreadSanitizer: data race" in done.stderr:
        return "race"
    return done.stdout.strip()


def _is_harmless(name: str, site: Site) -> bool:
    lines = sorted(
        {
            other.line
            for other in _sites(name)
            if (other.operation, other.file) == (site.operation, site.file)
        }
    )
    for operation, file, index in CASES[name].harmless:
        named, _, words = operation.partition(": ")
        if (named, file, index) == (site.operation, site.file, lines.index(site.line)):
            return words in site.text
    return False


@pytest.mark.parametrize("name", CASES)
def test_every_synchronisation_left_out_is_caught(name: str) -> None:
    sites = _sites(name)
    with ThreadPoolExecutor(max_workers=2) as executor:
        verdicts = list(executor.map(lambda site: _verdict(name, site), sites))
    missed = {site.text for site, verdict in zip(sites, verdicts, strict=True) if verdict == "ok"}
    assert missed == {site.text for site in sites if _is_harmless(name, site)}


def test_every_site_is_needed_by_some_case() -> None:
    needed: set[tuple[str, str, int]] = set()
    passed: set[tuple[str, str, int]] = set()
    for name in CASES:
        for site in _sites(name):
            place = (site.operation, site.file, site.line)
            passed.add(place)
            if not _is_harmless(name, site):
                needed.add(place)
    assert passed == needed


_CALL = re.compile(
    r"\b(init_semaphores?|init_semaphore_at|fence_semaphore_init|wait|try_wait|test_wait|arrive|expect_bytes"
    r"|add_expected_bytes|sync|arrive_all(_relaxed)?|wait_all|mma_async_wait|store_async_read_wait"
    r"|store_async_wait|fence_async_proxy|arrive_last|pass_turn|await_turn|wait_dependency|put_async"
    r"|send_fragment|mma_fence|mma_commit_group)"
    r"(<[^<>()]*>)?\("
)


def _calls() -> Iterator[tuple[str, int]]:
    """The file and line of every call of a synchronisation operation in the kernel's sources."""
    folder = host_programs.ROOT / "cpp"
    sources: list[Path] = [
        *sorted((folder / "include" / "tk" / "block").glob("*.hpp")),
        *sorted((folder / "kernels" / "gemm").glob("*.hpp")),
    ]
    for source in sources:
        for number, line in enumerate(source.read_text().splitlines(), start=1):
            code = line.split("//")[0]
            if _CALL.search(code) and "TK_DEVICE" not in code:
                yield source.name, number


def test_the_cases_pass_every_synchronisation_in_the_source() -> None:
    passed = {(site.file, site.line) for name in CASES for site in _sites(name)}
    assert set(_calls()) - passed == set()


@pytest.mark.parametrize("operation", ["wait", "mma_async_wait", "group::sync"])
def test_thread_sanitizer_sees_it_without_the_machine_s_own_log(operation: str) -> None:
    """Two witnesses that share nothing: the log of accesses, and ThreadSanitizer."""
    sites = [site for site in _sites("user") if site.operation == operation]
    assert sites
    for site in sites:
        assert _verdict("user", site, flavour="thread", check=False) != "ok", site.text
