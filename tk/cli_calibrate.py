"""``tk calibrate``: the constants of the time model fitted to measurements, and kept."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tk.cli_common import CommandError, UsageError, check_writable, in_words
from tk.cli_measure import add_sweep, progress_bar
from tk.cli_planning import measuring_device, named_device, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from tk.cli_common import Commands
    from tk.schedulers import Device
    from tk.schedulers.fit import Fit, Measurement

ROUNDS = 4  # of the search; each halves the step


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    text = "fit the constants of the time model on this GPU, and keep them"
    parser = commands.add_parser("calibrate", help=text, description=text)
    parser.add_argument(
        "--device", metavar="NAME", help="cuda or cuda:N; with --measurements a name such as h200"
    )
    parser.add_argument(
        "--measurements",
        metavar="FILE",
        help="fit to what tk tune gemm --measurements wrote, instead of measuring; nothing is kept "
        "unless the file is of this GPU",
    )
    add_sweep(parser)
    parser.add_argument("--rounds", type=size, default=ROUNDS, help="of the search (default 4)")
    parser.add_argument("--no-store", action="store_true", help="only print")
    parser.add_argument("--json", metavar="FILE", help="write the fitted device's record")
    parser.set_defaults(run=_calibrate)


def _calibrate(options: argparse.Namespace, console: Console) -> int:
    from tk import runtime
    from tk.schedulers.fit import check_fit, fit_constants

    check_writable(options.json)
    # A file of measurements may be of any device: then none of this machine need be there.
    named = options.device is not None and not options.device.startswith("cuda")
    if named and options.measurements is None:
        raise UsageError(f"--device {options.device}: a device that is not here needs measurements")
    cuda = None if named else measuring_device(options.device, console)
    if cuda is not None:
        device = runtime.device(cuda, calibrated=False)
    elif options.measurements is not None:
        device = named_device(options.device or "h200")
    else:
        raise CommandError("no GPU is visible: --measurements FILE fits to what was measured")
    measured = _measurements(options, cuda, console)
    before = check_fit(measured, device)
    with console.status(f"fitting {len(measured)} measurements"):
        fitted = fit_constants(measured, device, rounds=options.rounds)
    after = check_fit(measured, fitted)
    console.print(_table(device, fitted))
    for name, fit in (("as it was", before), ("fitted", after)):
        console.print(f"{name}: {fit}", markup=False, soft_wrap=True)
    if options.json is not None:
        _write(Path(options.json), fitted)
    if cuda is not None and not options.no_store:
        _keep(fitted, before, after, console)
    return 0


def _measurements(
    options: argparse.Namespace, cuda: torch.device | None, console: Console
) -> Sequence[Measurement]:
    """Those of the file, or made now, on the GPU."""
    from tk.schedulers.fit import load_measurements, measurements_of

    if options.measurements is not None:
        try:
            return load_measurements(options.measurements)
        except OSError as error:
            raise CommandError(in_words(error)) from error
        except ValueError as error:
            raise CommandError(error) from error
    from tk.benchmarks import sweep

    assert cuda is not None
    settings = sweep.Settings(
        sweep.default_shapes(), ["nt", "nn"], seconds=options.seconds, candidates=options.candidates
    )
    with progress_bar(console, "measuring plans") as report:
        record = sweep.run(settings, cuda, progress=report)
    return measurements_of(sweep.measurements(record))


def _table(before: Device, after: Device) -> Table:
    from tk.schedulers.fit import FITTED

    table = Table(title=f"Constants of {before.name}", title_justify="left")
    table.add_column("constant")
    for heading in ("as it was", "fitted", "factor"):
        table.add_column(heading, justify="right")
    for name in FITTED:
        old, new = getattr(before, name), getattr(after, name)
        factor = f"{new / old:.3f}" if old else ""
        table.add_row(name, f"{old:.4g}", f"{new:.4g}", factor)
    return table


def _write(path: Path, fitted: Device) -> None:
    import json

    try:
        path.write_text(json.dumps(fitted.to_dict(), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(in_words(error)) from error


def _keep(fitted: Device, before: Fit, after: Fit, console: Console) -> None:
    """Keeps constants that rank no worse than those before."""
    from tk import runtime
    from tk.schedulers.calibration import Calibration, calibration_file

    if after.mean_regret > before.mean_regret or after.spread > before.spread:
        console.print("nothing was kept: the constants before agree better")
        return
    folder = runtime.calibration_dir()
    if folder is None:
        raise CommandError("no home folder is known; TK_CACHE_DIR names another folder")
    path = calibration_file(folder, fitted)
    made = Calibration.of(
        fitted,
        library=runtime.library_version(),
        when=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        spread=after.spread,
        regret=after.mean_regret,
        problems=len(after.regrets),
    )
    try:
        made.save(path)
    except OSError as error:
        raise CommandError(in_words(error)) from error
    text = f"kept in {path}: plans for this GPU use it from now on; remove the file to undo it"
    console.print(text, markup=False, soft_wrap=True)
