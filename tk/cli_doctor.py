"""``tk doctor``: what is installed, what the build holds, and what is missing and how to get it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    import torch

    from tk.cli_common import Commands

MIN_DRIVER_CUDA = "12.4"
INSTALL_CUDA = (
    "install from source with `pip install .`: nvcc 12.4 or later is used if there is one, and "
    "NVIDIA's compiler wheels are fetched if not; it must not be given "
    "`--config-settings=cmake.define.TK_CUDA=OFF`"
)
INSTALL_TORCH_CUDA = "install a build of torch with CUDA (pytorch.org, `pip install torch`)"


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    doctor = commands.add_parser("doctor", help="what is here, what is missing, how to get it")
    doctor.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace, console: Console) -> int:
    remedies: list[str] = []
    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    _versions(table)
    table.add_section()
    usable = _libraries(table, remedies)
    table.add_section()
    _extensions(table)
    _tuned_plans(table)
    table.add_section()
    _rivals(table)
    table.add_section()
    usable = _gpus(table, remedies) or usable
    console.print(table)
    if remedies:
        console.print("What to do", style="bold")
        for remedy in remedies:
            console.print(f"  - {remedy}", markup=False, highlight=False)
    else:
        console.print("Nothing is missing.", style="green")
    return 0 if usable else 1


def _versions(table: Table) -> None:
    from tk.benchmarks.environment import git_revision, machine, versions

    for name, version in versions().items():
        table.add_row(name, version)
    revision = git_revision()
    if revision:
        table.add_row("revision", revision)
    table.add_row("machine", machine())


def _libraries(table: Table, remedies: list[str]) -> bool:
    """Rows about the kernel libraries; whether the host's can be used."""
    from tk import runtime

    usable = False
    for kind, meaning in (("cuda", "CUDA tensors"), ("host", "CPU tensors")):
        name = f"kernels, {meaning}"
        if not runtime.has_library(kind):
            table.add_row(name, "not in this build")
            if kind == "host":
                remedies.append("the installation is incomplete: install it again")
            continue
        try:
            library = runtime.library(kind)
            products = len(runtime.instances(kind))
            attention = len(runtime.instances(kind, "attention"))
            rotary = len(runtime.instances(kind, "rotary"))
        except (OSError, RuntimeError) as error:
            table.add_row(name, f"cannot be loaded: {error}")
            remedies.append(f"{runtime.library_path(kind)} cannot be loaded: install tk again")
            continue
        usable = usable or kind == "host"
        table.add_row(
            name,
            f"architecture {library.architecture}, {products} instances of the matrix product,"
            f" {attention} of attention, {rotary} of the rotation",
        )
    return usable


def _extensions(table: Table) -> None:
    """Rows about kernels of the user's own: the compilers, and what was compiled."""
    from tk.extension import MissingToolError, extension_cache_dir
    from tk.extension.compiler import compiler_for

    for architecture, meaning in (("sm90", "CUDA tensors"), ("host", "CPU tensors")):
        name = f"tk.load, {meaning}"
        try:
            table.add_row(name, compiler_for(architecture).program)
        except MissingToolError as error:
            table.add_row(name, f"not possible: {error}")
    cache = extension_cache_dir()
    if not cache.is_dir():
        table.add_row("tk.load's cache", f"{cache}, not there yet (TK_CACHE_DIR moves it)")
        return
    size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    table.add_row("tk.load's cache", f"{cache}, {size / 2**20:.1f} MiB; remove: rm -r {cache}")


def _rivals(table: Table) -> None:
    """A row with the libraries that benchmarks compare with, and one with those not installed."""
    from tk.benchmarks.rivals import find_rivals

    found = find_rivals()
    here = ", ".join(f"{each.rival.title} {each.version}" for each in found if each.present)
    absent = ", ".join(each.rival.title for each in found if not each.present)
    table.add_row("rivals to measure", here or "none")
    if absent:
        table.add_row("not installed", f"{absent} (tk bench rivals says how to get them)")


def _tuned_plans(table: Table) -> None:
    """A row about the store of tuned plans."""
    from tk import tuning
    from tk.cli_tune import environments_here

    store = tuning.store()
    if store is None:
        table.add_row("tuned plans", "cannot be stored: no home folder is known (TK_CACHE_DIR)")
        return
    total = sum(1 for _ in store.entries())
    here = sum(store.count(environment) for environment in set(environments_here()))
    found = f"{here} for this environment of {total}; remove: tk tune clear"
    table.add_row("tuned plans", f"{store.root}, {found if total else 'none (tk tune makes them)'}")


def _gpus(table: Table, remedies: list[str]) -> bool:
    """Rows about the GPUs; whether there is one that this build can use."""
    import torch

    from tk import runtime

    if not torch.cuda.is_available():
        table.add_row("GPU", "none visible: CPU tensors run the host architecture, tk.matmul works")
        if torch.version.cuda is None:
            remedies.append(f"this torch has no CUDA; for a GPU, {INSTALL_TORCH_CUDA}")
        else:
            remedies.append(
                f"for a GPU, a driver for CUDA {MIN_DRIVER_CUDA} or later and a visible Hopper "
                "card are needed (nvidia-smi shows both; CUDA_VISIBLE_DEVICES hides cards)"
            )
        if not runtime.has_library("cuda"):
            remedies.append(f"this build has no CUDA kernels; for them, {INSTALL_CUDA}")
        return False
    usable = False
    for index in range(torch.cuda.device_count()):
        usable = _gpu(table, remedies, torch.device("cuda", index)) or usable
    if not runtime.has_library("cuda"):
        remedies.append(f"there is a GPU, but this build has no CUDA kernels: {INSTALL_CUDA}")
        return False
    return usable


def _gpu(table: Table, remedies: list[str], device: torch.device) -> bool:
    from tk import runtime
    from tk.benchmarks.environment import environment_of
    from tk.reports.format import byte_count

    found = environment_of(device)
    table.add_row(
        f"GPU {device.index}",
        f"{found.device}, {found.architecture}, {found.num_sms} multiprocessors, "
        f"{byte_count(found.memory_bytes)} memory, {byte_count(found.l2_bytes)} L2",
    )
    if found.driver:
        table.add_row("driver", found.driver)
    try:
        numbers = runtime.device(device)
    except ValueError as error:
        remedies.append(str(error))
        return False
    table.add_row("planned as", numbers.name)
    return True
