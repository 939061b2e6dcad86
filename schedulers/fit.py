"""How well the model agrees with measured times, and the constants that agree best.

A file of measurements is JSON: {"instances": [...], "measurements": [...]}. An instance has the
fields of `Instance`. A measurement has "m", "n", "k" and, when they are not the defaults, the other
fields of `GemmProblem`; "instance" (a name), "num_stages", "cluster" [M, N], "order" (a kind),
"order_param", "splits", "grid" and, if they are true, "swapped", "dynamic" and "splits_in_cluster";
"seconds" and, where counted, "dram_read_bytes".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import exp, log
from pathlib import Path
from typing import Any

from tk.schedulers.choose import Choice, family_named
from tk.schedulers.cost import Prediction
from tk.schedulers.device import Device
from tk.schedulers.instance import Instance
from tk.schedulers.order import Order
from tk.schedulers.problem import GemmProblem

FITTED = (
    "l2_bandwidth",
    "padding_bandwidth",
    "sm_bandwidth",
    "shared_bandwidth",
    "store_bandwidth",
    "element_store_bandwidth",
    "partial_bandwidth",
    "cluster_partial_bandwidth",
    "joules_per_flop",
    "joules_per_l2_byte",
    "joules_per_dram_byte",
    "power_ramp_s",
    "launch_overhead_s",
    "cluster_overhead_s",
    "fill_s",
    "load_latency_s",
    "memory_latency_s",
    "stage_overhead_s",
    "epilogue_overhead_s",
    "split_overhead_s",
    "cluster_split_overhead_s",
)
"""Fields of `Device` that have no data sheet and are fitted by default."""


@dataclass(frozen=True)
class Measurement:
    """One candidate's measured time (s) and, where counted, bytes read from memory."""

    problem: Any
    choice: Choice
    seconds: float
    dram_read_bytes: float | None = None


@dataclass(frozen=True)
class Fit:
    """A device's model against measurements.

    `ratios` are predicted over measured times, one a measurement. `regrets` are, for each problem,
    the measured time of the candidate that the model ranks first among those measured, over the
    best measured time. `byte_ratios` are predicted over counted bytes, where they were counted.
    """

    ratios: tuple[float, ...]
    regrets: Mapping[str, float]
    byte_ratios: tuple[float, ...]

    @property
    def mean_ratio(self) -> float:
        """Geometric mean of predicted over measured."""
        return _geometric_mean(self.ratios)

    @property
    def spread(self) -> float:
        """Typical factor (root mean square of the logarithm) around the mean ratio."""
        mean = log(self.mean_ratio)
        return exp((sum((log(r) - mean) ** 2 for r in self.ratios) / len(self.ratios)) ** 0.5)

    @property
    def mean_regret(self) -> float:
        """Geometric mean of the regrets."""
        return _geometric_mean(tuple(self.regrets.values()))

    @property
    def worst_regret(self) -> float:
        """The largest regret."""
        return max(self.regrets.values())

    def __str__(self) -> str:
        text = (
            f"predicted/measured {self.mean_ratio:.3f} (spread x{self.spread:.3f}) over"
            f" {len(self.ratios)}; regret {self.mean_regret:.3f}, worst {self.worst_regret:.3f}"
            f" over {len(self.regrets)} problems"
        )
        if self.byte_ratios:
            text += f"; bytes {_geometric_mean(self.byte_ratios):.3f}"
        return text


def load_measurements(path: str | Path) -> list[Measurement]:
    """The measurements of a file. ValueError names the file and what is wrong in it."""
    try:
        return measurements_of(json.loads(Path(path).read_text()))
    except (KeyError, TypeError, ValueError) as error:
        detail = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"measurements in {path}: {detail}") from None


def measurements_of(record: Mapping[str, Any]) -> list[Measurement]:
    """The measurements of a file's plain values. KeyError, TypeError or ValueError for others."""
    instances = {i["name"]: Instance.from_dict(i) for i in record["instances"]}
    return [_measurement(entry, instances) for entry in record["measurements"]]


def _measurement(entry: Mapping[str, Any], instances: Mapping[str, Instance]) -> Measurement:
    names = [f.name for f in fields(GemmProblem) if f.name in entry]
    first, second = entry["cluster"]
    return Measurement(
        problem=GemmProblem(**{name: entry[name] for name in names}),
        choice=Choice(
            instance=instances[entry["instance"]],
            num_stages=entry["num_stages"],
            cluster=(first, second),
            order=Order(entry["order"], entry.get("order_param", 0)),
            splits=entry["splits"],
            grid=entry["grid"],
            swapped=entry.get("swapped", False),
            dynamic=entry.get("dynamic", False),
            splits_in_cluster=entry.get("splits_in_cluster", False),
        ),
        seconds=float(entry["seconds"]),
        dram_read_bytes=entry.get("dram_read_bytes"),
    )


def predict(measurement: Measurement, device: Device) -> Prediction:
    """What the device's model says of a measured candidate."""
    problem, choice = measurement.problem, measurement.choice
    group = family_named(problem.family).group_of(problem, device, choice)
    return group.predict(choice.order)


def check_fit(measurements: Sequence[Measurement], device: Device) -> Fit:
    """Compares the model with the measurements. ValueError when there are none."""
    if not measurements:
        raise ValueError("no measurements to compare with")
    predictions = [predict(m, device) for m in measurements]
    by_problem: dict[Any, list[tuple[float, float]]] = {}
    for m, p in zip(measurements, predictions, strict=True):
        by_problem.setdefault(m.problem, []).append((p.seconds, m.seconds))
    return Fit(
        ratios=tuple(p.seconds / m.seconds for m, p in zip(measurements, predictions, strict=True)),
        regrets={
            str(problem): min(pairs)[1] / min(measured for _, measured in pairs)
            for problem, pairs in by_problem.items()
        },
        byte_ratios=tuple(
            (p.bytes["a"] + p.bytes["b"]) / m.dram_read_bytes
            for m, p in zip(measurements, predictions, strict=True)
            if m.dram_read_bytes
        ),
    )


def fit_constants(
    measurements: Sequence[Measurement],
    device: Device,
    names: Iterable[str] = FITTED,
    *,
    rounds: int = 4,
) -> Device:
    """The device with those constants moved to agree best with the measurements.

    Coordinate search on a logarithmic scale. What is minimised is the squared error of the
    logarithms, that of differences within a problem counting four times as much as that of the
    problem's mean: a model is for ranking first. Candidates slower than twice the best of their
    problem are left out: nobody needs to know how slow they are.
    """
    best: dict[Any, float] = {}
    for m in measurements:
        best[m.problem] = min(m.seconds, best.get(m.problem, m.seconds))
    kept = [m for m in measurements if m.seconds <= 2 * best[m.problem]]
    names = [name for name in names if getattr(device, name) > 0]
    loss = _loss(kept, device)
    step = 1.3
    for _ in range(rounds):
        for name in names:
            for factor in (step, 1 / step):
                while True:
                    trial = replace(device, **{name: getattr(device, name) * factor})
                    trial_loss = _loss(kept, trial)
                    if trial_loss >= loss * (1 - 1e-4):
                        break
                    device, loss = trial, trial_loss
        step = step**0.5
    return device


def _loss(measurements: Sequence[Measurement], device: Device) -> float:
    errors: dict[Any, list[float]] = {}
    for m in measurements:
        error = log(predict(m, device).seconds / m.seconds)
        errors.setdefault(m.problem, []).append(error)
    total = 0.0
    for values in errors.values():
        mean = sum(values) / len(values)
        within = sum((value - mean) ** 2 for value in values) / len(values)
        total += mean**2 + 4 * within
    return total / len(errors)


def _geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(log(value) for value in values) / len(values))
