"""``tk bench``: measures kernels against their rivals, and lists which are installed."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from tk import cli_attention, cli_rotary
from tk.cli_common import UsageError, check_writable
from tk.cli_measure import add_common, progress_bar
from tk.cli_planning import DEFAULT_DEVICE, duration, instances, measuring_device, named_device
from tk.cli_run import Run, add_resume

if TYPE_CHECKING:
    import torch

    from tk.benchmarks.record import Record
    from tk.cli_common import Commands

HOST_BUDGET_SECONDS = 30.0
HOST_SECONDS_EACH = 0.2
SECONDS_EACH = 0.1
QUICK_SECONDS_EACH = 0.03


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    text = "measure against rivals, outputs checked first"
    bench = commands.add_parser("bench", help=text, description=text)
    families = bench.add_subparsers(dest="family", metavar="FAMILY", required=True)
    _add_gemm(families)
    attention = cli_attention.add_bench(families)
    add_resume(attention)
    attention.set_defaults(run=_attention)
    rotary = cli_rotary.add_bench(families)
    add_resume(rotary)
    rotary.set_defaults(run=_rotary)
    _add_paper(families)
    rivals = families.add_parser("rivals", help="which rivals are installed, in which version")
    rivals.set_defaults(run=_rivals)


def _add_gemm(families: Commands) -> None:
    gemm = families.add_parser("gemm", help="the matrix product")
    add_common(
        gemm,
        "cuda or cuda:N to measure there; a name such as h200 to run the host architecture and "
        "predict for that device; default: this GPU, else h200",
    )
    gemm.add_argument("--suite", metavar="NAME", help="which shapes; default: full")
    gemm.add_argument("--list-suites", action="store_true", help="list the suites and stop")
    gemm.add_argument(
        "--quick", action="store_true", help="--suite quick, and less time for each candidate"
    )
    gemm.add_argument(
        "--rivals",
        metavar="NAME,...",
        help="of torch (cuBLAS, always measured), triton, compile (torch.compile, which tunes for "
        "minutes), or all that are installed; default: torch,triton where installed",
    )
    gemm.add_argument("--graph", action="store_true", help="time inside CUDA graphs")
    gemm.add_argument(
        "--flush",
        choices=("read", "write", "none"),
        default="read",
        help="how the L2 cache is emptied before each call: by reading (default), by writing, as "
        "triton.testing.do_bench does, which leaves it to be written back, or not at all",
    )
    gemm.add_argument("--seconds", type=duration, help="GPU time for each candidate")
    add_resume(gemm)
    gemm.set_defaults(run=_gemm)


def _add_paper(families: Commands) -> None:
    paper = families.add_parser(
        "paper",
        help="ThunderKittens' experiments on the product; bank conflicts without a GPU, too",
    )
    paper.add_argument("--device", metavar="NAME", help="cuda or cuda:N; default: this GPU")
    paper.add_argument("--seconds", type=duration, default=SECONDS_EACH, help="GPU time a variant")
    paper.add_argument("--json", metavar="FILE", help="save the record")
    add_resume(paper)
    paper.set_defaults(run=_paper)


def _gemm(options: argparse.Namespace, console: Console) -> int:
    from tk.benchmarks import gemm
    from tk.benchmarks.gemm_rivals import choose_rivals

    if options.list_suites:
        return _list_suites(console)
    chosen = _shapes_of(options)
    check_writable(options.json)
    cuda = measuring_device(options.device, console)
    settings = gemm.Settings(
        chosen,
        options.layouts,
        options.dtype,
        seconds=options.seconds or (QUICK_SECONDS_EACH if options.quick else SECONDS_EACH),
        graph=options.graph,
        flush=options.flush,
    )
    if cuda is None and options.graph:
        raise UsageError("--graph needs a GPU")
    try:
        device = cuda or _host()
        settings = replace(settings, rivals=tuple(choose_rivals(options.rivals, device)))
    except ValueError as error:
        raise UsageError(error) from error
    run = Run(options, console)
    if cuda is not None:
        record = run.measure("measuring", lambda **how: gemm.run(settings, cuda, **how))
    else:
        record = _gemm_without_gpu(run, settings)
    return run.finish(record)


def _attention(options: argparse.Namespace, console: Console) -> int:
    check_writable(options.json)
    run = Run(options, console)
    return run.finish(cli_attention.measure(options, console, run))


def _rotary(options: argparse.Namespace, console: Console) -> int:
    check_writable(options.json)
    run = Run(options, console)
    return run.finish(cli_rotary.measure(options, console, run))


def _paper(options: argparse.Namespace, console: Console) -> int:
    from tk.benchmarks import paper
    from tk.benchmarks.shared_layouts import count_conflicts

    check_writable(options.json)
    cuda = measuring_device(options.device, console)
    if cuda is None:
        if options.device is not None:
            raise UsageError(f"--device {options.device}: times are taken on cuda or cuda:N alone")
        console.print(
            "no GPU is visible: nothing is timed, only bank conflicts are counted", style="yellow"
        )
    run = Run(options, console)
    try:
        with console.status("counting bank conflicts"):
            figures = count_conflicts()
    except RuntimeError as error:
        console.print(f"bank conflicts are not counted: {error}", style="yellow", markup=False)
        figures = []
    settings = paper.Settings(seconds=options.seconds)
    experiments = paper.EXPERIMENTS if cuda is not None else ()
    record = run.measure(
        "the paper's experiments",
        lambda **how: paper.run(
            settings, cuda or _host(), experiments=experiments, figures=figures, **how
        ),
    )
    return run.finish(record)


def _host() -> torch.device:
    import torch

    return torch.device("cpu")


def _shapes_of(options: argparse.Namespace) -> Any:
    from tk.benchmarks.suites import suite_named

    given = [
        name
        for name, value in (
            ("--shapes", options.shapes),
            ("--suite", options.suite),
            ("--quick", options.quick),
        )
        if value
    ]
    if len(given) > 1 and given != ["--shapes", "--quick"]:
        raise UsageError(f"{' and '.join(given)}: give one of them")
    if options.shapes:
        return options.shapes
    try:
        return list(suite_named(options.suite or ("quick" if options.quick else "full")).shapes)
    except ValueError as error:
        raise UsageError(f"--suite {error}") from error


def _gemm_without_gpu(run: Run, settings: Any) -> Record:
    """Products on the host architecture, then predictions for a device that is not here."""
    from tk.benchmarks import gemm, shapes

    options, console = run.options, run.console
    device = named_device(options.device or DEFAULT_DEVICE)
    table = instances()
    on_host = replace(
        settings,
        shapes=options.shapes or shapes.host(),
        seconds=options.seconds or HOST_SECONDS_EACH,
        budget_seconds=HOST_BUDGET_SECONDS,
    )
    record = run.measure(
        "running the host architecture", lambda **how: gemm.run(on_host, _host(), **how)
    )
    # The layouts' plans differ little: the first stands for all.
    to_predict = replace(settings, layouts=settings.layouts[:1])
    with progress_bar(console, f"planning for {device.name}") as report:
        predicted = gemm.predict(to_predict, device, table, progress=report)
    return replace(record, rows=record.rows + predicted, predicted_for=device.name)


def _list_suites(console: Console) -> int:
    from tk.benchmarks.suites import SUITES

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head, justify in (("suite", "left"), ("shapes", "right"), ("", "left")):
        table.add_column(head, justify=justify)  # type: ignore[arg-type]
    for suite in SUITES.values():
        table.add_row(suite.name, str(len(suite.shapes)), suite.about)
    console.print(table)
    return 0


def _rivals(options: argparse.Namespace, console: Console) -> int:
    from tk.benchmarks.rivals import find_rivals

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("rival", "version", "of", "measured as"):
        table.add_column(head)
    for found in find_rivals():
        rival = found.rival
        version = found.version or f"absent: {rival.install}"
        measured = rival.name if {"gemm", "attention", "rotary"} & set(rival.families) else ""
        table.add_row(rival.title, version, ", ".join(rival.families), measured)
    console.print(table)
    return 0
