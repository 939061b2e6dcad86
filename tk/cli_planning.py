"""What the commands that plan a product share: its arguments, the device, the plan itself."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tk.cli_common import CommandError, UsageError

if TYPE_CHECKING:
    import torch
    from rich.console import Console

    from tk.cli_common import Commands
    from tk.schedulers import Device, Plan

DEFAULT_DEVICE = "h200"
DTYPES = ("bf16", "fp16")


def add_family(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    """The parser of ``tk NAME gemm``; other families of kernels will stand beside it."""
    return add_gemm(add_families(commands, name, text), text)


def add_families(commands: Commands, name: str, text: str) -> Commands:
    """The families of ``tk NAME``, where a command has more beside them."""
    command = commands.add_parser(name, help=text)
    return command.add_subparsers(dest="family", metavar="FAMILY", required=True)


def add_gemm(families: Commands, text: str) -> argparse.ArgumentParser:
    """The matrix product's parser among them."""
    return families.add_parser("gemm", help="the matrix product", description=text)


def add_product(parser: argparse.ArgumentParser) -> None:
    """The arguments that name one product and the device it is planned for."""
    for axis, meaning in (("m", "rows of a"), ("n", "columns of b"), ("k", "depth")):
        parser.add_argument(axis, metavar=axis.upper(), type=size, help=meaning)
    parser.add_argument("--batch", type=size, default=1, help="products in one call")
    parser.add_argument("--out-dtype", choices=(*DTYPES, "fp32"), help="default: that of --dtype")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument(
        "--device", metavar="NAME", help="for which to plan; default: this GPU, else h200"
    )
    parser.add_argument("--layout", default="nt", help="nt (a @ w.t(), the default), nn, tn or tt")


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan of the product that the arguments of `add_product` name. UsageError."""
    from tk.benchmarks.operands import parse_layouts, problem_of
    from tk.benchmarks.shapes import Shape
    from tk.schedulers import plan_gemm

    device = planning_device(options.device)
    try:
        layouts = parse_layouts(options.layout)
        problem = replace(
            problem_of(Shape(options.m, options.n, options.k), layouts[0], options.dtype),
            batch=options.batch,
            out_dtype=options.out_dtype or options.dtype,
        )
        return plan_gemm(problem, device, instances())
    except ValueError as error:
        raise UsageError(error) from error


def cuda_device(name: str | None) -> torch.device | None:
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


def instances(family: str = "gemm") -> Sequence[Any]:
    """A family's instance table, which is the same in every library of a build."""
    from tk import runtime

    try:
        return runtime.instances("host" if runtime.has_library("host") else "cuda", family)
    except (OSError, RuntimeError) as error:
        raise CommandError(error) from error


def planning_device(name: str | None) -> Device:
    """The device of a plan: named, or this GPU, or the default."""
    from tk import runtime

    cuda = cuda_device(name)
    if cuda is None:
        return named_device(name or DEFAULT_DEVICE)
    try:
        return runtime.device(cuda)
    except ValueError as error:
        if name is not None:
            raise UsageError(error) from error
        return named_device(DEFAULT_DEVICE)


def named_device(name: str) -> Device:
    """The catalogue's device of that name. UsageError lists the names."""
    from tk.schedulers import Device

    try:
        return Device.named(name)
    except ValueError as error:
        raise UsageError(error) from error


def size(text: str) -> int:
    """A whole number above 0, as a type of argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)


def measuring_device(name: str | None, console: Console) -> torch.device | None:
    """The GPU to measure on, None to do without one."""
    from tk import runtime

    device = cuda_device(name)
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


def duration(text: str) -> float:
    """A time in seconds, as a type of argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 3600:
        raise argparse.ArgumentTypeError(f"'{text}' is no time in seconds above 0")
    return value
