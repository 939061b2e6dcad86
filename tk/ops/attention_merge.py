"""tk.attention_merge: attention over all keys from attention over parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch

from tk.errors import describe, wrong_type, wrong_value

__all__ = ["attention_merge"]

OPERATION = "tk.attention_merge"


def attention_merge(
    outs: torch.Tensor | Sequence[torch.Tensor], lses: torch.Tensor | Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Joins the results of `attention(..., return_lse=True)` for the same queries over disjoint
    sets of keys: the result over all of them, exact but for rounding.

    Elementwise torch operations, in fp32 whatever the data type; differentiable.

    Args:
        outs: (parts, ..., D), or a sequence of one or more tensors (..., D), floating point.
        lses: (parts, ...), or as many tensors (...); natural logarithms.

    Returns:
        out (..., D) in outs' dtype and lse (...) in fp32: lse = ln(sum of exp(lses)), out = sum of
        exp(lses - lse) * outs. Where every part is -inf (no key seen), 0 and -inf.

    Raises:
        TypeError: an argument holds something else than tensors.
        ValueError: no parts, not as many of the one as of the other, or shapes that do not fit.

    Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, section 3.1.
    """
    results, logs = _parts("outs", outs), _parts("lses", lses)
    if len(results) != len(logs):
        raise wrong_value(OPERATION, "lses", f"of {len(logs)} parts", f"of outs' {len(results)}")
    shape = results[0].shape
    for name, parts, wanted in (("outs", results, shape), ("lses", logs, shape[:-1])):
        for place, part in enumerate(parts):
            if not part.is_floating_point() or part.shape != wanted:
                what = f"of shape {tuple(wanted)} and a floating-point dtype"
                raise wrong_value(OPERATION, f"{name}[{place}]", describe(part), what)
    log_sums = torch.stack([log.float() for log in logs])
    lse = torch.logsumexp(log_sums, dim=0)
    weights = torch.exp(log_sums - lse.masked_fill(lse == -inf, 0.0))
    merged = sum(
        weight[..., None] * result.float()
        for weight, result in zip(weights.unbind(0), results, strict=True)
    )
    assert isinstance(merged, torch.Tensor)
    return merged.to(results[0].dtype), lse


def _parts(name: str, parts: torch.Tensor | Sequence[torch.Tensor]) -> list[torch.Tensor]:
    if isinstance(parts, torch.Tensor):
        found = list(parts.unbind(0)) if parts.dim() else []
    elif isinstance(parts, Sequence):
        found = list(parts)
    else:
        raise wrong_type(OPERATION, name, parts, "a tensor or a sequence of tensors")
    for place, part in enumerate(found):
        if not isinstance(part, torch.Tensor):
            raise wrong_type(OPERATION, f"{name}[{place}]", part, "a torch.Tensor")
    least = 1 if name == "outs" else 0
    if not found or found[0].dim() < least:
        raise wrong_value(OPERATION, name, "without parts", "of at least one part, (..., D)")
    return found
