"""The host architecture's emulated machine: its operations, its messages, and its layouts against
the swizzle that the hardware documents."""

from __future__ import annotations

import host_programs
import pytest

_PROGRAMS = ["host_machine_check", "host_tile_check", "host_tma_check", "host_sync_check"]
_FLAVOURS = ["plain", "thread"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.prepare(
        host_programs.start_builds,
        [(program, flavour) for flavour in _FLAVOURS for program in _PROGRAMS]
        + [("host_swizzle_check", "plain")],
    ),
]

# ThreadSanitizer does not support new threads in a child of a process with several.
# Launches with an operation left out are many, and judged by the machine alone.
_NOT_UNDER_THREAD = {
    "a_forked_child_can_launch",
    "every_operation_left_out_is_noticed",
    "every_operation_of_cluster_copies_left_out_is_noticed",
}


@pytest.mark.parametrize("program", _PROGRAMS)
@pytest.mark.parametrize("flavour", _FLAVOURS)
def test_every_operation_does_what_it_says_and_every_misuse_is_named(
    program: str, flavour: str
) -> None:
    names = host_programs.run(program, flavour, "list").stdout.split()
    assert len(names) > 10
    if flavour == "thread":
        names = [name for name in names if name not in _NOT_UNDER_THREAD]
    # Some of the misuses are races, which both the machine and ThreadSanitizer report.
    environment = {"TSAN_OPTIONS": "exitcode=0"}
    done = host_programs.run(program, flavour, *names, environment=environment)
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr


def test_every_swizzled_layout_is_the_hardware_s() -> None:
    done = host_programs.run("host_swizzle_check", "plain")
    assert "WRONG" not in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    widths = {line.split("swizzle ")[1].split(":")[0] for line in done.stdout.splitlines()}
    assert widths == {"32", "64", "128"}
