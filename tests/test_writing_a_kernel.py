"""The eight steps of docs/writing-a-kernel.md: each is run, and the page shows what is run."""

from __future__ import annotations

import re
from pathlib import Path

import host_programs
import pytest

_PROGRAM = "writing_a_kernel"
_PAGE = host_programs.ROOT / "docs" / "writing-a-kernel.md"
_FOLDER = host_programs.ROOT / "examples" / _PROGRAM


def _shown(path: Path) -> str:
    """A step as the page shows it: without its heading comment, includes and namespace."""
    lines = path.read_text().splitlines()
    first = lines.index("TK_NAMESPACE_BEGIN") + 1
    return "\n".join(lines[first : lines.index("TK_NAMESPACE_END")]).strip()


def test_the_page_shows_the_steps_as_they_are_run() -> None:
    blocks = dict(re.findall(r"<!-- (\S+\.hpp) -->\n+```cpp\n(.*?)\n```", _PAGE.read_text(), re.S))
    steps = sorted(_FOLDER.glob("step_*.hpp"))
    assert sorted(blocks) == [step.name for step in steps]
    for step in steps:
        assert blocks[step.name] == _shown(step), step.name


@pytest.mark.prepare(host_programs.start_builds, [(_PROGRAM, "plain")])
@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, 9))
@pytest.mark.parametrize("size", ["64 64 64", "200 328 136", "300 520 72"])
def test_every_step_is_right(step: int, size: str) -> None:
    done = host_programs.run(_PROGRAM, "plain", str(step), *size.split())
    assert (done.stdout.strip(), done.returncode) == ("ok", 0)


@pytest.mark.prepare(host_programs.start_builds, [(_PROGRAM, "thread")])
@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, 9))
def test_no_step_has_a_race(step: int) -> None:
    done = host_programs.run(_PROGRAM, "thread", str(step), "200", "328", "136")
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("ok", "", 0)
