"""What commands that measure or plan share: devices, arguments, progress, and saving a record."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
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

from tk.cli_common import CommandError, UsageError, in_words

if TYPE_CHECKING:
    import torch

    from tk.benchmarks.record import Record
    from tk.benchmarks.running import Progress as Report
    from tk.benchmarks.shapes import Shape
    from tk.cli_common import Commands
    from tk.schedulers import Device, Instance

DEFAULT_DEVICE = "h200"
DTYPES = ("bf16", "fp16")
ESTIMATE_SECONDS = 3600.0  # the time left is estimated from all steps of so long


def add_family(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    """The parser of ``tk NAME gemm``; other families of kernels will stand beside it."""
    command = commands.add_parser(name, help=text)
    families = command.add_subparsers(dest="family", metavar="FAMILY", required=True)
    return families.add_parser("gemm", help="the matrix product", description=text)


def add_common(parser: argparse.ArgumentParser, *, layouts: bool) -> None:
    """Adds dtype and device, and with ``layouts`` what measuring takes besides."""
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


def save_record(record: Record, path: str | None, console: Console) -> None:
    """Saves a record where it was asked for, and says how to see it again."""
    if path is None:
        return
    try:
        record.save(path)
    except OSError as error:
        raise CommandError(in_words(error)) from error
    console.print(f"saved; tk report show {path} prints it again", style="dim", markup=False)


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
    silent = not console.is_terminal
    bar = Progress(
        *columns,
        console=console,
        transient=True,
        disable=silent,
        speed_estimate_period=ESTIMATE_SECONDS,
    )
    with bar as progress:
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


def instance_table() -> Sequence[Instance]:
    """The instance table, which is the same in every library of a build."""
    from tk import runtime

    try:
        return runtime.instances("host" if runtime.has_library("host") else "cuda")
    except (OSError, RuntimeError) as error:
        raise CommandError(error) from error


def planning_device(name: str | None) -> Device:
    """The device of a plan: named, or this GPU, or the default."""
    from tk import runtime

    cuda = _cuda_device(name)
    if cuda is None:
        return named_device(name or DEFAULT_DEVICE)
    try:
        return runtime.device(cuda)
    except ValueError as error:
        if name is not None:
            raise UsageError(error) from error
        return named_device(DEFAULT_DEVICE)


def named_device(name: str) -> Device:
    """A device of the catalogue; UsageError names those that there are."""
    from tk.schedulers import Device

    try:
        return Device.named(name)
    except ValueError as error:
        raise UsageError(error) from error


def whole_number(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)


def duration(text: str) -> float:
    """A time in seconds, for argparse."""
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
