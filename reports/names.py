"""How records are spoken of: the candidates' names, and a row's problem in words."""

from __future__ import annotations

from tk.benchmarks.record import Row

OURS = "tk"
RIVAL = "torch"


def problem_text(row: Row) -> str:
    """M x N x K, with the batch when there is one; a star when it is not in the mean."""
    shape = f"{row.m}x{row.n}x{row.k}{'' if row.in_mean else '*'}"
    return shape if row.batch == 1 else f"{row.batch}x{shape}"
