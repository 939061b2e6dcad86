"""``tk report``: draws records that ``tk bench`` or ``tk tune`` saved, and compares them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rich.console import Console

from tk.cli_common import CommandError, in_words

if TYPE_CHECKING:
    from tk.benchmarks.record import Record
    from tk.cli_common import Commands

RECORD = "what --json of tk bench or tk tune wrote"


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    report = commands.add_parser("report", help="draw and compare saved records")
    actions = report.add_subparsers(dest="action", metavar="ACTION", required=True)

    show = actions.add_parser("show", help="print the tables of a record")
    show.add_argument("file", metavar="FILE", help=RECORD)
    show.set_defaults(run=_show)

    compare = actions.add_parser("compare", help="two records row by row, noise considered")
    compare.add_argument("first", metavar="A", help=f"the older record: {RECORD}")
    compare.add_argument("second", metavar="B", help="the newer record")
    compare.add_argument(
        "--fail-above",
        metavar="PERCENT",
        type=_percent,
        help="exit with 1 when something became slower beyond the spread by more than this, or "
        "wrong",
    )
    compare.add_argument(
        "--by",
        choices=("time", "ratio"),
        default="time",
        help="what counts: the time (default), or the ratio to the rival in the same record, "
        "which a change of clocks or of the machine moves less",
    )
    compare.set_defaults(run=_compare)


def _show(options: argparse.Namespace, console: Console) -> int:
    from tk.benchmarks.record import RecordError
    from tk.reports.show import render

    record = load(options.file)
    try:
        console.print(render(record, console))
    except RecordError as error:
        raise CommandError(f"{options.file}: {error}") from error
    return 0


def _compare(options: argparse.Namespace, console: Console) -> int:
    from tk.benchmarks.record import RecordError
    from tk.reports.compare import compare, render
    from tk.reports.names import problem_text

    first, second = load(options.first), load(options.second)
    try:
        found = compare(first, second)
    except RecordError as error:
        raise CommandError(error) from error
    console.print(render(found, console, (options.first, options.second), options.by))
    if options.fail_above is None:
        return 0
    regressions = found.regressions(options.fail_above, options.by)
    words = f"slower beyond the spread by more than {options.fail_above:g}%, or broken"
    if not regressions:
        console.print(f"nothing became {words}", style="green")
        return 0
    names = ", ".join(f"{problem_text(c.row)} {c.row.layout}" for c in regressions)
    console.print(f"{len(regressions)} became {words}: {names}", style="red", markup=False)
    return 1


def load(path: str) -> Record:
    """A record; CommandError in one line when the file holds none that can be read."""
    from tk.benchmarks.record import Record, RecordError

    try:
        return Record.load(path)
    except OSError as error:
        raise CommandError(in_words(error)) from error
    except RecordError as error:
        raise CommandError(error) from error


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no percentage of 0 or more")
    return value
