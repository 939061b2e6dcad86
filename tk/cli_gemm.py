"""``tk plan gemm``, ``tk bench gemm`` and the options of ``tk tune gemm``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tk import cli_tune
from tk.cli_common import CommandError, UsageError, check_writable, in_words

if TYPE_CHECKING:
    import torch

    from tk.benchmarks.gemm import Progress as Report
    from tk.benchmarks.record import Record
    from tk.benchmarks.shapes import Shape
    from tk.cli_common import Commands
    from tk.schedulers import Device, Instance

DEFAULT_DEVICE = "h200"
DTYPES = ("bf16", "fp16")
HOST_BUDGET_SECONDS = 30.0
HOST_SECONDS_EACH = 0.2
QUICK_SECONDS_EACH = 0.03


def add_parsers(commands: Commands) -> None:
    """Adds the three commands."""
    plan = _family(commands, "plan", "how a product would be run, and why")
    for size, meaning in (("m", "rows of a"), ("n", "columns of b"), ("k", "depth")):
        plan.add_argument(size, metavar=size.upper(), type=_size, help=meaning)
    plan.add_argument("--batch", type=_size, default=1, help="products in one call")
    plan.add_argument("--out-dtype", choices=(*DTYPES, "fp32"), help="default: that of --dtype")
    _add_common(plan, layouts=False)
    plan.add_argument("--layout", default="nt", help="nt (a @ w.t(), the default), nn, tn or tt")
    plan.add_argument(
        "--json", metavar="FILE", help="save the plan; tk.schedulers.Plan.load reads it"
    )
    plan.set_defaults(run=_plan)

    bench = _family(commands, "bench", "measure against torch.matmul, outputs checked first")
    _add_common(bench, layouts=True)
    bench.add_argument("--quick", action="store_true", help="a dozen shapes instead of 42")
    bench.add_argument("--graph", action="store_true", help="time inside CUDA graphs")
    bench.add_argument(
        "--flush",
        choices=("read", "write", "none"),
        default="read",
        help="how the L2 cache is emptied before each call: by reading (default), by writing, as "
        "triton.testing.do_bench does, which leaves it to be written back, or not at all",
    )
    bench.add_argument("--seconds", type=_duration, help="GPU time for each candidate")
    bench.set_defaults(run=_bench)

    tuning = _families(commands, "tune", "measure many plans of each shape, and keep the fastest")
    cli_tune.add_store_parsers(tuning)
    tune = _add_gemm(tuning, "measure many plans of each shape on this GPU")
    _add_common(tune, layouts=True)
    tune.add_argument("--candidates", type=_size, default=24, help="plans a shape (default 24)")
    tune.add_argument("--seconds", type=_duration, default=0.015, help="GPU time for each plan")
    tune.add_argument(
        "--measurements", metavar="FILE", help="write the flat list of measurements as JSON"
    )
    tune.add_argument(
        "--no-store", action="store_true", help="do not keep the fastest for tk.matmul to use"
    )
    tune.set_defaults(run=cli_tune.tune)


def _family(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    """The parser of ``tk NAME gemm``; other families of kernels will stand beside it."""
    return _add_gemm(_families(commands, name, text), text)


def _families(commands: Commands, name: str, text: str) -> Commands:
    command = commands.add_parser(name, help=text)
    return command.add_subparsers(dest="family", metavar="FAMILY", required=True)


def _add_gemm(families: Commands, text: str) -> argparse.ArgumentParser:
    return families.add_parser("gemm", help="the matrix product", description=text)


def _add_common(parser: argparse.ArgumentParser, *, layouts: bool) -> None:
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    if not layouts:
        parser.add_argument(
            "--device", metavar="NAME", help="for which to plan; default: this GPU, else h200"
        )
        return
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
    from tk.benchmarks.operands import parse_layouts, problem_of
    from tk.benchmarks.shapes import Shape
    from tk.reports.plan import render
    from tk.schedulers import plan_gemm

    check_writable(options.json)
    device = _planning_device(options.device)
    try:
        layouts = parse_layouts(options.layout)
        problem = replace(
            problem_of(Shape(options.m, options.n, options.k), layouts[0], options.dtype),
            batch=options.batch,
            out_dtype=options.out_dtype or options.dtype,
        )
        plan = plan_gemm(problem, device, _instances())
    except ValueError as error:
        raise UsageError(error) from error
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

    device = _named_device(options.device or DEFAULT_DEVICE)
    instances = _instances()
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
        predicted = gemm.predict(to_predict, device, instances, progress=report)
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


def measuring_device(name: str | None, console: Console) -> torch.device | None:
    """The GPU to measure on, None to do without one."""
    from tk import runtime

    device = _cuda_device(name)
    if device is None:
        return None
    try:
        runtime.backend(device)
    except (OSError, RuntimeError, ValueError) as error:
        if name is not None:
            raise CommandError(error) from error
        console.print(f"the GPU is not used: {error}", style="yellow", markup=False)
        return None
    return device


def _cuda_device(name: str | None) -> torch.device | None:
    """The GPU of that name, or the present one; None when another device is named or none is here.

    UsageError when the GPU named is not there.
    """
    import torch

    if name is not None and not name.startswith("cuda"):
        return None
    if not torch.cuda.is_available():
        if name is not None:
            raise UsageError(f"--device {name}: no GPU is visible (tk doctor says more)")
        return None
    try:
        device = torch.device(name or "cuda")
    except RuntimeError as error:
        raise UsageError(f"--device {name}: write cuda or cuda:N") from error
    if name is None or ":" not in name:
        device = torch.device("cuda", torch.cuda.current_device())
    if device.index >= torch.cuda.device_count():
        raise UsageError(f"--device {name}: there are {torch.cuda.device_count()} GPUs")
    return device


def _instances() -> Sequence[Instance]:
    """The instance table, which is the same in every library of a build."""
    from tk import runtime

    try:
        return runtime.instances("host" if runtime.has_library("host") else "cuda")
    except (OSError, RuntimeError) as error:
        raise CommandError(error) from error


def _planning_device(name: str | None) -> Device:
    """The device of a plan: named, or this GPU, or the default."""
    from tk import runtime

    cuda = _cuda_device(name)
    if cuda is None:
        return _named_device(name or DEFAULT_DEVICE)
    try:
        return runtime.device(cuda)
    except ValueError as error:
        if name is not None:
            raise UsageError(error) from error
        return _named_device(DEFAULT_DEVICE)


def _named_device(name: str) -> Device:
    from tk.schedulers import Device

    try:
        return Device.named(name)
    except ValueError as error:
        raise UsageError(error) from error


def _size(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)


def _duration(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 3600:
        raise argparse.ArgumentTypeError(f"'{text}' is no time in seconds above 0")
    return value


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
