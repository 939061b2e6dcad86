"""``tk plan gemm`` and ``tk tune gemm``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from tk.cli_common import CommandError, UsageError, check_writable, in_words
from tk.cli_measure import (
    DTYPES,
    add_common,
    add_family,
    duration,
    instance_table,
    measuring_device,
    planning_device,
    progress_bar,
    save_record,
    whole_number,
)

if TYPE_CHECKING:
    from tk.cli_common import Commands


def add_parsers(commands: Commands) -> None:
    """Adds both commands."""
    plan = add_family(commands, "plan", "how a product would be run, and why")
    for size, meaning in (("m", "rows of a"), ("n", "columns of b"), ("k", "depth")):
        plan.add_argument(size, metavar=size.upper(), type=whole_number, help=meaning)
    plan.add_argument("--batch", type=whole_number, default=1, help="products in one call")
    plan.add_argument("--out-dtype", choices=(*DTYPES, "fp32"), help="default: that of --dtype")
    add_common(plan, layouts=False)
    plan.add_argument("--layout", default="nt", help="nt (a @ w.t(), the default), nn, tn or tt")
    plan.set_defaults(run=_plan)

    tune = add_family(commands, "tune", "measure many plans of each shape on this GPU")
    add_common(tune, layouts=True)
    tune.add_argument(
        "--candidates", type=whole_number, default=24, help="plans a shape (default 24)"
    )
    tune.add_argument("--seconds", type=duration, default=0.015, help="GPU time for each plan")
    tune.add_argument(
        "--measurements", metavar="FILE", help="write the flat list of measurements as JSON"
    )
    tune.set_defaults(run=_tune)


def _plan(options: argparse.Namespace, console: Console) -> int:
    from tk.benchmarks.operands import parse_layouts, problem_of
    from tk.benchmarks.shapes import Shape
    from tk.reports.plan import render
    from tk.schedulers import plan_gemm

    device = planning_device(options.device)
    try:
        layouts = parse_layouts(options.layout)
        problem = replace(
            problem_of(Shape(options.m, options.n, options.k), layouts[0], options.dtype),
            batch=options.batch,
            out_dtype=options.out_dtype or options.dtype,
        )
        plan = plan_gemm(problem, device, instance_table())
    except ValueError as error:
        raise UsageError(error) from error
    console.print(render(plan, console))
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
