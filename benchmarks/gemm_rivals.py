"""The rivals that can compute a matrix product, as candidates of the suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch

from tk.benchmarks.rivals import for_family
from tk.benchmarks.selection import TORCH, Candidate

DEFAULT = ("torch", "triton")  # where installed; torch.compile takes minutes a shape to tune

Run = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]


def choose_rivals(text: str | None, device: torch.device) -> list[str]:
    """The names in "torch,triton", or the default ones that are installed; ValueError says why one
    cannot be measured. On a CPU torch alone is there to be compared with.

    torch is always among them: it is the yardstick of right and wrong.
    """
    known = for_family("gemm")
    if device.type != "cuda":
        if text not in (None, "torch"):
            raise ValueError(f"rivals {text}: only torch is measured without a GPU")
        return ["torch"]
    if text is None:
        return [name for name in DEFAULT if name == "torch" or known[name].present]
    names = list(known) if text == "all" else [part.strip() for part in text.split(",")]
    for name in names:
        if name not in known:
            raise ValueError(f"'{name}' is no rival of the product; there are {', '.join(known)}")
        if text != "all" and not known[name].present:
            rival = known[name].rival
            raise ValueError(f"{rival.title} is not installed: {rival.install}")
    present = [name for name in names if known[name].present]
    return ["torch", *(name for name in present if name != "torch")]


def rival_candidates(names: Sequence[str]) -> list[Candidate]:
    """Candidates of these names; what they need is imported when they first run."""
    return [TORCH if name == "torch" else Candidate(name, _RUNS[name]()) for name in names]


@cache
def _triton() -> Run:
    def run(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        from tk.benchmarks.triton_gemm import matmul

        matmul(a, b, out)

    return run


@cache
def _compile() -> Run:
    """torch.compile with its longest search; the product is written to ``out``, as ours is."""

    def product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        torch.mm(a, b, out=out)

    compiled: Run = torch.compile(product, mode="max-autotune-no-cudagraphs", dynamic=False)
    return compiled


_RUNS: dict[str, Callable[[], Run]] = {"triton": _triton, "compile": _compile}
