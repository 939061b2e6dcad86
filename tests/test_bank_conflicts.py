"""Bank conflicts of every pattern of access to every kind of shared tile, held to a table."""

from __future__ import annotations

import host_programs

# Wavefronts over the fewest possible, by dtype and pattern; all other patterns take the fewest.
_KNOWN = {
    # A column of a swizzled tile repeats its banks after 8 rows.
    ("bf16", "column_walk"): {4.0},
    ("fp32", "column_walk"): {4.0},
    # Two rows of an accumulator's 32 bytes fall into one pair of 16-byte units; and of 8 columns
    # a lane every second unit is read, in tiles of two panels the same ones of both. That is what
    # the epilogue's way through fp32 pieces costs.
    ("fp32", "accumulators"): {2.0},
    ("fp32", "eight_columns"): {1.0, 2.0},
}


def test_every_access_takes_the_wavefronts_it_is_known_to_take() -> None:
    done = host_programs.run("host_bank_conflicts", "plain")
    assert done.returncode == 0, done.stdout
    found: dict[tuple[str, str], set[float]] = {}
    for line in done.stdout.splitlines():
        tile, result = line.split(": ")
        pattern, ratio = result.split()
        if float(ratio) > 0:
            found.setdefault((tile.split()[0], pattern), set()).add(float(ratio))
    patterns = {"matrices", "accumulators", "vectors", "eight_columns", "row_walk", "column_walk"}
    assert {pattern for _, pattern in found} == patterns
    assert found == {key: _KNOWN.get(key, {1.0}) for key in found}
