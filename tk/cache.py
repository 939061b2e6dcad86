"""A bounded mapping for several threads, whose hits cost one dict look-up and one store."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

__all__ = ["BoundedCache", "Entry"]


class Entry(Protocol):
    """What a cached value needs: a place for the time of its last use."""

    last_use: int


Value = TypeVar("Value", bound=Entry)


class BoundedCache(Generic[Value]):
    """Least recently used values go, a quarter at a time, when more than `capacity` are held.

    A hit takes no lock: it reads a dict and stores a counter, both atomic in CPython. A value may
    be made twice when two threads miss at once; the first one stored is kept and both get it.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 4:
            raise ValueError(f"capacity is {capacity}; must be at least 4")
        self.capacity = capacity
        self._values: dict[Hashable, Value] = {}
        self._lock = threading.Lock()
        self._clock = itertools.count()

    def get(self, key: Hashable) -> Value | None:
        """The value, marked as used now, or None."""
        value = self._values.get(key)
        if value is not None:
            value.last_use = next(self._clock)
        return value

    def get_or_make(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of `key`, made outside of the lock if there is none."""
        value = self.get(key)
        if value is not None:
            return value
        made = make()
        with self._lock:
            value = self._values.setdefault(key, made)
            value.last_use = next(self._clock)
            if len(self._values) > self.capacity:
                oldest = sorted(self._values, key=lambda k: self._values[k].last_use)
                for old in oldest[: max(1, self.capacity // 4)]:
                    del self._values[old]
        return value

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)
