"""The block templates on the host architecture: small kernels of lcf and lcsf over ring depths,
consumers, turns, finish blocks, schedulers and clusters, plain and clean under sanitizers."""

from __future__ import annotations

import re

import host_programs
import pytest

_PROGRAM = "host_templates_check"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.prepare(
        host_programs.start_builds, [(_PROGRAM, flavour) for flavour in host_programs.FLAVOURS]
    ),
]

# What each is there for: `kernels` in tests/cpp/template_cases.hpp.
_KERNELS = [
    "least_map",
    "least_sum",
    "map_cluster_queue",
    "map_once",
    "map_table",
    "map_turns",
    "sum_cluster_queue",
    "sum_gather",
    "sum_once",
    "sum_ordinary",
    "sum_table",
    "sum_turns",
]


def test_every_kernel_of_the_program_is_tested() -> None:
    assert host_programs.run(_PROGRAM, "plain", "list").stdout.split() == _KERNELS


@pytest.mark.parametrize("kernel", _KERNELS)
@pytest.mark.parametrize("flavour", host_programs.FLAVOURS)
def test_the_results_are_exact_and_the_sanitizers_are_silent(flavour: str, kernel: str) -> None:
    done = host_programs.run(_PROGRAM, flavour, "all", kernel)
    verdicts = [line.rpartition(": ")[2] for line in done.stdout.splitlines()]
    assert verdicts
    assert set(verdicts) == {"ok"}, done.stdout
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", ["map_turns", "sum_turns", "map_cluster_queue"])
def test_no_order_of_events_changes_the_results(kernel: str, seed: int) -> None:
    environment = {"TK_HOST_SEED": str(seed), "TK_HOST_DELAY": str(100 + 100 * seed)}
    done = host_programs.run(_PROGRAM, "plain", "all", kernel, environment=environment)
    assert done.returncode == 0, done.stdout


_REFUSED = {
    "kernel=sum_turns,stages=0": "num_stages is 0; it must be between 1 and 5",
    "kernel=sum_turns,stages=6": "num_stages is 6; it must be between 1 and 5",
    "kernel=map_turns,outputs=6": "num_output_stages is 6; it must be between 1 and 5",
    "kernel=sum_turns,cluster=2,grid=3": "a grid of 3 blocks is not made of clusters of 2",
    "kernel=sum_turns,cluster=2,queue=1": "use queue_scheduler<true>",
    "kernel=sum_cluster_queue": "no counter to draw from",
    "kernel=sum_table": "no table",
    "kernel=sum_once,tasks=3,grid=2": "it must be tasks x blocks of a cluster",
}


@pytest.mark.parametrize("case", _REFUSED)
def test_a_launch_that_cannot_work_is_refused_before_it_starts(case: str) -> None:
    done = host_programs.run(_PROGRAM, "plain", case)
    assert done.stdout.startswith(f"{case}: error: ")
    assert _REFUSED[case] in done.stdout


def test_the_examples_of_the_documentation_compile() -> None:
    page = (host_programs.ROOT / "docs" / "templates.md").read_text()
    examples = re.findall(r"```cpp\n(.*?)```", page, flags=re.DOTALL)
    assert len(examples) == 2
    assert host_programs.syntax_errors("\n".join(examples)) == ""
