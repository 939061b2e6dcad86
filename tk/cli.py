"""The command line: ``tk doctor``, ``tk plan``, ``tk bench``, ``tk tune``,
``tk schedule``, ``tk report``, ``tk new``, ``tk flags``.

Exit codes: 0, 1 when something failed (a wrong result, a file that cannot be read), 2 for
arguments that make no sense; the message is then one line on standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from tk.cli_common import CommandError, UsageError

if TYPE_CHECKING:
    from tk.cli_common import Commands

WIDTH_OF_NO_TERMINAL = 160  # columns for a file or a pipe, unless COLUMNS says otherwise


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message} ({self.prog} --help tells more)\n")
        raise SystemExit(2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as exit_:
        return int(exit_.code or 0)
    console = make_console()
    name = f"tk {options.command}"
    try:
        return int(options.run(options, console))
    except UsageError as error:
        return _complain(name, error, 2)
    except CommandError as error:
        return _complain(name, error, 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return _complain(name, "interrupted", 130)
    except (OSError, RuntimeError) as error:  # of torch and of the libraries: memory, a launch
        return _complain(name, error, 1)


def make_console() -> Console:
    """A console on standard output; a pipe or file gets lines wide enough for the tables."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return Console()
    return Console(width=WIDTH_OF_NO_TERMINAL)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each sets ``run(options, console) -> exit code``."""
    import tk
    from tk import (
        cli_bench,
        cli_calibrate,
        cli_doctor,
        cli_extend,
        cli_gemm,
        cli_report,
        cli_schedule,
    )

    parser = _Parser(prog="tk", description="Hopper kernels: what is here, plans, measurements.")
    parser.add_argument("--version", action="version", version=f"tk-cute {tk.__version__}")
    commands: Commands = parser.add_subparsers(  # type: ignore[assignment]
        dest="command", metavar="COMMAND", required=True
    )
    cli_doctor.add_parser(commands)
    cli_gemm.add_parsers(commands)
    cli_bench.add_parser(commands)
    cli_calibrate.add_parser(commands)
    cli_schedule.add_parser(commands)
    cli_report.add_parser(commands)
    cli_extend.add_parsers(commands)
    return parser


def _complain(name: str, error: object, code: int) -> int:
    text = " ".join(str(error).split())
    sys.stderr.write(f"{name}: {text}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
