"""``tk plan gemm``, ``tk bench gemm`` and the options of ``tk tune gemm``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tk import cli_tune
from tk.cli_common import CommandError, UsageError, check_writable, in_words
from tk.cli_planning import (
    DEFAULT_DEVICE,
    DTYPES,
    add_families,
    add_family,
    add_gemm,
    add_product,
    duration,
    instances,
    measuring_device,
    named_device,
    plan_of,
    size,
)

if TYPE_CHECKING:
    from tk.benchmarks.gemm import Progress as Report
    from tk.benchmarks.record import Record
    from tk.benchmarks.shapes import Shape
    from tk.cli_common import Commands

HOST_BUDGET_SECONDS = 30.0
HOST_SECONDS_EACH = 0.2
QUICK_SECONDS_EACH = 0.03


def add_parsers(commands: Commands) -> None:
    """Adds the three commands."""
    plan = add_family(commands, "plan", "how a product would be run, and why")
    add_product(plan)
    plan.add_argument(
        "--json", metavar="FILE", help="save the plan; tk.schedulers.Plan.load reads it"
    )
    plan.set_defaults(run=_plan)

    bench = add_family(commands, "bench", "measure against torch.matmul, outputs checked first")
    _add_common(bench)
    bench.add_argument("--quick", action="store_true", help="a dozen shapes instead of 42")
    bench.add_argument("--graph", action="store_true", help="time inside CUDA graphs")
    bench.add_argument(
        "--flush",
        choices=("read", "write", "none"),
        default="read",
        help="how the L2 cache is emptied before each call: by reading (default), by writing, as "
        "triton.testing.do_bench does, which leaves it to be written back, or not at all",
    )
    bench.add_argument("--seconds", type=duration, help="GPU time for each candidate")
    bench.set_defaults(run=_bench)

    tuning = add_families(commands, "tune", "measure many plans of each shape, keep the fastest")
    cli_tune.add_store_parsers(tuning)
    tune = add_gemm(tuning, "measure many plans of each shape on this GPU")
    _add_common(tune)
    tune.add_argument("--candidates", type=size, default=24, help="plans a shape (default 24)")
    tune.add_argument("--seconds", type=duration, default=0.015, help="GPU time for each plan")
    tune.add_argument(
        "--measurements", metavar="FILE", help="write the flat list of measurements as JSON"
    )
    tune.add_argument(
        "--no-store", action="store_true", help="do not keep the fastest for tk.matmul to use"
    )
    tune.set_defaults(run=cli_tune.tune)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="cuda or cuda:N to measure there; a name such as h200 to run the host architecture "
        "and predict for that device; default: this GPU, else h200",
    )
    parser.add_argument("--shapes", metavar="MxNxK,...", type=_shapes, help="instead of the suite")
    parser.add_argument(
        "--layouts", type=_layouts, default=["nt", "nn"], help="of nt,nn,tn,tt; default nt,nn"
    )
    parser.add_argument("--json", metavar="FILE", help="save the record")


def _plan(options: argparse.Namespace, console: Console) -> int:
    from tk.reports.plan import render

    check_writable(options.json)
    plan = plan_of(options)
    console.print(render(plan, console))
    if options.json is not None:
        try:
            plan.save(options.json)
        except OSError as error:
            raise CommandError(in_words(error)) from error
    return 0


def _bench(options: argparse.Namespace, console: Console) -> int:
    from tk.benchmarks import gemm, shapes
    from tk.reports.show import render

    check_writable(options.json)
    cuda = measuring_device(options.device, console)
    chosen = options.shapes or (shapes.quick() if options.quick else shapes.suite())
    settings = gemm.Settings(
        chosen,
        options.layouts,
        options.dtype,
        seconds=options.seconds or (QUICK_SECONDS_EACH if options.quick else 0.1),
        graph=options.graph,
        flush=options.flush,
    )
    if cuda is not None:
        with progress_bar(console, "measuring") as report:
            record = gemm.run(settings, cuda, progress=report)
    else:
        if options.graph:
            raise UsageError("--graph needs a GPU")
        record = _bench_without_gpu(options, settings, console)
    console.print(render(record, console))
    save_record(record, options.json, console)
    return 1 if record.wrong_rows() else 0


def _bench_without_gpu(options: argparse.Namespace, settings: Any, console: Console) -> Record:
    """Products on the host architecture, then predictions for a device that is not here."""
    import torch

    from tk.benchmarks import gemm, shapes

    device = named_device(options.device or DEFAULT_DEVICE)
    table = instances()
    on_host = replace(
        settings,
        shapes=options.shapes or shapes.host(),
        seconds=options.seconds or HOST_SECONDS_EACH,
        budget_seconds=HOST_BUDGET_SECONDS,
    )
    with progress_bar(console, "running the host architecture") as report:
        record = gemm.run(on_host, torch.device("cpu"), progress=report)
    # The layouts' plans differ little: the first stands for all.
    to_predict = replace(settings, layouts=settings.layouts[:1])
    with progress_bar(console, f"planning for {device.name}") as report:
        predicted = gemm.predict(to_predict, device, table, progress=report)
    return replace(record, rows=record.rows + predicted, predicted_for=device.name)


def save_record(record: Record, path: str | None, console: Console) -> None:
    """Writes a record where one is asked for; CommandError when it cannot be."""
    if path is None:
        return
    try:
        record.save(path)
    except OSError as error:
        raise CommandError(in_words(error)) from error
    console.print(f"saved; tk report show {path} prints it again", style="dim", markup=False)


@contextmanager
def progress_bar(console: Console, text: str) -> Iterator[Report]:
    """A bar that shows how far the work is, on a terminal; elsewhere nothing."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} {task.fields[step]}"),
        TimeElapsedColumn(),
    )
    silent = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as progress:
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
