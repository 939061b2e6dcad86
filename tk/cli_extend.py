"""``tk new`` and ``tk flags``: a project to start a kernel of one's own from, and the compiler's
flags for one compiled by hand."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tk.cli_common import CommandError, UsageError

if TYPE_CHECKING:
    from tk.cli_common import Commands


def add_parsers(commands: Commands) -> None:
    """Adds the commands."""
    new = commands.add_parser("new", help="a small project: a kernel, its binding, its test")
    new.add_argument("name", metavar="NAME", help="a Python identifier in lower case")
    new.add_argument("--directory", metavar="D", help="where to write it (default: ./NAME)")
    new.set_defaults(run=_new)
    flags = commands.add_parser("flags", help="the flags to compile a kernel by hand")
    flags.add_argument("arch", metavar="ARCH", nargs="?", choices=("host", "sm90"), default="host")
    flags.set_defaults(run=_flags)


def _new(options: argparse.Namespace, console: Console) -> int:
    from tk.extension.project import check_name, write_project

    try:
        check_name(options.name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    folder = Path(options.directory or options.name)
    try:
        files = write_project(options.name, folder)
    except FileExistsError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror}") from None
    for path in files:
        console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    shown = shlex.quote(str(folder))
    console.print(
        f"Try it: python -m pytest {shown}", markup=False, highlight=False, soft_wrap=True
    )
    return 0


def _flags(options: argparse.Namespace, console: Console) -> int:
    from tk.extension import MissingToolError
    from tk.extension.compiler import compiler_for

    try:
        flags = compiler_for(options.arch).flags
    except MissingToolError as error:
        raise CommandError(str(error)) from None
    more = ["-pthread"] if options.arch == "host" else []
    # for $(...): one line, never wrapped
    console.print(shlex.join([*flags, *more]), markup=False, highlight=False, soft_wrap=True)
    return 0
