"""Sizes past the limits that other libraries met: many batches, elements beyond 2**31."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from matmul_inputs import assert_no_worse_than_torch

import tk


@pytest.mark.slow
def test_every_batch_entry_beyond_65535_is_right(device: str) -> None:
    """pytorch/pytorch #25241: entries from the 65,536th on came back as zeros."""
    batch = 65536 + 1
    a = torch.randn(batch, 8, 64, device=device).half()
    b = torch.randn(batch, 64, 8, device=device).half()
    out = tk.matmul(a, b)
    for entry in (0, 65534, 65535, 65536):
        assert torch.equal(out[entry], tk.matmul(a[entry], b[entry]))
    assert_no_worse_than_torch(out, a, b)


@pytest.mark.parametrize("operand", ["a", "b", "c", "out"])
def test_offsets_beyond_32_bits(device: str, operand: str) -> None:
    """The second of two batches lies 2**31 elements on; only the touched pages cost memory."""
    far = (2**31, 64, 1)
    shapes = {"a": (2, 40, 64), "b": (2, 64, 48), "c": (2, 40, 48), "out": (2, 40, 48)}
    tensors: dict[str, Any] = {
        name: torch.randn(shape, device=device).bfloat16() for name, shape in shapes.items()
    }
    near = tk.matmul(**tensors, beta=1.0).clone()
    base = torch.empty(2**31 + 8192, dtype=torch.bfloat16, device=device)
    view = base.as_strided(shapes[operand], far)
    view.copy_(tensors[operand])
    assert torch.equal(tk.matmul(**{**tensors, operand: view}, beta=1.0), near)
    if operand == "a":
        rows = base.as_strided((2, 64), (2**31, 1))
        expected = tk.matmul(rows.contiguous(), tensors["b"][0])
        assert torch.equal(tk.matmul(rows, tensors["b"][0]), expected)
