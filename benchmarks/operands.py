"""Operands of a product: random normal values in each of the four layouts."""

from __future__ import annotations

import torch

from tk.benchmarks.shapes import Shape
from tk.schedulers import GemmProblem

LAYOUTS = ("nt", "nn", "tn", "tt")
"""First letter: a is as stored (M, K) "n" or a transposed view of (K, M) "t"; second: the same of
b, (K, N) or a view of (N, K). "nt" is ``x @ w.t()`` of a linear layer, "nn" is ``a @ b``."""

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_OUT_DTYPES = {**DTYPES, "fp32": torch.float32}


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


def operands_of(
    problem: GemmProblem, device: torch.device, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """a, b and an empty out of a problem: (M, K), (K, N) and (M, N), each with the batch before
    them when it is not 1, in memory that is loaded as the problem says.

    For TMA leading strides are multiples of 16 bytes; what TMA cannot load lies at an odd address.
    The output is dense.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    tma, batch = problem.loader == "tma", problem.batch

    def normal(rows: int, columns: int, row_contiguous: bool) -> torch.Tensor:
        lines, length = (rows, columns) if row_contiguous else (columns, rows)
        stride = -(-length // 8) * 8 if tma else length
        offset = 0 if tma else 1
        memory = torch.randn(
            offset + batch * lines * stride,
            generator=generator,
            device=device,
            dtype=DTYPES[problem.dtype],
        )
        made = memory[offset:].view(batch, lines, stride)[..., :length]
        made = made if row_contiguous else made.transpose(1, 2)
        return made[0] if batch == 1 else made

    m, n, k = problem.m, problem.n, problem.k
    a = normal(m, k, problem.a_major == "k")
    b = normal(k, n, problem.b_major == "n")
    sizes = (m, n) if batch == 1 else (batch, m, n)
    return a, b, torch.empty(sizes, dtype=_OUT_DTYPES[problem.out_dtype], device=device)


def parse_layouts(text: str) -> list[str]:
    """Layouts from "nt,nn"; ValueError says which are known."""
    layouts = [part.strip().lower() for part in text.split(",") if part.strip()]
    for layout in layouts:
        if layout not in LAYOUTS:
            raise ValueError(f"'{layout}' is no layout: choose among {', '.join(LAYOUTS)}")
    if not layouts:
        raise ValueError(f"no layout given: choose among {', '.join(LAYOUTS)}")
    return layouts
