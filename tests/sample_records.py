"""Records that the tests of records, reports and the command line share."""

from __future__ import annotations

from dataclasses import replace

from tk.benchmarks.record import OK, Environment, Record, Result, Row, Timing


def make_row(seconds: float, rival_seconds: float, **changes: object) -> Row:
    row = Row(
        m=4096,
        n=4096,
        k=64,
        layout="nt",
        dtype="bf16",
        floating_point_operations=2.0 * 4096 * 4096 * 64,
        necessary_bytes=34.6e6,
        roof_seconds=8.1e-6,
        results=[
            Result("torch", OK, Timing(rival_seconds, rival_seconds, rival_seconds, 50), 1.66e-3),
            Result(
                "tk",
                OK,
                Timing(seconds, 0.99 * seconds, 1.01 * seconds, 50),
                error=1.66e-3,
                largest_error=0.01,
                plan={"choice": {"splits": 1}},
                plan_text="128x256x64 4st 2x1 row",
            ),
        ],
    )
    return replace(row, **changes)


def make_record(rows: list[Row], **changes: object) -> Record:
    environment = Environment(
        timestamp="2026-01-01T00:00:00+00:00",
        device="NVIDIA H200",
        architecture="sm90",
        driver="580.1",
        num_sms=132,
        l2_bytes=60 * 2**20,
        clocks={"sm_clock_mhz": 1980.0, "power_limit_watts": 700.0},
        versions={"tk": "0.1.0", "torch": "2.11.0"},
        git_revision="0123456789ab",
    )
    return replace(Record("gemm", environment, {"seconds": 0.1}, rows), **changes)
