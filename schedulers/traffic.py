"""Bytes that a walk over a product's tiles reads from memory, from the footprints of its waves.

A wave is what a persistent grid computes at one step. Its blocks march along K together, so each
row panel (tile rows x K of a) and column panel (K x tile columns of b) is read from memory once a
wave, unless the L2 cache still has it from an earlier wave. A panel's reuse distance in an LRU
cache is what was touched since; a few waves are sampled and stand for the rest. This is the quick
form of `tk.schedulers.l2`, for ranking.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from tk.schedulers.device import Device
from tk.schedulers.order import Order

_SAMPLED_WAVES = 6  # of the inner waves
LOOK_BACK = 16  # waves in which a panel may have been read before
SOFT = 0.25  # an LRU cache of this size +- 25% neither keeps nor loses everything


@dataclass(frozen=True)
class Panels:
    """Row and column panels read from memory over one walk; fractions come from partial hits."""

    rows: float
    cols: float


def wave_masks(order: Order, lo: int, hi: int, rows: int, cols: int) -> tuple[int, int]:
    """The rows and the columns that places lo..hi-1 of the walk touch, as sets of bits."""
    if order.kind == "grouped_m":
        return _banded_masks(lo, hi, order.param, rows, cols)
    if order.kind == "grouped_n":
        col_mask, row_mask = _banded_masks(lo, hi, order.param, cols, rows)
        return row_mask, col_mask
    if order.kind == "row":
        return _banded_masks(lo, hi, 1, rows, cols)
    if order.kind == "column":
        col_mask, row_mask = _banded_masks(lo, hi, 1, cols, rows)
        return row_mask, col_mask
    row_mask = col_mask = 0
    if order.kind == "snake":
        first, last = lo // cols, (hi - 1) // cols
        if last - first >= 2:
            return _span(first, last), _span(0, cols - 1)
        for line in range(first, last + 1):
            start = max(lo - line * cols, 0)
            end = min(hi - line * cols, cols) - 1
            row_mask |= 1 << line
            col_mask |= _span(cols - 1 - end, cols - 1 - start) if line % 2 else _span(start, end)
        return row_mask, col_mask
    for row, col in order.some_tiles(lo, hi, rows, cols):
        row_mask |= 1 << row
        col_mask |= 1 << col
    return row_mask, col_mask


def panels_read(
    order: Order,
    rows: int,
    cols: int,
    *,
    wave: float,
    row_bytes: float,
    col_bytes: float,
    device: Device,
) -> Panels:
    """Panels read from memory when `wave` tiles of a rows x cols grid run at a time.

    `row_bytes` and `col_bytes` are the bytes of one row panel and one column panel over all of K.
    With splits fewer tiles than blocks run at a time; less than one counts as one.
    """
    wave = max(wave, 1.0)
    # What all blocks read lies in every partition.
    capacity = device.l2_usable * device.l2_bytes / device.l2_partitions
    tiles = rows * cols
    if wave >= tiles:
        extra_rows, extra_cols = shared_misses(
            tiles, rows, cols, rows * row_bytes + cols * col_bytes, capacity, device
        )
        return Panels(rows + extra_rows, cols + extra_cols)
    if rows * row_bytes + cols * col_bytes <= (1 - SOFT) * capacity:
        return Panels(float(rows), float(cols))  # nothing is ever lost
    num_waves = -int(-tiles // wave)

    known: dict[int, tuple[int, int]] = {}

    def masks(index: int) -> tuple[int, int]:
        found = known.get(index)
        if found is None:
            lo = min(int(index * wave), tiles - 1)  # a fraction of a wave may be rounding
            hi = min(max(int((index + 1) * wave), lo + 1), tiles)
            found = known[index] = wave_masks(order, lo, hi, rows, cols)
        return found

    def read(index: int) -> tuple[float, float]:
        row_mask, col_mask = masks(index)
        new_rows = float(row_mask.bit_count())
        new_cols = float(col_mask.bit_count())
        footprint = new_rows * row_bytes + new_cols * col_bytes
        requests = min(wave, tiles - index * wave)
        extra_rows, extra_cols = shared_misses(
            requests, new_rows, new_cols, footprint, capacity, device
        )
        # Look back until what was touched since fills the cache, or until all of this wave's panels
        # (`own`) were met; each set is counted once.
        own_rows, own_cols = row_mask, col_mask
        since_rows = since_cols = num_since_rows = num_since_cols = 0
        for back in range(index - 1, max(index - 1 - LOOK_BACK, -1), -1):
            old_rows, old_cols = masks(back)
            # Between two uses of the same bytes lie all panels of the waves between, the part of
            # that wave that came after, and the part of this one before: half of each, on average.
            num_old_rows = (old_rows & ~since_rows).bit_count()
            num_old_cols = (old_cols & ~since_cols).bit_count()
            distance = row_bytes * (num_since_rows + (num_old_rows + own_rows.bit_count()) / 2)
            distance += col_bytes * (num_since_cols + (num_old_cols + own_cols.bit_count()) / 2)
            hit = hit_fraction(distance, capacity)
            if hit == 0:
                break
            new_rows -= hit * (old_rows & own_rows).bit_count()
            new_cols -= hit * (old_cols & own_cols).bit_count()
            own_rows &= ~old_rows
            own_cols &= ~old_cols
            if not (own_rows or own_cols):
                break
            since_rows |= old_rows
            since_cols |= old_cols
            num_since_rows += num_old_rows
            num_since_cols += num_old_cols
        return new_rows + extra_rows, new_cols + extra_cols

    if num_waves <= _SAMPLED_WAVES + 2:
        inner = list(range(1, num_waves - 1))
    else:
        step = (num_waves - 2) / _SAMPLED_WAVES
        inner = [1 + int((i + 0.5) * step) for i in range(_SAMPLED_WAVES)]
    total_rows = total_cols = 0.0
    for index in (0, num_waves - 1):
        r, c = read(index)
        total_rows += r
        total_cols += c
    if inner:
        reads = [read(index) for index in inner]
        scale = (num_waves - 2) / len(inner)
        total_rows += scale * sum(r for r, _ in reads)
        total_cols += scale * sum(c for _, c in reads)
    # Samples of fractional waves overlap a little; the bounds are exact.
    return Panels(
        min(max(total_rows, float(rows)), float(tiles)),
        min(max(total_cols, float(cols)), float(tiles)),
    )


def _span(first: int, last: int) -> int:
    return ((1 << (last - first + 1)) - 1) << first


def _banded_masks(lo: int, hi: int, width: int, lines: int, length: int) -> tuple[int, int]:
    """The lines and the places in a line that lo..hi-1 touch, for bands of `width` lines."""
    width = min(width, lines)
    per_band = width * length
    last = hi - 1
    first_band, last_band = lo // per_band, last // per_band
    lo -= first_band * per_band
    if first_band == last_band:
        return _band_masks(lo, last - first_band * per_band, first_band * width, width, lines)
    line_mask, place_mask = _band_masks(lo, per_band - 1, first_band * width, width, lines)
    end = _band_masks(0, last - last_band * per_band, last_band * width, width, lines)
    line_mask |= end[0]
    place_mask |= end[1]
    if last_band - first_band >= 2:
        line_mask |= _span((first_band + 1) * width, last_band * width - 1)
        place_mask |= _span(0, length - 1)
    return line_mask, place_mask


def _band_masks(start: int, end: int, first: int, width: int, lines: int) -> tuple[int, int]:
    """The same of places start..end of the band that begins at line `first`."""
    here = width if first + width <= lines else lines - first
    start_place, end_place = start // here, end // here
    place_mask = ((2 << (end_place - start_place)) - 1) << start_place
    start_line, end_line = start - start_place * here, end - end_place * here
    if start_place == end_place:
        return ((2 << (end_line - start_line)) - 1) << (first + start_line), place_mask
    if start_place + 1 < end_place or end_line + 1 >= start_line:
        return ((1 << here) - 1) << first, place_mask
    upper = ((1 << (here - start_line)) - 1) << start_line
    return (upper | ((2 << end_line) - 1)) << first, place_mask


def hit_fraction(distance: float, capacity: float) -> float:
    """How much of what was last used `distance` bytes ago is still there: 1 to 0, softly."""
    low, high = (1 - SOFT) * capacity, (1 + SOFT) * capacity
    if distance <= low:
        return 1.0
    return 0.0 if distance >= high else (high - distance) / (high - low)


def shared_misses(
    requests: float, rows: float, cols: float, footprint: float, capacity: float, device: Device
) -> tuple[float, float]:
    """Extra panels, because blocks of a wave drift apart along K and share imperfectly."""
    # Two places in a range are a third of it apart, on average.
    drift = device.wave_drift / 3 * footprint
    fraction = device.shared_miss_fraction
    if drift > 0:
        fraction += exp(-capacity / drift)
    fraction = min(fraction, 1.0)
    return fraction * max(requests - rows, 0.0), fraction * max(requests - cols, 0.0)
