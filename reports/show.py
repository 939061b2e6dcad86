"""Draws a record: where it was made, then the tables of its suite."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tk.benchmarks.record import Environment, Record, RecordError
from tk.reports import attention, gemm, paper, rotary
from tk.reports.format import UNITS


def _paper(record: Record, console: Console) -> RenderableType:
    return paper.render([record], console)


_SUITES = {
    "attention": attention.render,
    "gemm": gemm.render,
    "gemm-tune": gemm.render,
    "paper": _paper,
    "rotary": rotary.render,
}


def render(record: Record, console: Console) -> RenderableType:
    """The whole report. RecordError when the suite is unknown."""
    if record.suite not in _SUITES:
        known = ", ".join(_SUITES)
        raise RecordError(f"no report for the suite {record.suite!r}; there are: {known}")
    parts = [environment_lines(record.environment), *unfinished_lines(record)]
    return Group(*parts, _SUITES[record.suite](record, console))


def unfinished_lines(record: Record) -> list[Text]:
    """What is to be known of a run that was interrupted, and of one that was resumed."""
    lines = []
    if record.missing_rows:
        planned = record.planned_rows or 0
        lines.append(
            Text(
                f"unfinished: {planned - record.missing_rows} of {planned} rows; the same tk bench "
                "with --resume measures the rest\n",
                style="bold yellow",
            )
        )
    if record.resumed:
        lines.append(Text(f"resumed at {', '.join(record.resumed)}\n", style="dim"))
    return lines


def environment_lines(environment: Environment) -> Text:
    """Device, clocks, versions, revision and time in a few lines."""
    device = [environment.device]
    if environment.architecture != "host":
        device += [f"{environment.num_sms} multiprocessors"] if environment.num_sms else []
        device += [f"driver {environment.driver}"] if environment.driver else []
    for name, value in environment.clocks.items():
        words, _, unit = name.rpartition("_")
        device.append(f"{words.replace('_', ' ')} {value:.0f} {UNITS.get(unit, unit)}")
    versions = [f"{name} {version}" for name, version in environment.versions.items()]
    made = [environment.timestamp, environment.machine]
    made += [f"revision {environment.git_revision}"] if environment.git_revision else []
    here = [f"{name} {v}" for name, v in environment.rivals.items() if v is not None]
    absent = [name for name, version in environment.rivals.items() if version is None]
    rivals = [f"rivals: {', '.join(here)}"] if here else []
    rivals += [f"not installed: {', '.join(absent)}"] if absent else []
    lines = [device, versions, *([rivals] if rivals else []), made]
    return Text("\n".join(", ".join(filter(None, line)) for line in lines) + "\n", style="dim")
