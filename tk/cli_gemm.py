"""``tk plan gemm`` and ``tk tune gemm``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rich.console import Console

from tk.cli_common import CommandError, check_writable, in_words
from tk.cli_measure import add_common, progress_bar, save_record
from tk.cli_planning import (
    add_family,
    add_product,
    duration,
    measuring_device,
    plan_of,
    size,
)

if TYPE_CHECKING:
    from tk.cli_common import Commands


def add_parsers(commands: Commands) -> None:
    """Adds both commands."""
    plan = add_family(commands, "plan", "how a product would be run, and why")
    add_product(plan)
    plan.set_defaults(run=_plan)

    tune = add_family(commands, "tune", "measure many plans of each shape on this GPU")
    add_common(tune)
    tune.add_argument("--candidates", type=size, default=24, help="plans a shape (default 24)")
    tune.add_argument("--seconds", type=duration, default=0.015, help="GPU time for each plan")
    tune.add_argument(
        "--measurements", metavar="FILE", help="write the flat list of measurements as JSON"
    )
    tune.set_defaults(run=_tune)


def _plan(options: argparse.Namespace, console: Console) -> int:
    from tk.reports.plan import render

    console.print(render(plan_of(options), console))
    return 0


def _tune(options: argparse.Namespace, console: Console) -> int:
    from tk.benchmarks import sweep
    from tk.reports.show import render

    check_writable(options.json)
    check_writable(options.measurements)
    cuda = measuring_device(options.device, console)
    if cuda is None:
        raise CommandError("no GPU is visible: plans can only be measured on one")
    settings = sweep.Settings(
        options.shapes or sweep.default_shapes(),
        options.layouts,
        options.dtype,
        seconds=options.seconds,
        candidates=options.candidates,
    )
    with progress_bar(console, "measuring plans") as report:
        record = sweep.run(settings, cuda, progress=report)
    console.print(render(record, console))
    save_record(record, options.json, console)
    if options.measurements is not None:
        try:
            sweep.save_measurements(record, options.measurements)
        except OSError as error:
            raise CommandError(in_words(error)) from error
    return 1 if record.wrong_rows() else 0
