"""A time counts only if the output was right before it was taken, and still is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tk.benchmarks.record import OK, Result, Timing

__all__ = ["confirm"]


def confirm(
    results: list[Result],
    places: Sequence[int],
    timings: Sequence[Timing],
    check: Callable[[int], Result],
) -> None:
    """Gives the results at these places their timings, if ``check`` finds each right once more."""
    for place, timing in zip(places, timings, strict=True):
        again = check(place)
        if again.status == OK:
            results[place] = replace(results[place], timing=timing)
        else:
            results[place] = replace(again, reason=f"right at first, wrong later: {again.reason}")
