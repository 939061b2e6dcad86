"""What tk.rotary refuses, and in which words: the argument, what it was, what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from rotary_inputs import operands, tables

import tk


def arguments() -> dict[str, Any]:
    q, k = operands(2, 4, 2, 5, 16)
    cos, sin = tables(9, 8)
    return {"q": q, "k": k, "cos": cos, "sin": sin}


def call(**changes: Any) -> Any:
    given = arguments() | changes
    q, k, cos, sin = (given.pop(name) for name in ("q", "k", "cos", "sin"))
    return tk.rotary(q, k, cos, sin, **given)


def ends(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def packed(**changes: Any) -> dict[str, Any]:
    rows = {"q": torch.zeros(5, 4, 16), "k": torch.zeros(5, 2, 16), "cu_seqlens": ends(0, 2, 5)}
    return rows | changes


WRONG_TYPES: list[tuple[str, dict[str, Any], str]] = [
    ("q", {"q": [1.0]}, "q is list; must be a torch.Tensor"),
    ("k", {"k": 3}, "k is int; must be a torch.Tensor or None"),
    ("cos", {"cos": None}, "cos is NoneType; must be a torch.Tensor"),
    ("positions", {"positions": 1.0}, "positions is float; must be a torch.Tensor, an int or None"),
    ("a bool", {"positions": True}, "positions is bool; must be a torch.Tensor, an int or None"),
    ("interleaved", {"interleaved": 1}, "interleaved is int; must be True or False"),
    ("inplace", {"inplace": None}, "inplace is NoneType; must be True or False"),
    ("rotary_dim", {"rotary_dim": 4.0}, "rotary_dim is float; must be an int or None"),
]
WRONG_VALUES: list[tuple[str, dict[str, Any], str]] = [
    ("q dtype", {"q": torch.zeros(2, 4, 5, 16).double()}, "q is .*float64.*; must be of"),
    (
        "q rank",
        {"q": torch.zeros(4, 5, 16).bfloat16()},
        r"q is .*; must be of shape \(B, H, N, D\), or",
    ),
    ("k dtype", {"k": torch.zeros(2, 2, 5, 16)}, "k is .*; must be of q's dtype"),
    ("k rows", {"k": torch.zeros(2, 2, 6, 16).bfloat16()}, "k is .*; must be of q's shape"),
    ("k rank", {"k": torch.zeros(2, 5, 16).bfloat16()}, "k is .*; must be of q's shape"),
    ("k device", {"k": torch.zeros(2, 2, 5, 16, device="meta")}, "k is on meta while q is on cpu"),
    ("cos dtype", {"cos": torch.zeros(9, 8).half()}, "cos is .*float16.*; must be of"),
    ("cos rank", {"cos": torch.zeros(1, 9, 8)}, "sin is .*; must be of cos's shape"),
    ("both ranks", {n: torch.zeros(8) for n in ("cos", "sin")}, "cos is .*; must be of shape"),
    ("sin shape", {"sin": torch.zeros(9, 7)}, "sin is .*; must be of cos's shape and dtype"),
    ("sin dtype", {"sin": torch.zeros(9, 8).bfloat16()}, "sin is .*; must be of cos's shape and"),
    ("wide", {n: torch.zeros(9, 9) for n in ("cos", "sin")}, "cos is .*; must be of 1 to 8 col"),
    ("none", {n: torch.zeros(9, 0) for n in ("cos", "sin")}, "cos is .*; must be of 1 to 8 col"),
    ("short", {n: torch.zeros(4, 8) for n in ("cos", "sin")}, "cos is .*; must be of at least 5"),
    ("rotary_dim and cos", {"rotary_dim": 8}, "cos is .*; must be of 4 columns"),
    ("offset", {"positions": -1}, "positions is -1; must be an int >= 0"),
    ("large offset", {"positions": 5}, "cos is .*; must be of at least 10 rows"),
    (
        "positions' shape",
        {"positions": torch.arange(4)},
        r"positions is .*; must be of shape \(N,\) or \(B, N\), that is \(5,\) or \(2, 5\)",
    ),
    ("positions' dtype", {"positions": torch.zeros(5)}, "positions is .*; must be of torch.int32"),
    (
        "a position",
        {"positions": torch.tensor([0, 1, 9, 3, 4])},
        "positions is of values from 0 to 9; must be from 0 to 8",
    ),
    ("below 0", {"positions": torch.tensor([0, 1, -1, 3, 4])}, "positions is of values from -1"),
    ("lengths", {"cu_seqlens": ends(0, 5)}, r"q is .*; must be of shape \(T, H, D\) with"),
    ("int64", packed(cu_seqlens=ends(0, 5).long()), "cu_seqlens is .*; must be of torch.int32"),
    ("first", packed(cu_seqlens=ends(1, 5)), r"cu_seqlens is \[1, 5\]; must be numbers that begin"),
    ("last", packed(cu_seqlens=ends(0, 4)), r"cu_seqlens is \[0, 4\]; must be numbers that begin"),
    ("falling", packed(cu_seqlens=ends(0, 4, 3, 5)), "must be numbers that begin with 0, end with"),
    ("no sequence", packed(cu_seqlens=ends(0)), r"cu_seqlens is .*; must be of shape \(sequences"),
    ("strided", packed(cu_seqlens=ends(0, 1, 5, 5)[::2]), "cu_seqlens is of stride 2; must be"),
    (
        "both",
        packed(positions=torch.arange(5)),
        "positions is a tensor with cu_seqlens; must be an int or None with it",
    ),
    ("long ones", packed(positions=7), "cos is .*; must be of at least 10 rows"),
    (
        "positions of packed rows",
        packed(cu_seqlens=None, positions=torch.arange(4)),
        r"positions is .*; must be of shape \(T,\), that is \(5,\)",
    ),
    (
        "one head for all in place",
        {"q": torch.zeros(2, 1, 5, 16).bfloat16().expand(2, 4, 5, 16), "inplace": True},
        "q is of strides .*, by which elements are one, with inplace",
    ),
]


@pytest.mark.parametrize(
    ("changes", "text"), [each[1:] for each in WRONG_TYPES], ids=[each[0] for each in WRONG_TYPES]
)
def test_wrong_types(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=f"tk.rotary: {text}"):
        call(**changes)


@pytest.mark.parametrize(
    ("changes", "text"), [each[1:] for each in WRONG_VALUES], ids=[each[0] for each in WRONG_VALUES]
)
def test_wrong_values(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"tk.rotary: .*{text}"):
        call(**changes)


@pytest.mark.parametrize("rotary_dim", [0, 3, 18, 130, -2])
def test_a_rotary_dim_that_cannot_be(device: str, rotary_dim: int) -> None:
    """linkedin/Liger-Kernel #1451."""
    q, k = operands(dimension=16, device=device)
    cos, sin = tables(33, 8, device=device)
    text = f"tk.rotary: rotary_dim is {rotary_dim}; must be an even number from 2 to the head dim"
    with pytest.raises(ValueError, match=text):
        tk.rotary(q, k, cos, sin, rotary_dim=rotary_dim)


def test_memory_that_is_shared_in_place(device: str) -> None:
    cos, sin = tables(5, 8, device=device)
    fused = torch.randn(2, 5, 6, 16, device=device).bfloat16()
    x = fused.transpose(1, 2)
    with pytest.raises(ValueError, match="q is in memory of k, with inplace; must be apart from k"):
        tk.rotary(x[:, :4], x[:, 3:], cos, sin, inplace=True)
    with pytest.raises(ValueError, match="q is in memory of k"):
        tk.rotary(x, x, cos, sin, inplace=True)
    for _ in range(2):  # the answer is kept
        tk.rotary(x[:, :4], x[:, 4:], cos, sin, inplace=True)  # crossing, and apart
    table = torch.randn(1, 1, 5, 16, device=device)
    with pytest.raises(ValueError, match="q is in memory of cos"):
        tk.rotary(table, None, table[0, 0, :, :8], sin, inplace=True)


def test_what_cannot_be_written() -> None:
    cos, sin = tables(5, 8)
    with torch.inference_mode():
        q, k = operands(rows=5, dimension=16)
        tk.rotary(q, k, cos, sin, inplace=True)
    with pytest.raises(ValueError, match="q is a tensor of inference mode outside of it"):
        tk.rotary(q, k, cos, sin, inplace=True)
    freed = torch.randn(1, 1, 5, 16)
    freed.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="q is a tensor without memory"):
        tk.rotary(freed, None, cos, sin)


def _cast(q: torch.Tensor) -> torch.Tensor:
    return q.to_sparse()


@pytest.mark.parametrize("change", [_cast, lambda q: q.to("meta")], ids=["sparse", "meta"])
def test_tensors_that_no_kernel_reads(change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(ValueError, match=r"tk.rotary: (q|cos|k) is"):
        call(q=change(arguments()["q"]))


def test_nothing_is_written_before_an_error() -> None:
    given = arguments()
    before = given["q"].clone()
    with pytest.raises(ValueError, match="positions"):
        call(**given, positions=torch.full((5,), 99), inplace=True)
    assert torch.equal(given["q"], before)
