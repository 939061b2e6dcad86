"""Morton's walk ("Z order") over any rectangle: quarters of a square, each walked in the same way.

The square is the smallest of a power of two that encloses the grid; cells outside the grid are left
out. Tiles are in the order of the number whose bits are those of row and column in turns (G. M.
Morton, "A computer oriented geodetic data base", IBM, 1966). Unlike Hilbert's walk it jumps from
quarter to quarter.
"""

from __future__ import annotations


def morton_walk(rows: int, cols: int) -> list[tuple[int, int]]:
    """The (row, col) of every tile of the grid, in the order of the walk.

    Time grows with the tiles, not with the square: a quarter without any is not entered.
    """
    walk: list[tuple[int, int]] = []
    if rows < 1 or cols < 1:
        return walk
    size = 1 << (max(rows, cols) - 1).bit_length()
    stack = [(0, 0, size)]  # a square's first row and column, and its side; parts last first
    while stack:
        row, col, size = stack.pop()
        if row >= rows or col >= cols:
            continue
        if size == 1:
            walk.append((row, col))
            continue
        half = size // 2
        stack += [
            (row + half, col + half, half),
            (row + half, col, half),
            (row, col + half, half),
            (row, col, half),
        ]
    return walk
