"""A Hilbert-like walk over any rectangle, not only squares of a power of two.

The construction is the generalised Hilbert curve of Jakub Cerveny (2018): a rectangle is cut in two
when it is long, and otherwise into the three arms of Hilbert's "U", each of which is a rectangle
again. Consecutive tiles touch, by a side or, where an odd size leaves no other way, by a corner.
"""

from __future__ import annotations


def hilbert_walk(rows: int, cols: int) -> list[tuple[int, int]]:
    """The (row, col) of every tile of the grid, in the order of the walk.

    Points are complex numbers, column + row * 1j, so that turning a rectangle is a multiplication.
    """
    walk: list[tuple[int, int]] = []
    # A rectangle is its entry corner and two sides; the walk runs along `main` and ends at the
    # tile farthest along it. The stack replaces recursion; parts are pushed last first.
    if rows < 1 or cols < 1:
        return walk
    start = (0j, complex(cols), 1j * rows) if cols >= rows else (0j, 1j * rows, complex(cols))
    stack = [start]
    while stack:
        corner, main, side = stack.pop()
        length, height = int(abs(main)), int(abs(side))
        step, turn = main / length, side / height
        if height == 1 or length == 1:
            direction = step if height == 1 else turn
            for _ in range(max(length, height)):
                walk.append((int(corner.imag), int(corner.real)))
                corner += direction
            continue
        if 2 * length > 3 * height:
            # Long: two rectangles one after the other, the first of even length if it can be.
            first = _even_half(length) * step
            stack.append((corner + first, main - first, side))
            stack.append((corner, first, side))
            continue
        # Up one arm, across the top, down the other arm.
        rise = _even_half(height) * turn
        arm = (length // 2) * step
        stack.append((corner + main - step + rise - turn, -rise, arm - main))
        stack.append((corner + rise, main, side - rise))
        stack.append((corner, rise, arm))
    return walk


def _even_half(size: int) -> int:
    half = size // 2
    return half + 1 if half % 2 and size > 2 else half
