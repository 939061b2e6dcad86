"""docs/reports.md: every command is one that there is, and every field of a record is named."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from tk import cli
from tk.benchmarks.record import SCHEMA_VERSION, Record

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "reports.md").read_text()
COMMANDS = [
    line.split("#")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("tk ")
] + re.findall(r"\| `(tk report [^`]*)` \|", PAGE)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_is_understood(command: str) -> None:
    options = cli.build_parser().parse_args(shlex.split(command)[1:])
    assert callable(options.run)


def test_the_page_has_commands_of_every_kind_and_every_field_of_a_record() -> None:
    assert len(COMMANDS) >= 15
    actions = {" ".join(command.split()[1:3]) for command in COMMANDS}
    assert actions >= {f"report {each}" for each in ("show", "compare", "export", "plot", "paper")}
    assert actions >= {"bench gemm", "bench rivals", "bench paper"}
    for field in fields(Record):
        assert field.name == "schema" or f"`{field.name}`" in PAGE, field.name
    assert f"schema 1 and {SCHEMA_VERSION}" in PAGE
