"""``tk bench rotary``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tk.cli_common import UsageError
from tk.cli_measure import add_timing
from tk.cli_planning import measuring_device

if TYPE_CHECKING:
    from tk.benchmarks.record import Record
    from tk.cli_common import Commands

_DTYPES = ("bf16", "fp16", "fp32")
_SECONDS_EACH = 0.1
_HOST_SECONDS_EACH = 0.05
_HOST_BUDGET_SECONDS = 30.0


def add_bench(families: Commands) -> argparse.ArgumentParser:
    """Adds ``tk bench rotary``, whose run is `measure`."""
    bench = families.add_parser("rotary", help="rotary position embedding of q and k")
    bench.add_argument("--dtype", choices=_DTYPES, default="bf16")
    bench.add_argument(
        "--device",
        metavar="NAME",
        help="cuda or cuda:N; default: this GPU; without one the host computes a few cases",
    )
    bench.add_argument(
        "--suite", metavar="NAME", default="full", help="full (default), main, options, host"
    )
    bench.add_argument(
        "--rivals",
        metavar="NAME,...",
        help="of eager and compile (torch's), liger; default: all installed ones",
    )
    add_timing(bench)
    return bench


def measure(options: argparse.Namespace, console: Console, run: Any) -> Record:
    """The record of a suite: measured on a GPU, else a few cases checked on the host. `run` is a
    `tk.cli_run.Run`."""
    import torch

    from tk.benchmarks import rotary, rotary_cases
    from tk.benchmarks.rotary_rivals import choose_rivals

    try:
        cases = rotary_cases.suite_named(options.suite).cases
    except ValueError as error:
        raise UsageError(f"--suite {error}") from error
    cuda = measuring_device(options.device, console)
    if cuda is None and options.graph:
        raise UsageError("--graph needs a GPU")
    try:
        rivals = choose_rivals(options.rivals, cuda or torch.device("cpu"))
    except ValueError as error:
        raise UsageError(error) from error
    settings = rotary.Settings(
        list(cases),
        options.dtype,
        seconds=options.seconds or _SECONDS_EACH,
        graph=options.graph,
        flush=options.flush,
        rivals=tuple(rivals),
    )
    record: Record
    if cuda is not None:
        record = run.measure("measuring", lambda **how: rotary.run(settings, cuda, **how))
        return record
    on_host = replace(
        settings,
        cases=rotary_cases.host(),
        seconds=options.seconds or _HOST_SECONDS_EACH,
        budget_seconds=_HOST_BUDGET_SECONDS,
    )
    record = run.measure(
        "running the host architecture",
        lambda **how: rotary.run(on_host, torch.device("cpu"), **how),
    )
    return record
