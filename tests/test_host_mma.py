"""Matrix products on the host architecture: every name, layout and dtype at both scopes against
plain sums, and what the machine says of their misuse."""

from __future__ import annotations

import host_programs
import pytest

_PROGRAM = "host_mma_check"
_FLAVOURS = ["plain", "thread"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.prepare(host_programs.start_builds, [(_PROGRAM, name) for name in _FLAVOURS]),
]


@pytest.mark.parametrize("flavour", _FLAVOURS)
def test_every_product_is_right_and_every_misuse_is_named(flavour: str) -> None:
    names = host_programs.run(_PROGRAM, flavour, "list").stdout.split()
    assert len(names) > 10
    # Some of the misuses are races, which both the machine and ThreadSanitizer report.
    environment = {"TSAN_OPTIONS": "exitcode=0"}
    done = host_programs.run(_PROGRAM, flavour, *names, timeout=300, environment=environment)
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr
