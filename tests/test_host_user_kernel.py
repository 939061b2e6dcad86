"""A small kernel as users write them, right and with each of the usual faults: public report 61, "a
missing wait after an asynchronous matrix product gave results that changed from run to run; a
barrier fault showed only with more than one block"."""

from __future__ import annotations

import re

import host_programs
import pytest

_PROGRAM = "host_user_kernel"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.prepare(host_programs.start_builds, [(_PROGRAM, "plain"), (_PROGRAM, "thread")]),
]
_GRIDS = ["1", "4"]

# What a hang says: which warp waits for which barrier in which phase.
_HANG = re.compile(
    r"deadlock: .*warp 0 of block \d waits for empty\[\d\], phase [01] .*"
    r"warps 4-7 of block \d wait for full\[\d\], phase [01] \(.*bytes outstanding\)"
)
_FAULTS = {
    "product_wait": None,  # a NaN, or an access that nothing orders
    "load_wait": None,
    "too_many_bytes": _HANG,
    "too_few_bytes": _HANG,
    "early_release": None,
}


@pytest.mark.parametrize("grid", _GRIDS)
@pytest.mark.parametrize("flavour", ["plain", "thread"])
def test_the_right_kernel_is_right_and_without_races(flavour: str, grid: str) -> None:
    for seed in ("1", "2"):
        environment = {"TK_HOST_SEED": seed, "TK_HOST_DELAY": "100"}
        done = host_programs.run(_PROGRAM, flavour, "none", grid, environment=environment)
        assert (done.stdout, done.stderr, done.returncode) == ("ok\n", "", 0)


@pytest.mark.parametrize("grid", _GRIDS)
@pytest.mark.parametrize("fault", _FAULTS)
def test_every_fault_is_caught_on_every_run(fault: str, grid: str) -> None:
    for seed in range(5):
        environment = {"TK_HOST_SEED": str(seed), "TK_HOST_DELAY": str(50 * seed)}
        done = host_programs.run(_PROGRAM, "plain", fault, grid, environment=environment)
        assert done.stdout.startswith(("wrong", "error")), done.stdout
        message = _FAULTS[fault]
        assert message is None or message.search(done.stdout), done.stdout


def test_a_race_is_seen_by_thread_sanitizer_alone() -> None:
    done = host_programs.run(
        _PROGRAM, "thread", "early_release", "4", environment={"TK_HOST_CHECK": "0"}
    )
    assert "ThreadSanitizer: data race" in done.stderr
