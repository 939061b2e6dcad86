"""``tk report``: draws, compares and exports records that ``tk bench`` or ``tk tune`` saved."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tk.cli_common import CommandError, UsageError, check_writable, in_words

if TYPE_CHECKING:
    from tk.benchmarks.record import Record
    from tk.cli_common import Commands

RECORD = "what --json of tk bench or tk tune wrote"
KINDS = ("csv", "md", "html", "png", "svg")  # of tk.reports.export, which need not be imported
PLOTS = ("ratios", "roofline")


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    report = commands.add_parser("report", help="draw, compare and export saved records")
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

    export = actions.add_parser("export", help="write a record as CSV, Markdown, HTML or a plot")
    export.add_argument("file", metavar="FILE", help=RECORD)
    export.add_argument(
        "--to",
        choices=KINDS,
        help="csv: all figures, bare numbers; md: a table; html: one page that needs nothing else; "
        "png, svg: plots; default: what the name after -o ends in",
    )
    export.add_argument(
        "-o", "--output", metavar="OUT", help="default: print texts, FILE's name.png or .svg"
    )
    _add_plots(export)
    export.set_defaults(run=_export)

    plot = actions.add_parser("plot", help="plots in the terminal: ratios, roofline")
    plot.add_argument("file", metavar="FILE", help=RECORD)
    _add_plots(plot)
    plot.set_defaults(run=_plot)

    paper = actions.add_parser(
        "paper", help="ThunderKittens' experiments beside the paper's figures"
    )
    paper.add_argument(
        "files", metavar="FILE", nargs="+", help="what --json of tk bench paper or gemm wrote"
    )
    paper.add_argument("--to", choices=("text", "md"), default="text", help="default: text")
    paper.set_defaults(run=_paper)


def _add_plots(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plot", choices=("all", *PLOTS), default="all", help="which plot; default: all"
    )


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
    from tk.reports.lines import problem_text

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


def _export(options: argparse.Namespace, console: Console) -> int:
    from tk.benchmarks.record import RecordError
    from tk.reports.export import TEXT_KINDS, export
    from tk.reports.figures import NoPlotting

    suffix = Path(options.output or "").suffix.removeprefix(".").lower()
    kind = options.to or {"markdown": "md", "htm": "html"}.get(suffix, suffix)
    if kind not in KINDS:
        raise UsageError(f"say what to write: --to {'|'.join(KINDS)}, or -o FILE.html")
    output = options.output
    if output is None and kind not in TEXT_KINDS:
        output = Path(options.file).with_suffix(f".{kind}").name
    check_writable(output)
    record = load(options.file)
    try:
        content = export(record, kind, _plots(options))
    except RecordError as error:
        raise CommandError(f"{options.file}: {error}") from error
    except NoPlotting as error:
        raise CommandError(error) from error
    if output is None:
        print_text(content.decode("utf-8"))
        return 0
    try:
        Path(output).write_bytes(content)
    except OSError as error:
        raise CommandError(in_words(error)) from error
    console.print(f"wrote {output}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _plot(options: argparse.Namespace, console: Console) -> int:
    from tk.benchmarks.record import RecordError
    from tk.reports.chart import chart_of
    from tk.reports.terminal import render

    record = load(options.file)
    try:
        chart = chart_of(record)
    except RecordError as error:
        raise CommandError(f"{options.file}: {error}") from error
    console.print(render(chart, console, _plots(options)))
    return 0


def _paper(options: argparse.Namespace, console: Console) -> int:
    from tk.reports import paper

    records = [load(path) for path in options.files]
    if options.to == "md":
        print_text(paper.to_markdown(records, options.files))
    else:
        console.print(paper.render(records, console, options.files))
    return 0


def _plots(options: argparse.Namespace) -> tuple[str, ...]:
    return PLOTS if options.plot == "all" else (options.plot,)


def print_text(text: str) -> None:
    """Writes text as it is, at once, so that a closed pipe shows here and not at the end."""
    sys.stdout.write(text)
    sys.stdout.flush()


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
