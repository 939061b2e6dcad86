"""Clocks, power and driver of a GPU from NVIDIA's management library, when there is one.

Through ctypes, since a few microseconds' call is wanted while kernels run and a Python package
for three functions is not. Nothing here changes a setting of the card.
"""

from __future__ import annotations

import ctypes
from typing import Any

_SM_CLOCK = 1
_MEMORY_CLOCK = 2
_TEMPERATURE_GPU = 0


class Card:
    """One GPU by its PCI bus id; every reading is None where the driver gives none."""

    def __init__(self, pci_bus_id: str) -> None:
        self._library: Any = None
        self._handle = ctypes.c_void_p()
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if library.nvmlInit_v2() != 0:
            return
        found = library.nvmlDeviceGetHandleByPciBusId_v2(
            pci_bus_id.encode(), ctypes.byref(self._handle)
        )
        if found == 0:
            self._library = library

    def driver(self) -> str:
        """Version of the driver, empty when unknown."""
        if self._library is None:
            return ""
        text = ctypes.create_string_buffer(96)
        if self._library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text))) != 0:
            return ""
        return text.value.decode(errors="replace")

    def sm_clock_mhz(self) -> float | None:
        """Present clock of the multiprocessors in MHz."""
        return self._number("nvmlDeviceGetClockInfo", ctypes.c_uint(_SM_CLOCK))

    def memory_clock_mhz(self) -> float | None:
        """Present clock of the memory in MHz."""
        return self._number("nvmlDeviceGetClockInfo", ctypes.c_uint(_MEMORY_CLOCK))

    def power_watts(self) -> float | None:
        """Present power in watts (a moving mean on most cards)."""
        milliwatts = self._number("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else milliwatts * 1e-3

    def power_limit_watts(self) -> float | None:
        """The power limit in force, in watts."""
        milliwatts = self._number("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else milliwatts * 1e-3

    def temperature_celsius(self) -> float | None:
        """Temperature of the GPU in degrees Celsius."""
        return self._number("nvmlDeviceGetTemperature", ctypes.c_uint(_TEMPERATURE_GPU))

    def readings(self) -> dict[str, float]:
        """All of the above that are known, by name."""
        known = {
            "sm_clock_mhz": self.sm_clock_mhz(),
            "memory_clock_mhz": self.memory_clock_mhz(),
            "power_watts": self.power_watts(),
            "power_limit_watts": self.power_limit_watts(),
            "temperature_celsius": self.temperature_celsius(),
        }
        return {name: value for name, value in known.items() if value is not None}

    def _number(self, function: str, *arguments: Any) -> float | None:
        if self._library is None:
            return None
        value = ctypes.c_uint(0)
        try:
            status = getattr(self._library, function)(self._handle, *arguments, ctypes.byref(value))
        except AttributeError:
            return None
        return float(value.value) if status == 0 else None
