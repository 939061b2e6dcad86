"""What a model predicts of a candidate, and the few formulas that every family's model shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tk.schedulers.device import MOST, Device


@dataclass(frozen=True)
class Prediction:
    """A predicted time with what it is made of.

    `parts` add up to `seconds`. `busy` says for how long each resource would be busy if it were the
    only one: the largest is what the candidate is bound by. `bytes` are from and to memory by
    operand, and "l2" those from L2 into the multiprocessors.
    """

    seconds: float
    parts: Mapping[str, float] = field(hash=False)
    busy: Mapping[str, float] = field(hash=False)
    bytes: Mapping[str, float] = field(hash=False)
    flops: float
    waves: float
    pipeline: str = ""  # the ring's depth and what limits it

    @property
    def bound_by(self) -> str:
        """The resource that is busy longest."""
        return max(self.busy, key=self.busy.__getitem__)

    @property
    def dram_bytes(self) -> float:
        """Bytes from and to memory, all operands."""
        return sum(count for name, count in self.bytes.items() if name != "l2")

    @property
    def flops_per_second(self) -> float:
        """Useful FLOP/s."""
        return self.flops / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "seconds": self.seconds,
            "parts": dict(self.parts),
            "busy": dict(self.busy),
            "bytes": dict(self.bytes),
            "flops": self.flops,
            "waves": self.waves,
            "pipeline": self.pipeline,
        }

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Prediction:
        """The inverse of `to_dict`. TypeError when a figure is none, ValueError when it
        is infinite, or when there is no time."""
        made = Prediction(**record)
        if not isinstance(made.pipeline, str):
            raise TypeError(f"{made.pipeline!r} is no text")
        figures = [made.seconds, made.flops, made.waves]
        for part in (made.parts, made.busy, made.bytes):
            if not isinstance(part, Mapping):
                raise TypeError(f"{part!r} is no mapping of figures")
            figures += dict(part).values()
        for figure in figures:
            if not isinstance(figure, (int, float)) or isinstance(figure, bool):
                raise TypeError(f"{figure!r} is no number")
            if not abs(figure) <= MOST:
                raise ValueError(f"a predicted figure is {str(figure)[:20]}; needs a finite number")
        if not made.seconds > 0 or not made.busy:
            raise ValueError(f"a predicted time is {made.seconds!r}, of {len(made.busy)} resources")
        return made


def overlapped(exponent: float, *seconds: float) -> float:
    """Time of activities that overlap: the p-norm, between their maximum and their sum.

    Real overlap is imperfect where two activities take about as long; p says how imperfect.
    """
    longest = max(seconds)
    if longest <= 0:
        return 0.0
    total = 0.0
    for value in seconds:
        if value > 0:
            total += (value / longest) ** exponent
    return float(longest * total ** (1 / exponent))


def power_limited(device: Device, seconds: float, joules: float) -> float:
    """Time of work of `seconds` at full clock and `joules` under the device's power limit.

    Energy grows with the square of the voltage, and that with the clock, so a lower clock saves
    energy: time grows more slowly than the excess of power. Work much shorter than the ramp is
    over before the limit is enforced.
    """
    if device.power_watts <= 0 or seconds <= 0:
        return seconds
    excess = joules / (device.power_watts * seconds)
    if excess <= 1:
        return seconds
    enforced = seconds / (seconds + device.power_ramp_s)
    return float(seconds * excess ** (device.power_exponent * enforced))
