"""Right or wrong: errors of a product against a float64 reference, and the bound they must keep.

The bound is relative to ``torch.matmul`` on the same inputs (the relative Frobenius error at most
1.05 times its own, the largest error at most twice its own), so it follows the data type, the
depth and the values by itself. Output memory is filled with NaN before a candidate runs: what it
leaves unwritten is then found, whatever an earlier candidate had left in that memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

ERROR_RATIO = 1.05
LARGEST_ERROR_RATIO = 2.0
BLOCK = 8192  # rows and columns of the reference computed at once: 0.5 GB of float64
# What one rounding of the output may cost when the yardstick itself is no number.
ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-18}


@dataclass(frozen=True)
class Errors:
    """``frobenius``: ||out - ref|| / ||ref||; ``largest``: max |out - ref| / rms(ref).

    Both are infinite when the output holds a NaN or an infinity where the reference has none.
    """

    frobenius: float
    largest: float


def reference_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b, a (M, K) and b (K, N), in float64 block by block, kept as float32 (M, N); of batches,
    (batch, M, K) and (batch, K, N), one after the other."""
    if a.ndim == 3:
        return torch.stack([reference_product(*pair) for pair in zip(a, b, strict=True)])
    m, n = a.shape[0], b.shape[1]
    result = torch.empty(m, n, dtype=torch.float32, device=a.device)
    for column in range(0, n, BLOCK):
        right = b[:, column : column + BLOCK].double()
        for row in range(0, m, BLOCK):
            left = a[row : row + BLOCK].double()
            result[row : row + BLOCK, column : column + BLOCK] = left @ right
    return result


def errors_of(out: torch.Tensor, reference: torch.Tensor) -> Errors:
    """Errors of an output (M, N) or (batch, M, N) against its reference of that shape, float32."""
    if out.shape != reference.shape:
        return Errors(math.inf, math.inf)
    if out.numel() == 0:
        return Errors(0.0, 0.0)
    squares = torch.zeros(2, dtype=torch.float64, device=out.device)
    largest = torch.zeros((), dtype=torch.float32, device=out.device)
    for row in range(0, out.shape[0], BLOCK // 4):
        expected = reference[row : row + BLOCK // 4]
        difference = out[row : row + BLOCK // 4].float() - expected
        squares[0] += torch.linalg.vector_norm(difference).double() ** 2
        squares[1] += torch.linalg.vector_norm(expected).double() ** 2
        largest = torch.maximum(largest, torch.linalg.vector_norm(difference, ord=math.inf))
    wrong, right = (float(value) for value in squares)
    frobenius = math.sqrt(wrong / right) if right > 0 else (0.0 if wrong == 0 else math.inf)
    peak = float(largest) / max(math.sqrt(right / out.numel()), 1e-30)
    if not (math.isfinite(frobenius) and math.isfinite(peak)):
        return Errors(math.inf, math.inf)
    return Errors(frobenius, peak)


def run_on_poisoned(run: Callable[[torch.Tensor], object], out: torch.Tensor) -> None:
    """Fills ``out`` with NaN, then lets the candidate write into it."""
    out.fill_(math.nan)
    run(out)


def fault(errors: Errors, yardstick: Errors, out: torch.Tensor) -> str:
    """What is wrong with an output of these errors, in words; empty when nothing is."""
    if not math.isfinite(errors.frobenius):
        missing = int(torch.isnan(out).sum())
        if missing:
            return f"{missing} of {out.numel()} elements are NaN: left unwritten, or not numbers"
        return "the output is not finite"
    base = yardstick.frobenius if math.isfinite(yardstick.frobenius) else ROUNDING[out.dtype]
    limit = max(ERROR_RATIO * base, 1e-7)
    if errors.frobenius > limit:
        return f"relative error {errors.frobenius:.2e} is above {limit:.2e}"
    if math.isfinite(yardstick.largest):
        limit = max(LARGEST_ERROR_RATIO * yardstick.largest, 1e-6)
        if errors.largest > limit:
            return f"largest error {errors.largest:.2e} of the mean is above {limit:.2e}"
    return ""
