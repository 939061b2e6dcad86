"""``tk plan`` with its families, and the options of ``tk tune gemm``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rich.console import Console

from tk import cli_attention, cli_tune
from tk.cli_common import check_writable
from tk.cli_measure import add_common, add_sweep, save_plan
from tk.cli_planning import (
    add_families,
    add_gemm,
    add_product,
    plan_of,
)
from tk.cli_run import add_resume

if TYPE_CHECKING:
    from tk.cli_common import Commands


def add_parsers(commands: Commands) -> None:
    """Adds both commands."""
    planning = add_families(commands, "plan", "how a kernel would be run, and why")
    plan = add_gemm(planning, "how a product would be run, and why")
    add_product(plan)
    plan.add_argument(
        "--json", metavar="FILE", help="save the plan; tk.schedulers.Plan.load reads it"
    )
    plan.set_defaults(run=_plan)
    cli_attention.add_plan(planning)

    tuning = add_families(commands, "tune", "measure many plans of each shape, keep the fastest")
    cli_tune.add_store_parsers(tuning)
    tune = add_gemm(tuning, "measure many plans of each shape on this GPU")
    add_common(tune, "cuda or cuda:N; default: this GPU")
    add_sweep(tune)
    tune.add_argument(
        "--measurements", metavar="FILE", help="write the flat list of measurements as JSON"
    )
    tune.add_argument(
        "--no-store", action="store_true", help="do not keep the fastest for tk.matmul to use"
    )
    add_resume(tune)
    tune.set_defaults(run=cli_tune.tune)


def _plan(options: argparse.Namespace, console: Console) -> int:
    from tk.reports.plan import render

    check_writable(options.json)
    plan = plan_of(options)
    console.print(render(plan, console))
    save_plan(plan, options.json)
    return 0
