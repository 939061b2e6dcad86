"""``tk plan attention`` and ``tk bench attention``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tk.cli_common import UsageError, check_writable
from tk.cli_measure import add_timing, progress_bar, save_plan
from tk.cli_planning import (
    DEFAULT_DEVICE,
    DTYPES,
    instances,
    measuring_device,
    named_device,
    planning_device,
    size,
)

if TYPE_CHECKING:
    from tk.benchmarks.record import Record
    from tk.cli_common import Commands

_SECONDS_EACH = 0.1
_HOST_SECONDS_EACH = 0.05
_HOST_BUDGET_SECONDS = 30.0


def add_plan(families: Commands) -> None:
    """Adds ``tk plan attention``."""
    text = "how attention would be run, and why"
    plan = families.add_parser("attention", help="attention forward", description=text)
    for name, meaning in (
        ("queries", "queries of a sequence"),
        ("keys", "keys of a sequence"),
        ("dimension", "of a head, a multiple of 8"),
    ):
        plan.add_argument(name, metavar=name.upper(), type=size, help=meaning)
    plan.add_argument("--batch", type=size, default=1, help="sequences; default 1")
    plan.add_argument("--heads", type=size, default=1, help="query heads; default 1")
    plan.add_argument("--kv-heads", type=size, help="key heads; default: as many")
    plan.add_argument("--value-dimension", type=size, help="default: the head dimension")
    plan.add_argument("--causal", action="store_true", help="mask later keys, aligned at the end")
    plan.add_argument(
        "--window",
        metavar=("LEFT", "RIGHT"),
        nargs=2,
        type=int,
        default=(-1, -1),
        help="keys that are seen on either side; -1: all",
    )
    plan.add_argument(
        "--general", action="store_true", help="with softcap, slopes or a bias: other kernels"
    )
    plan.add_argument("--dtype", choices=DTYPES, default="bf16")
    plan.add_argument(
        "--device", metavar="NAME", help="for which to plan; default: this GPU, else h200"
    )
    plan.add_argument(
        "--json", metavar="FILE", help="save the plan; tk.schedulers.Plan.load reads it"
    )
    plan.set_defaults(run=_plan)


def _plan(options: argparse.Namespace, console: Console) -> int:
    from tk.reports.plan import render
    from tk.schedulers import AttentionProblem, plan_attention

    check_writable(options.json)
    left, right = options.window
    try:
        problem = AttentionProblem(
            batch=options.batch,
            heads=options.heads,
            kv_heads=options.kv_heads or options.heads,
            queries=options.queries,
            keys=options.keys,
            head_dim=options.dimension,
            value_dim=options.value_dimension or options.dimension,
            dtype=options.dtype,
            window_left=left,
            window_right=0 if options.causal and options.queries > 1 else right,
            scores="general" if options.general else "plain",
        )
        plan = plan_attention(problem, planning_device(options.device), instances("attention"))
    except ValueError as error:
        raise UsageError(error) from error
    console.print(render(plan, console))
    save_plan(plan, options.json)
    return 0


def add_bench(families: Commands) -> argparse.ArgumentParser:
    """Adds ``tk bench attention``, whose run is `bench`."""
    bench = families.add_parser("attention", help="attention forward")
    bench.add_argument("--dtype", choices=DTYPES, default="bf16")
    bench.add_argument(
        "--device",
        metavar="NAME",
        help="cuda or cuda:N to measure there; a name such as h200 to run the host architecture "
        "and predict for that device; default: this GPU, else h200",
    )
    bench.add_argument(
        "--suite", metavar="NAME", default="full", help="full (default), forward, decode, packed"
    )
    bench.add_argument(
        "--rivals",
        metavar="NAME,...",
        help="of cudnn and sdpa-flash (torch's), flash-attention-3; default: all installed ones",
    )
    bench.add_argument(
        "--plans",
        type=size,
        default=0,
        help="measure so many other plans of each case, to see whether the chosen one is the best",
    )
    add_timing(bench)
    return bench


def measure(options: argparse.Namespace, console: Console, run: Any) -> Record:
    """The record of a suite: measured on a GPU, else checked on the host and predicted. `run` is
    a `tk.cli_run.Run`."""
    import torch

    from tk.benchmarks import attention, attention_cases
    from tk.benchmarks.attention_rivals import choose_rivals

    try:
        cases = attention_cases.suite_named(options.suite).cases
    except ValueError as error:
        raise UsageError(f"--suite {error}") from error
    cuda = measuring_device(options.device, console)
    if cuda is None and options.graph:
        raise UsageError("--graph needs a GPU")
    try:
        rivals = choose_rivals(options.rivals, cuda or torch.device("cpu"))
    except ValueError as error:
        raise UsageError(error) from error
    settings = attention.Settings(
        list(cases),
        options.dtype,
        seconds=options.seconds or _SECONDS_EACH,
        graph=options.graph,
        flush=options.flush,
        rivals=tuple(rivals),
        plans=options.plans,
    )
    record: Record
    if cuda is not None:
        record = run.measure("measuring", lambda **how: attention.run(settings, cuda, **how))
        return record
    device = named_device(options.device or DEFAULT_DEVICE)
    on_host = replace(
        settings,
        cases=attention_cases.host(),
        seconds=options.seconds or _HOST_SECONDS_EACH,
        budget_seconds=_HOST_BUDGET_SECONDS,
    )
    record = run.measure(
        "running the host architecture",
        lambda **how: attention.run(on_host, torch.device("cpu"), **how),
    )
    with progress_bar(console, f"planning for {device.name}") as report:
        predicted = attention.predict(settings, device, instances("attention"), progress=report)
    return replace(record, rows=record.rows + predicted, predicted_for=device.name)
