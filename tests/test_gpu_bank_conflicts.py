"""The wavefronts that ncu measures of a sample of the library's accesses to shared memory are those
that bank_conflicts.hpp counts."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from pathlib import Path

import host_programs
import pytest
import tile_tables
from gpu_programs import gpu_program

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

_REPEATS = 64  # of tests/cpp/gpu_bank_conflicts.cu
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"


def _measure(program: Path) -> tuple[str, dict[tuple[str, str], int]]:
    """What the program prints, and every metric by (kernel, name)."""
    ncu = shutil.which("ncu", path=None) or shutil.which("ncu", path="/usr/local/cuda/bin")
    if ncu is None:
        pytest.skip("needs ncu")
    metrics = [name.format(access) for name in (_WAVEFRONTS, _CONFLICTS) for access in ("ld", "st")]
    done = subprocess.run(
        [
            *(ncu, "--clock-control", "none", "--csv", "--print-units", "base"),
            *("--metrics", ",".join(metrics), str(program)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if "ERR_NVGPUCTRPERM" in done.stdout + done.stderr:
        pytest.skip("counters are not open to this user")
    assert done.returncode == 0, done.stdout + done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith('"')]
    values = {}
    for row in csv.DictReader(io.StringIO("\n".join(table))):
        kernel = row["Kernel Name"].partition("(")[0]
        values[kernel, row["Metric Name"]] = int(float(row["Metric Value"].replace(",", "")))
    lines = [line for line in done.stdout.splitlines() if line.count("|") == 5]
    return "\n".join(lines), values


def test_measured_wavefronts_are_the_counted_ones(tmp_path: Path) -> None:
    name = "gpu_bank_conflicts"
    program, counters = _measure(gpu_program(tmp_path, name, f"{name}.cu", "-lcuda"))
    counted = host_programs.run("host_bank_conflicts", "plain")
    costs: dict[tuple[str, str, int, str], list[tile_tables.Cost]] = {}
    for cost in tile_tables.read_costs(counted.stdout):
        key = (cost.operation, cost.dtype, cost.swizzle, cost.shape)
        costs.setdefault(key, []).append(cost)
    wrong = []
    for line in program.splitlines():
        kernel, access, operation, dtype, swizzle, shape = line.split("|")
        # parts of larger tiles have the same shape, and cost the same
        (expected, fewest), *others = {
            (cost.wavefronts, cost.fewest) for cost in costs[operation, dtype, int(swizzle), shape]
        }
        assert not others, kernel
        measured = counters[kernel, _WAVEFRONTS.format(access)]
        conflicts = counters[kernel, _CONFLICTS.format(access)]
        found = (measured / _REPEATS, conflicts / _REPEATS)
        if found != pytest.approx((expected, expected - fewest), rel=0.02, abs=0.5):
            wrong.append(f"{kernel}: measured {found}, counted {(expected, expected - fewest)}")
    assert not wrong, "\n".join(wrong)
