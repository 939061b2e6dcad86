"""``tk report show FILE``: draws a record that ``tk bench`` or ``tk tune`` saved."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rich.console import Console

from tk.cli_common import CommandError, in_words

if TYPE_CHECKING:
    from tk.cli_common import Commands


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    report = commands.add_parser("report", help="draw a saved record")
    actions = report.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="print the tables of a record")
    show.add_argument("file", metavar="FILE", help="what --json of tk bench or tk tune wrote")
    show.set_defaults(run=_show)


def _show(options: argparse.Namespace, console: Console) -> int:
    from tk.benchmarks.record import Record, RecordError
    from tk.reports.show import render

    try:
        console.print(render(Record.load(options.file), console))
    except OSError as error:
        raise CommandError(in_words(error)) from error
    except RecordError as error:
        raise CommandError(error) from error
    return 0
