"""``tk tune gemm``, ``tk tune list`` and ``tk tune clear``: plans measured, and their store."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tk.cli_common import CommandError, UsageError, check_writable, in_words
from tk.cli_planning import measuring_device
from tk.cli_run import Run

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from tk.benchmarks.shapes import Shape
    from tk.cli_common import Commands
    from tk.schedulers import GemmProblem
    from tk.schedulers.store import Entry, PlanStore, TuningEnvironment
    from tk.tuning import Winner


@dataclass(frozen=True)
class _Kept:
    """A winner of this run, and its file when it was stored."""

    shape: Shape
    layout: str
    winner: Winner
    path: Path | None


def add_store_parsers(families: Commands) -> None:
    """Adds ``list`` and ``clear`` beside the families of kernels that can be tuned."""
    listing = families.add_parser("list", help="the stored winners")
    listing.set_defaults(run=_list)
    clear = families.add_parser("clear", help="remove all stored winners")
    clear.set_defaults(run=_clear)


def tune(options: argparse.Namespace, console: Console) -> int:
    """Measures plans of every shape and stores the fastest unless ``--no-store`` is given.

    With ``--resume`` the shapes that an interrupted run has measured are not measured again; their
    winners are shown, and stored where they are not yet.
    """
    from tk.benchmarks import sweep

    check_writable(options.json)
    check_writable(options.measurements)
    cuda = measuring_device(options.device, console)
    if cuda is None:
        if options.device is not None:
            raise UsageError(f"--device {options.device}: plans are measured on cuda or cuda:N")
        raise CommandError("no GPU is visible: plans can only be measured on one")
    settings = sweep.Settings(
        options.shapes or sweep.default_shapes(),
        options.layouts,
        options.dtype,
        seconds=options.seconds,
        candidates=options.candidates,
    )
    kept: list[_Kept] = []
    keep = _keeper(cuda, kept, store=not options.no_store)
    run = Run(options, console)
    record = run.measure(
        "measuring plans", lambda **how: sweep.run(settings, cuda, on_winner=keep, **how)
    )
    run.show(record)
    _print_kept(kept, console)
    if options.measurements is not None:
        try:
            sweep.save_measurements(record, options.measurements)
        except OSError as error:
            raise CommandError(in_words(error)) from error
    return 1 if record.wrong_rows() else 0


class _keeper:
    """Stores each winner as soon as it is there, so that an interrupted run keeps what it has."""

    def __init__(self, device: torch.device, kept: list[_Kept], *, store: bool) -> None:
        from tk import runtime, tuning

        self._kept = kept
        self._store = tuning.store() if store else None
        self._environment = tuning.environment(runtime.backend(device))

    def __call__(self, shape: Shape, layout: str, problem: GemmProblem, winner: Winner) -> None:
        path = None
        if self._store is not None:
            path = self._store.put(self._environment, problem, winner.choice, winner.measured)
        self._kept.append(_Kept(shape, layout, winner, path))


def _print_kept(kept: list[_Kept], console: Console) -> None:
    if not kept:
        return
    table = _table("Winners", ("shape", "layout"))
    for each in kept:
        measured = each.winner.measured
        table.add_row(
            str(each.shape),
            each.layout,
            escape(str(each.winner.choice)),
            f"{measured.seconds * 1e6:.1f}",
            _gain(measured.gain),
        )
    console.print(table)
    stored = [each.path for each in kept if each.path is not None]
    if stored:
        folder = stored[0].parent
        text = f"{len(stored)} stored in {folder}: tk.matmul uses them (TK_TUNE=0 does not)"
    else:
        text = "nothing was stored"
    console.print(text, markup=False, soft_wrap=True)


def _list(options: argparse.Namespace, console: Console) -> int:
    store = _store()
    entries = list(store.entries())
    if not entries:
        console.print(f"no tuned plans in {store.root}", markup=False, soft_wrap=True)
        return 0
    here = environments_here()
    groups: dict[TuningEnvironment, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.environment, []).append(entry)
    for environment, members in groups.items():
        used = "used here" if environment in here else "not used here"
        table = _table(escape(f"{environment_text(environment)} ({used})"), ("problem", "measured"))
        for entry in members:
            table.add_row(
                escape(str(entry.problem)),
                escape(entry.measured.when),
                escape(str(entry.choice)),
                f"{entry.measured.seconds * 1e6:.1f}",
                _gain(entry.measured.gain),
            )
        console.print(table)
    console.print(
        f"{len(entries)} in {store.root}; tk tune clear removes them", markup=False, soft_wrap=True
    )
    return 0


def _clear(options: argparse.Namespace, console: Console) -> int:
    store = _store()
    try:
        removed = store.clear()
    except OSError as error:
        raise CommandError(in_words(error)) from error
    console.print(f"{removed} removed from {store.root}", markup=False, soft_wrap=True)
    return 0


def environments_here() -> list[TuningEnvironment]:
    """What winners can be used by the GPUs of this machine, one for each that we have kernels for;
    empty without any."""
    import torch

    from tk import runtime, tuning

    found = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        try:
            backend = runtime.backend(torch.device("cuda", index))
        except (OSError, RuntimeError, ValueError):
            continue
        found.append(tuning.environment(backend))
    return found


def environment_text(environment: TuningEnvironment) -> str:
    """A device and the versions in one line."""
    return (
        f"{environment.device}, {environment.num_sms} multiprocessors, driver"
        f" {environment.driver or 'unknown'}, torch {environment.torch}, CUDA"
        f" {environment.cuda or 'none'}, tk {environment.library}, instances"
        f" {environment.instances}"
    )


def _store() -> PlanStore:
    from tk import tuning

    store = tuning.store()
    if store is None:
        raise CommandError("no home folder is known; TK_CACHE_DIR names another folder")
    return store


def _table(title: str, first: tuple[str, str]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in (*first, "plan"):
        table.add_column(heading, overflow="fold")
    for heading in ("time/us", "over the model's choice"):
        table.add_column(heading, justify="right")
    return table


def _gain(gain: float) -> str:
    return "the same plan" if gain == 1 else f"{gain:.3f}x as fast"
