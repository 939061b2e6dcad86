"""Constants of the time model fitted on one GPU, kept in a file for that device.

A calibration replaces the fitted constants of the catalogue's record (`tk.schedulers.fit.FITTED`)
and nothing else: what the driver reports and what data sheets say stays as it is. Imports neither
torch nor a GPU.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tk.schedulers.device import Device
from tk.schedulers.files import replace_file, sweep
from tk.schedulers.fit import FITTED
from tk.schedulers.store import StoreWarning

__all__ = ["Calibration", "calibrated", "calibration_file", "load_calibration"]

FORMAT = "tk calibration"
VERSION = 1
_LARGEST_FILE = 1 << 20  # bytes
_IDENTITY = ("name", "num_sms", "l2_bytes", "shared_memory_per_block")

_warned: set[str] = set()


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
        record = {"format": FORMAT, "version": VERSION, **asdict(self)}
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            replace_file(path, json.dumps(record, indent=1, allow_nan=False) + "\n")
        finally:
            sweep(path.parent)


def calibration_file(folder: Path, device: Device) -> Path:
    """The file of a device's calibration in a folder."""
    key = json.dumps([getattr(device, name) for name in _IDENTITY])
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    words = re.sub(r"[^A-Za-z0-9]+", "-", device.name).strip("-")[:40]
    return folder / f"{words}-{digest}.json"


def load_calibration(path: Path) -> Calibration:
    """The calibration in a file. OSError when it cannot be read, ValueError says what is wrong."""
    with path.open("rb") as file:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise ValueError("it is too long")
    try:
        record = json.loads(content.decode())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError("it is no JSON, or was cut off") from None
    if not isinstance(record, dict) or record.pop("format", None) != FORMAT:
        raise ValueError("it is no calibration")
    version = record.pop("version", None)
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        whose = "a newer tk" if newer else "another tk"
        raise ValueError(f"{whose} wrote it, with format version {version!r}; this reads {VERSION}")
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
        if str(path) not in _warned:
            _warned.add(str(path))
            reason = error.strerror if isinstance(error, OSError) else error
            warnings.warn(
                f"the calibration {path} is ignored: {reason}", StoreWarning, stacklevel=2
            )
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
