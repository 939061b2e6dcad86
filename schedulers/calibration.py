"""Constants of the time model fitted on one GPU, kept in a file for that device.

A calibration replaces the fitted constants of the catalogue's record (`tk.schedulers.fit.FITTED`)
and nothing else: what the driver reports and what data sheets say stays as it is. Imports neither
torch nor a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tk.schedulers.device import Device
from tk.schedulers.fit import FITTED
from tk.schedulers.kept import digest, put_record, read_record, words
from tk.schedulers.store import warn_once

__all__ = ["Calibration", "calibrated", "calibration_file", "load_calibration"]

FORMAT = "tk calibration"
VERSION = 1
_IDENTITY = ("name", "num_sms", "l2_bytes", "shared_memory_per_block")


@dataclass(frozen=True)
class Calibration:
    """Fitted constants, the device that they were fitted on, and how well they agree.

    `constants` has fields of `Device` in their units (bytes/s, s, J). `spread` is the typical
    factor between predicted and measured times, `regret` the geometric mean of the time of the
    model's first choice over the best measured, `problems` how many it was taken over.
    """

    device: Mapping[str, Any]
    constants: Mapping[str, float]
    library: str  # our version
    when: str  # ISO 8601, UTC
    spread: float
    regret: float
    problems: int

    @staticmethod
    def of(
        device: Device, *, library: str, when: str, spread: float, regret: float, problems: int
    ) -> Calibration:
        """The calibration that makes a catalogue's record into `device`."""
        return Calibration(
            device={name: getattr(device, name) for name in _IDENTITY},
            constants={name: getattr(device, name) for name in FITTED},
            library=library,
            when=when,
            spread=spread,
            regret=regret,
            problems=problems,
        )

    def applied(self, device: Device) -> Device:
        """The device with these constants. ValueError when they are another device's."""
        for name in _IDENTITY:
            ours, theirs = self.device.get(name), getattr(device, name)
            if ours != theirs:
                raise ValueError(f"it is for a device whose {name} is {ours}, not {theirs}")
        source = f"[calibrated] {self.when}"
        changes: dict[str, Any] = dict(self.constants)
        return replace(device, **changes, sources={**device.sources, "others": source})

    def save(self, path: Path) -> None:
        """Writes it in one step; the folder is made. OSError when that cannot be."""
        put_record(path, {"format": FORMAT, "version": VERSION, **asdict(self)})


def calibration_file(folder: Path, device: Device) -> Path:
    """The file of a device's calibration in a folder."""
    key = [getattr(device, name) for name in _IDENTITY]
    return folder / f"{words(device.name)}-{digest(key)}.json"


def load_calibration(path: Path) -> Calibration:
    """The calibration in a file. OSError when it cannot be read, ValueError says what is wrong."""
    record = read_record(path, "calibration", FORMAT, VERSION)
    del record["format"], record["version"]
    try:
        found = Calibration(**record)
    except TypeError as error:
        raise ValueError(f"it is malformed: {error}") from None
    _check(found)
    return found


def calibrated(device: Device, folder: Path, library: str) -> Device:
    """The device with the constants of its file in `folder`, as it is when there is none.

    A file that is damaged, of another version of the library or for another device is ignored, with
    one warning that names it.
    """
    path = calibration_file(folder, device)
    try:
        found = load_calibration(path)
        if found.library != library:
            raise ValueError(f"version {found.library} of the library made it; this is {library}")
        return found.applied(device)
    except (FileNotFoundError, NotADirectoryError):
        return device
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        warn_once(str(path), f"the calibration {path} is ignored: {reason}")
        return device


def _check(found: Calibration) -> None:
    for name in ("device", "constants"):
        if not isinstance(getattr(found, name), dict):
            raise ValueError(f"its {name} is {getattr(found, name)!r}")
    missing = sorted(set(FITTED) ^ set(found.constants))
    if missing:
        raise ValueError(f"it lacks or has beside the model's constants: {', '.join(missing)}")
    for name, value in found.constants.items():
        is_number = isinstance(value, float | int) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value < 0:
            raise ValueError(f"its {name} is {value!r}")
