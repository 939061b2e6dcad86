"""Operands of a product: random normal values in each of the four layouts."""

from __future__ import annotations

import torch

from tk.benchmarks.shapes import Shape
from tk.schedulers import GemmProblem

LAYOUTS = ("nt", "nn", "tn", "tt")
"""First letter: a is as stored (M, K) "n" or a transposed view of (K, M) "t"; second: the same of
b, (K, N) or a view of (N, K). "nt" is ``x @ w.t()`` of a linear layer, "nn" is ``a @ b``."""

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def make_operands(
    shape: Shape, layout: str, dtype: str, device: torch.device, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """a (M, K) and b (K, N), independent normal values, as views of what the layout stores."""
    generator = torch.Generator(device=device).manual_seed(seed)

    def normal(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator, device=device, dtype=DTYPES[dtype])

    m, n, k = shape.m, shape.n, shape.k
    a = normal(m, k) if layout[0] == "n" else normal(k, m).t()
    b = normal(k, n) if layout[1] == "n" else normal(n, k).t()
    return a, b


def problem_of(shape: Shape, layout: str, dtype: str) -> GemmProblem:
    """The problem that ``make_operands`` makes, as planning sees it.

    The loader is TMA's when every leading stride is a multiple of 16 bytes.
    """
    m, n, k = shape.m, shape.n, shape.k
    a_row = k if layout[0] == "n" else m
    b_row = n if layout[1] == "n" else k
    aligned = a_row % 8 == 0 and b_row % 8 == 0
    return GemmProblem(
        m,
        n,
        k,
        dtype=dtype,
        a_major="k" if layout[0] == "n" else "m",
        b_major="n" if layout[1] == "n" else "k",
        loader="tma" if aligned else "gather",
        out_dtype=dtype,
    )


def parse_layouts(text: str) -> list[str]:
    """Layouts from "nt,nn"; ValueError says which are known."""
    layouts = [part.strip().lower() for part in text.split(",") if part.strip()]
    for layout in layouts:
        if layout not in LAYOUTS:
            raise ValueError(f"'{layout}' is no layout: choose among {', '.join(LAYOUTS)}")
    if not layouts:
        raise ValueError(f"no layout given: choose among {', '.join(LAYOUTS)}")
    return layouts
