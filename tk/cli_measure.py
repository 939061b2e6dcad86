"""What commands that measure share: their arguments, progress, and saving a record."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tk.cli_common import CommandError, in_words
from tk.cli_planning import DTYPES, duration, size

if TYPE_CHECKING:
    from tk.benchmarks.record import Record
    from tk.benchmarks.running import Progress as Report
    from tk.benchmarks.shapes import Shape
    from tk.schedulers import Plan

ESTIMATE_SECONDS = 3600.0  # the time left is estimated from all steps of so long


def add_common(parser: argparse.ArgumentParser, device: str) -> None:
    """Adds which products are measured, where (`device` says what can be named), and the file of
    the record."""
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--device", metavar="NAME", help=device)
    parser.add_argument("--shapes", metavar="MxNxK,...", type=_shapes, help="instead of the suite")
    parser.add_argument(
        "--layouts", type=_layouts, default=["nt", "nn"], help="of nt,nn,tn,tt; default nt,nn"
    )
    parser.add_argument("--json", metavar="FILE", help="save the record")


def add_timing(parser: argparse.ArgumentParser) -> None:
    """Adds how the candidates of a suite are timed, and the file of the record."""
    parser.add_argument("--graph", action="store_true", help="time inside CUDA graphs")
    parser.add_argument(
        "--flush",
        choices=("read", "write", "none"),
        default="read",
        help="how the L2 cache is emptied before each call",
    )
    parser.add_argument("--seconds", type=duration, help="GPU time for each candidate")
    parser.add_argument("--json", metavar="FILE", help="save the record")


def add_sweep(parser: argparse.ArgumentParser) -> None:
    """Adds how many plans of each shape are measured, and for how long."""
    parser.add_argument("--candidates", type=size, default=24, help="plans a shape (default 24)")
    parser.add_argument("--seconds", type=duration, default=0.015, help="GPU time for each plan")


def save_record(record: Record, path: str | None, console: Console) -> None:
    """Saves a record where it was asked for, and says how to see it again."""
    if path is None:
        return
    try:
        record.save(path)
    except OSError as error:
        raise CommandError(in_words(error)) from error
    console.print(f"saved; tk report show {path} prints it again", style="dim", markup=False)


def save_plan(plan: Plan, path: str | None) -> None:
    """Saves a plan where it was asked for."""
    if path is None:
        return
    try:
        plan.save(path)
    except OSError as error:
        raise CommandError(in_words(error)) from error


@contextmanager
def progress_bar(console: Console, text: str) -> Iterator[Report]:
    """A bar with the steps done and the time left, on a terminal; elsewhere nothing."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} {task.fields[step]}"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(compact=True),
    )
    bar = Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        speed_estimate_period=ESTIMATE_SECONDS,
    )
    with bar as progress:
        task = progress.add_task(text, total=None, step="")

        def report(done: int, total: int, step: str) -> None:
            progress.update(task, completed=done, total=total, step=step)

        yield report


def _shapes(text: str) -> list[Shape]:
    from tk.benchmarks.shapes import parse

    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _layouts(text: str) -> list[str]:
    from tk.benchmarks.operands import parse_layouts

    try:
        return parse_layouts(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
