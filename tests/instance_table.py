"""The matrix product's instances without a built library: its table's lines, read as text."""

from __future__ import annotations

import re
from pathlib import Path

from tk.schedulers import Instance

ROOT = Path(__file__).resolve().parent.parent
_LINE = re.compile(r"^TK_MATMUL_INSTANCE\(([^)]*)\)", re.MULTILINE)


def matmul_instances() -> list[Instance]:
    """Every line of cpp/kernels/gemm/instances.inc, with shared memory as the kernel has it."""
    text = (ROOT / "cpp" / "kernels" / "gemm" / "instances.inc").read_text()
    found = []
    for index, match in enumerate(_LINE.finditer(text)):
        dtype, a_major, b_major, loader, *numbers = (w.strip() for w in match[1].split(","))
        tile_m, tile_n, tile_k, consumers = (int(number) for number in numbers)
        staged_tiles = 3 if tile_n % 192 == 0 else 2  # of the output, beside votes and barriers
        found.append(
            Instance(
                index=index,
                name=f"{dtype}_{a_major}{b_major}_{loader}_{tile_m}x{tile_n}x{tile_k}",
                dtype=dtype,
                a_major=a_major,
                b_major=b_major,
                loader=loader,
                tile_m=tile_m,
                tile_n=tile_n,
                tile_k=tile_k,
                consumer_warpgroups=consumers,
                bytes_per_stage=(tile_m + tile_n) * tile_k * 2,
                fixed_bytes=consumers * staged_tiles * 64 * min(tile_n, 64) * 2 + 2048,
                max_stages=16,
                bytes_per_part=_bytes_per_part(loader, tile_m // consumers, tile_n),
            )
        )
    return found


def _bytes_per_part(loader: str, rows: int, tile_n: int) -> int:
    """What a consumer sends to another block of its cluster: 64 rows of at most 128 columns."""
    return rows * tile_n * 4 if loader == "tma" and rows == 64 and tile_n <= 128 else 0
