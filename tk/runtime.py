"""The kernel libraries, their instance tables and the devices they run on, each loaded when first
needed, once, by whichever thread comes first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from tk import _binding
from tk.schedulers.attention_problem import AttentionInstance
from tk.schedulers.calibration import calibrated as with_calibration
from tk.schedulers.device import Device
from tk.schedulers.instance import Instance
from tk.schedulers.rotary import RotaryInstance
from tk.user_cache import user_cache_dir

__all__ = [
    "Backend",
    "backend",
    "calibration_dir",
    "device",
    "has_library",
    "instances",
    "library",
    "library_path",
    "library_version",
]

KINDS = ("host", "cuda")
"""Kinds of library: "host" runs CPU tensors, "cuda" CUDA tensors."""

_REMEDIES = {
    "host": "tk's installation is incomplete, install it again",
    "cuda": "tk was built without its CUDA kernels, install it where nvcc is found",
}

# Of each family: reads its table of instances, and makes one of a line of it.
_TABLES: dict[
    str, tuple[Callable[[_binding.Library], list[dict[str, Any]]], Callable[..., Any]]
] = {
    "gemm": (lambda library: library.matmul_instances(), Instance.from_dict),
    "attention": (lambda library: library.attention_instances(), AttentionInstance.from_dict),
    "rotary": (lambda library: library.rotary_instances(), RotaryInstance.from_dict),
}

_lock = threading.RLock()
_libraries: dict[str, _binding.Library] = {}
_instances: dict[tuple[str, str], tuple[Any, ...]] = {}
_backends: dict[tuple[str, int], Backend] = {}


@dataclass(frozen=True)
class Backend:
    """What runs the tensors of one device: a library, its instances of the matrix product, and the
    device in numbers.

    `index` is the device's number for the library, 0 for the host.
    """

    kind: str
    index: int
    library: _binding.Library
    instances: tuple[Instance, ...]
    device: Device

    def table(self, family: str) -> tuple[Any, ...]:
        """The library's instances of a family of kernels."""
        return instances(self.kind, family)


def library_version() -> str:
    """This library's version, as installed."""
    try:
        return metadata.version("tk-cute")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def library_path(kind: str) -> Path:
    """Where the library of that kind is, or would be: beside the compiled binding."""
    if kind not in KINDS:
        raise ValueError(f'library kind is "{kind}"; must be "host" or "cuda"')
    assert _binding.__file__ is not None
    return Path(_binding.__file__).parent / "lib" / f"libtk_{kind}.so"


def has_library(kind: str) -> bool:
    """Whether this build contains the library of that kind."""
    return library_path(kind).is_file()


def library(kind: str) -> _binding.Library:
    """The loaded library. RuntimeError when this build has none, OSError when it cannot load."""
    found = _libraries.get(kind)
    if found is not None:
        return found
    with _lock:
        if kind not in _libraries:
            path = library_path(kind)
            if not path.is_file():
                raise RuntimeError(f"no {kind} library at {path}: {_REMEDIES[kind]}")
            _libraries[kind] = _binding.Library(str(path))
        return _libraries[kind]


def instances(kind: str, family: str = "gemm") -> tuple[Any, ...]:
    """The instances of a family that the library holds, of its own class; index i is place i."""
    found = _instances.get((kind, family))
    if found is not None:
        return found
    with _lock:
        if (kind, family) not in _instances:
            read, made = _TABLES[family]
            _instances[kind, family] = tuple(map(made, read(library(kind))))
        return _instances[kind, family]


def calibration_dir() -> Path | None:
    """Where `tk calibrate` keeps its files; None when no home folder is known."""
    try:
        return user_cache_dir() / "devices"
    except RuntimeError:
        return None


def device(where: torch.device, *, calibrated: bool = True) -> Device:
    """The numbers of a torch device as planning sees them, with the constants that `tk calibrate`
    fitted on it unless `calibrated` is False. ValueError for a device we cannot use."""
    if where.type == "cpu":
        return Device.named("host")
    if where.type != "cuda":
        raise ValueError(f"device is {where}; must be a CPU or a CUDA device")
    properties: Any = torch.cuda.get_device_properties(where)
    if (properties.major, properties.minor) != (9, 0):
        raise ValueError(
            f"device {where} is {properties.name}, of compute capability "
            f"{properties.major}.{properties.minor}; tk's kernels need 9.0 (Hopper)"
        )
    kilohertz = getattr(properties, "clock_rate", None)
    found = Device.from_properties(
        name=properties.name,
        num_sms=properties.multi_processor_count,
        shared_memory_per_block=properties.shared_memory_per_block_optin,
        l2_bytes=properties.L2_cache_size,
        clock_hz=None if not kilohertz else kilohertz * 1e3,
    )
    folder = calibration_dir() if calibrated else None
    return found if folder is None else with_calibration(found, folder, library_version())


def backend(where: torch.device) -> Backend:
    """What runs tensors on that device. ValueError or RuntimeError when nothing does."""
    if str(where) == "cuda":  # no index: the current device
        where = torch.device("cuda", torch.cuda.current_device())
    index = where.index or 0
    key = (where.type, index)
    found = _backends.get(key)
    if found is not None:
        return found
    with _lock:
        if key not in _backends:
            numbers = device(where)
            kind = "host" if where.type == "cpu" else "cuda"
            _backends[key] = Backend(kind, index, library(kind), instances(kind), numbers)
        return _backends[key]
