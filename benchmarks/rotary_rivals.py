"""The rivals that can rotate q and k, as functions of the operands of a case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tk.benchmarks.rivals import choose
from tk.benchmarks.rotary_cases import ROWS_FIRST, Case

__all__ = ["Operands", "Pair", "choose_rivals", "rival_call"]

Pair = tuple[torch.Tensor, torch.Tensor]


class Operands:
    """q and k of a case, random normal, cos and sin in fp32, and what says where tokens are. q and
    k are those that calls read, and write in place; `reset` makes them what they were."""

    def __init__(self, case: Case, dtype: torch.dtype, device: torch.device, seed: int = 0) -> None:
        generator = torch.Generator(device=device).manual_seed(seed)
        self.case = case
        half, rows = case.columns // 2, case.rows
        frequency = 10000.0 ** -(torch.arange(half, dtype=torch.float64, device=device) / half)
        angle = torch.arange(rows, dtype=torch.float64, device=device)[:, None] * frequency
        self.cos, self.sin = angle.cos().float(), angle.sin().float()
        self.options: dict[str, Any] = {"interleaved": case.interleaved}
        if case.positions:
            places = torch.randint(0, rows, (case.batch, rows), generator=generator, device=device)
            self.options["positions"] = places
        if case.packed:
            ends = torch.arange(case.batch + 1, device=device) * rows
            self.options["cu_seqlens"] = ends.int()

        def normal(heads: int) -> torch.Tensor:
            if case.packed:
                sizes: tuple[int, ...] = (case.batch * rows, heads, case.dimension)
            elif case.memory == ROWS_FIRST:
                sizes = (case.batch, rows, heads, case.dimension)
            else:
                sizes = (case.batch, heads, rows, case.dimension)
            made = torch.randn(sizes, generator=generator, device=device, dtype=dtype)
            turned = case.memory == ROWS_FIRST and not case.packed
            return made.transpose(1, 2) if turned else made

        self.q, self.k = normal(case.heads), normal(case.k_heads)
        self._kept = (self.q.clone(), self.k.clone()) if case.inplace else None

    def reset(self) -> None:
        """Undoes what calls in place have done."""
        if self._kept is not None:
            self.q.copy_(self._kept[0])
            self.k.copy_(self._kept[1])


def choose_rivals(text: str | None, device: torch.device) -> list[str]:
    """The names in "eager,compile", or those installed, as of `rivals.choose`."""
    return choose("rotary", text, device, _CALLS)


def rival_call(name: str, operands: Operands) -> Callable[[], Pair] | None:
    """A function that rotates anew, or in place where the case asks for it; None where the rival
    has none for such a case."""
    case = operands.case
    if case.interleaved or case.rotary_dim or case.positions or case.packed:
        return None
    return _CALLS[name](operands)


def _formula(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Pair:
    """As models are written: cos and sin (N, D), each half twice."""

    def turned(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)

    return q * cos + turned(q) * sin, k * cos + turned(k) * sin


def _tables(operands: Operands) -> Pair:
    """cos and sin in the inputs' dtype, (N, D)."""
    cos, sin = (torch.cat((t, t), dim=-1) for t in (operands.cos, operands.sin))
    return cos.to(operands.q.dtype), sin.to(operands.q.dtype)


def _eager(operands: Operands) -> Callable[[], Pair] | None:
    if operands.case.inplace:
        return None
    tables = _tables(operands)
    return lambda: _formula(operands.q, operands.k, *tables)


def _compiled(operands: Operands) -> Callable[[], Pair] | None:
    if operands.case.inplace:
        return None
    tables = _tables(operands)
    torch.compiler.reset()
    compiled = torch.compile(_formula, fullgraph=True, dynamic=False)
    return lambda: compiled(operands.q, operands.k, *tables)


def _liger(operands: Operands) -> Callable[[], Pair] | None:
    """In place, of (B, N, H, D) memory; of any other it makes a copy first."""
    if not operands.case.inplace or operands.case.memory != ROWS_FIRST:
        return None
    from liger_kernel.ops.rope import LigerRopeFunction

    cos, sin = (table[None] for table in _tables(operands))

    def call() -> Pair:
        q, k = LigerRopeFunction.apply(operands.q, operands.k, cos, sin)
        return q, k

    return call


_CALLS: dict[str, Callable[[Operands], Callable[[], Pair] | None]] = {
    "eager": _eager,
    "compile": _compiled,
    "liger": _liger,
}
