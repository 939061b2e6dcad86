"""What depends on a device and an instance table alone, kept for the last few of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, Generic, TypeVar

from tk.schedulers.device import Device
from tk.schedulers.instance import TableLine

__all__ = ["TableMemo"]

Value = TypeVar("Value")
_TABLES = 8  # that are remembered


class TableMemo(Generic[Value]):
    """A value for each pair of a device and an instance table.

    Both are known again as objects: to compare them field by field would take longer than much of
    what is remembered. A tuple is known at a glance; a list is looked through, since it may have
    been changed in place.
    """

    def __init__(self, make: Callable[[Device, tuple[Any, ...]], Value]) -> None:
        self._make = make
        self._known: tuple[tuple[Device, tuple[Any, ...], Value], ...] = ()

    def get(self, device: Device, instances: Sequence[TableLine]) -> Value:
        """The value, made if it is not known. Two threads may both make it; one of them stays."""
        for known_device, known_table, value in self._known:
            if known_device is device and known_table is instances:
                return value
        found = None
        others = []
        for entry in self._known:
            if entry[0] is device and _same(entry[1], instances):
                found = entry
            else:
                others.append(entry)
        table = tuple(instances)
        value = self._make(device, table) if found is None else found[2]
        self._known = ((device, table, value), *others[: _TABLES - 1])
        return value


def _same(first: Sequence[TableLine], second: Sequence[TableLine]) -> bool:
    return len(first) == len(second) and all(map(is_, first, second))
