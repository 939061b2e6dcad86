"""``tk schedule show gemm``, ``tk schedule compare gemm`` and ``tk schedule timeline gemm``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tk.cli_common import CommandError, UsageError, check_writable, in_words
from tk.cli_planning import add_family, add_product, duration, measuring_device, plan_of, size

if TYPE_CHECKING:
    from tk.benchmarks.record import Result
    from tk.cli_common import Commands
    from tk.schedulers import Order, Plan
    from tk.schedulers.waves import Schedule

MOST_TILES = 1 << 18
"""Cluster tiles of a grid that is still shown."""

MOST_USES = 1 << 18
"""K tiles of a timeline that is still simulated."""


def add_parser(commands: Commands) -> None:
    """Adds the command with its actions."""
    schedule = commands.add_parser("schedule", help="see tile orders, and the ring of stages")
    actions = schedule.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = add_family(
        actions, "show", "the tile grid by wave: what runs together and what it reads"
    )
    add_product(show)
    _add_order(show)
    show.add_argument("--wave", type=size, metavar="N", help="show this wave alone, from 1")
    show.add_argument("--html", metavar="FILE", help="write a page to step through the waves")
    show.add_argument("--svg", metavar="FILE", help="write the picture of that page, animated")
    show.set_defaults(run=_show)

    compare = add_family(actions, "compare", "tile orders side by side, for the plan's instance")
    add_product(compare)
    compare.add_argument(
        "--orders",
        type=_orders,
        metavar="ORDER,...",
        help=f"instead of the usual ones: {_order_names()}",
    )
    compare.add_argument(
        "--seconds",
        type=duration,
        default=0.05,
        help="GPU time for each order, where there is a GPU (default 0.05)",
    )
    compare.add_argument("--json", metavar="FILE", help="save the figures")
    compare.set_defaults(run=_compare)

    timeline = add_family(actions, "timeline", "load, compute and store of each stage over time")
    add_product(timeline)
    timeline.add_argument("--stages", type=size, metavar="S", help="default: the plan's depth")
    timeline.add_argument(
        "--k-tiles",
        type=size,
        metavar="N",
        help="K tiles of an output tile that are drawn; default: three times round the ring",
    )
    timeline.add_argument(
        "--tiles", type=size, metavar="N", help="output tiles of a block; default: 2 if it has them"
    )
    timeline.add_argument("--svg", metavar="FILE", help="write the picture")
    timeline.set_defaults(run=_timeline)


def _add_order(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--order",
        type=_order,
        metavar="ORDER",
        help=f"{_order_names()}; default: that of the plan",
    )


def _order_names() -> str:
    from tk.schedulers.order import CODES, GROUPED

    return ", ".join(f"{name}:WIDTH" if name in GROUPED else name for name in CODES)


def _show(options: argparse.Namespace, console: Console) -> int:
    from tk.reports.schedule import render
    from tk.schedulers.waves import schedule_of

    for path in (options.html, options.svg):
        check_writable(path)
    plan = _ordered_plan(options)
    _check_size(plan)
    schedule = schedule_of(plan)
    if options.wave is not None and options.wave > len(schedule.waves):
        raise UsageError(f"--wave {options.wave}: the last wave is {len(schedule.waves)}")
    pages = _pages(options, schedule)
    for path, text in pages.items():
        _write(path, text)
    console.print(render(schedule, console, options.wave))
    for path in pages:
        _say_written(path, console)
    return 0


def _pages(options: argparse.Namespace, schedule: Schedule) -> dict[str, str]:
    """The files to write; UsageError when the grid is too large for a picture."""
    from tk.reports import schedule_page

    made = {}
    for name, make in (("html", schedule_page.html), ("svg", schedule_page.svg)):
        path = getattr(options, name)
        if path is not None:
            try:
                made[path] = make(schedule)
            except ValueError as error:
                raise UsageError(f"--{name}: {error}") from error
    return made


def _compare(options: argparse.Namespace, console: Console) -> int:
    from tk.reports.order_comparison import render, to_json
    from tk.schedulers.order_comparison import compare_orders, usual_orders

    check_writable(options.json)
    plan = plan_of(options)
    _check_size(plan)
    try:
        figures = compare_orders(plan, options.orders or usual_orders(plan))
    except ValueError as error:
        raise UsageError(f"--orders: {error}") from error
    measured = _measured(options, [one.plan for one in figures], console)
    if options.json is not None:
        _write(options.json, to_json(plan, figures, measured))
    console.print(render(plan, figures, measured, console))
    _say_written(options.json, console)
    return 0


def _measured(
    options: argparse.Namespace, plans: Sequence[Plan], console: Console
) -> list[Result] | None:
    """The plans measured against each other; None where there is no GPU, or another device is
    planned for."""
    device = measuring_device(options.device, console)
    if device is None:
        return None
    from tk.benchmarks.orders import measure
    from tk.benchmarks.selection import Timer

    return measure(plans, device, Timer(seconds=options.seconds))


def _timeline(options: argparse.Namespace, console: Console) -> int:
    from tk.reports import timeline_svg
    from tk.reports.timeline import Depth, render
    from tk.schedulers.pipeline import FEWEST_STAGES, num_stages_for
    from tk.schedulers.timeline import k_tiles_of, tiles_of_block, timeline_of

    check_writable(options.svg)
    plan = plan_of(options)
    if options.stages is not None:
        try:
            plan = plan.replace(num_stages=options.stages)
        except ValueError as error:
            raise UsageError(f"--stages {options.stages}: {error}") from error
    k_tiles, most_tiles = k_tiles_of(plan), tiles_of_block(plan)
    num_tiles = options.tiles or min(2, most_tiles)
    drawn_k_tiles = options.k_tiles or min(3 * plan.num_stages, k_tiles)
    if drawn_k_tiles > k_tiles:
        raise UsageError(f"--k-tiles {options.k_tiles}: an output tile has {k_tiles}")
    if num_tiles > most_tiles:
        raise UsageError(f"--tiles {num_tiles}: a block has at most {most_tiles}")
    if num_tiles * k_tiles > MOST_USES:
        raise UsageError(
            f"--tiles {num_tiles}: of {k_tiles} K tiles each, at most {MOST_USES} in all"
        )
    drawn = timeline_of(plan, k_tiles=drawn_k_tiles, num_tiles=num_tiles)
    whole = timeline_of(plan, num_tiles=num_tiles)
    if options.svg is not None:
        _write(options.svg, timeline_svg.svg(plan, drawn, whole))
    deepest = num_stages_for(plan.instance, plan.device, plan.choice.parts_received)
    plans = [plan.replace(num_stages=depth) for depth in range(FEWEST_STAGES, deepest + 1)]
    depths = [Depth(one, timeline_of(one, num_tiles=num_tiles)) for one in plans]
    console.print(render(plan, drawn, whole, depths, console))
    _say_written(options.svg, console)
    return 0


def _ordered_plan(options: argparse.Namespace) -> Plan:
    plan = plan_of(options)
    if options.order is None:
        return plan
    try:
        return plan.replace(order=options.order)
    except ValueError as error:
        raise UsageError(f"--order {options.order}: {error}") from error


def _check_size(plan: Plan) -> None:
    """UsageError when the plan's grid has too many tiles to walk in Python."""
    from tk.schedulers.waves import grid_of

    rows, cols = grid_of(plan)
    if rows * cols > MOST_TILES:
        raise UsageError(f"a grid of {rows} x {cols} tiles is too large; at most {MOST_TILES}")


def _orders(text: str) -> list[Order]:
    return [_order(part) for part in text.split(",") if part.strip()]


def _order(text: str) -> Order:
    from tk.schedulers import Order

    try:
        return Order.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(in_words(error)) from error


def _say_written(path: str | None, console: Console) -> None:
    if path is not None:
        console.print(f"wrote {path}", style="dim", markup=False)
