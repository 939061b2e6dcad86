"""Draws a record: where it was made, then the tables of its suite."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tk.benchmarks.record import Environment, Record, RecordError
from tk.reports import gemm
from tk.reports.format import UNITS

_SUITES = {"gemm": gemm.render, "gemm-tune": gemm.render}


def render(record: Record, console: Console) -> RenderableType:
    """The whole report. RecordError when the suite is unknown."""
    if record.suite not in _SUITES:
        known = ", ".join(_SUITES)
        raise RecordError(f"no report for the suite {record.suite!r}; there are: {known}")
    return Group(environment_lines(record.environment), _SUITES[record.suite](record, console))


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
    lines = (device, versions, made)
    return Text("\n".join(", ".join(filter(None, line)) for line in lines) + "\n", style="dim")
