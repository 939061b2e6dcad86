"""The rivals that can compute attention, as functions of the operands of a case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from tk.benchmarks.attention_cases import Case
from tk.benchmarks.rivals import choose

__all__ = ["CUDNN", "Operands", "choose_rivals", "rival_call"]

CUDNN = "cudnn"
"""The yardstick on a GPU: it comes with torch."""


class Operands:
    """q, k and v of a case, random normal, and the cumulative lengths of packed sequences."""

    def __init__(self, case: Case, dtype: torch.dtype, device: torch.device, seed: int = 0) -> None:
        generator = torch.Generator(device=device).manual_seed(seed)
        self.case = case
        self.options: dict[str, Any] = {"causal": case.causal}

        def normal(heads: int, rows: int) -> torch.Tensor:
            sizes = (case.batch, heads, rows) if not case.lengths else (rows, heads)
            return torch.randn(
                *sizes, case.dimension, generator=generator, device=device, dtype=dtype
            )

        self.q = normal(case.heads, case.queries)
        self.k = normal(case.kv_heads, case.keys)
        self.v = normal(case.kv_heads, case.keys)
        if case.lengths:
            ends = torch.tensor([0, *case.lengths]).cumsum(0)
            lengths = ends.to(device, torch.int32)
            self.options |= {"cu_seqlens_q": lengths, "cu_seqlens_k": lengths}

    @property
    def qkv(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """All three."""
        return self.q, self.k, self.v


def choose_rivals(text: str | None, device: torch.device) -> list[str]:
    """The names in "cudnn,sdpa-flash", or those installed, as of `rivals.choose`."""
    return choose("attention", text, device, _CALLS)


def rival_call(name: str, operands: Operands) -> Callable[[], torch.Tensor] | None:
    """A function that computes the output anew, None where the rival has none for such a case."""
    return _CALLS[name](operands)


def _sdpa(backend: str) -> Callable[[Operands], Callable[[], torch.Tensor] | None]:
    def made(operands: Operands) -> Callable[[], torch.Tensor] | None:
        case = operands.case
        if case.lengths or (case.causal and case.queries != case.keys):
            return None  # its causal mask is aligned at the top left
        attention: Any = torch.nn.attention
        chosen = getattr(attention.SDPBackend, backend)
        grouped = case.heads != case.kv_heads
        options: dict[str, Any] = {"is_causal": case.causal, "enable_gqa": grouped}

        def call() -> torch.Tensor:
            with attention.sdpa_kernel(chosen):
                return functional.scaled_dot_product_attention(*operands.qkv, **options)

        return call

    return made


def _flash_3(operands: Operands) -> Callable[[], torch.Tensor] | None:
    """Its tensors are (batch, rows, heads, dimension); views of ours, transposed."""
    from flash_attn_interface import flash_attn_func, flash_attn_varlen_func

    case = operands.case
    if case.lengths:
        ends, longest = operands.options["cu_seqlens_q"], max(case.lengths)

        def packed() -> torch.Tensor:
            lengths = (ends, ends, longest, longest)
            return _first(flash_attn_varlen_func(*operands.qkv, *lengths, causal=case.causal))

        return packed

    turned = [tensor.transpose(1, 2) for tensor in operands.qkv]

    def call() -> torch.Tensor:
        return _first(flash_attn_func(*turned, causal=case.causal)).transpose(1, 2)

    return call


def _first(result: Any) -> torch.Tensor:
    found: torch.Tensor = result[0] if isinstance(result, Sequence) else result
    return found


_CALLS: dict[str, Callable[[Operands], Callable[[], torch.Tensor] | None]] = {
    CUDNN: _sdpa("CUDNN_ATTENTION"),
    "sdpa-flash": _sdpa("FLASH_ATTENTION"),
    "flash-attention-3": _flash_3,
}
