"""What depends on a device and an instance table alone, kept for the last few of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from tk.schedulers.device import Device
from tk.schedulers.instance import Instance

__all__ = ["TableMemo"]

Value = TypeVar("Value")
_TABLES = 8  # that are remembered


class TableMemo(Generic[Value]):
    """A value for each pair of a device and an instance table.

    Both are known again as objects: to compare them field by field would take longer than much of
    what is remembered. A list that was changed in place is another table.
    """

    def __init__(self, make: Callable[[Device, tuple[Instance, ...]], Value]) -> None:
        self._make = make
        self._known: tuple[tuple[Device, tuple[Instance, ...], Value], ...] = ()

    def get(self, device: Device, instances: Sequence[Instance]) -> Value:
        """The value, made if it is not known. Two threads may both make it; one of them stays."""
        table = instances if type(instances) is tuple else tuple(instances)
        for known_device, known_table, value in self._known:
            if known_device is device and known_table == table:
                return value
        value = self._make(device, table)
        self._known = ((device, table, value), *self._known[: _TABLES - 1])
        return value
