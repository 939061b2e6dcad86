"""Gradients of tk.rotary: the incoming one rotated back, in place and not, twice over."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rotary_inputs import BF16, FP32, operands, same_bits, tables
from rotary_inputs import assert_is_rotation as check

import tk

PAIRINGS = pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])


def _grad(tensor: torch.Tensor) -> torch.Tensor:
    assert tensor.grad is not None
    return tensor.grad


@pytest.mark.parametrize("inplace", [False, True], ids=["new", "in place"])
@PAIRINGS
@pytest.mark.parametrize("dtype", [BF16, FP32], ids=str)
def test_the_gradient_is_rotated_back(
    device: str, dtype: torch.dtype, interleaved: bool, inplace: bool
) -> None:
    """Dao-AILab/flash-attention #569."""
    q, k = (x.requires_grad_() for x in operands(dtype=dtype, device=device))
    cos, sin = tables(33, 32, device=device)
    # A leaf that requires grad is not written in place.
    given = (q * 1, k * 1) if inplace else (q, k)
    out = tk.rotary(*given, cos, sin, interleaved=interleaved, inplace=inplace)
    assert all(x is not None and x.requires_grad for x in out)
    grads = operands(dtype=dtype, device=device)
    torch.autograd.backward([x for x in out if x is not None], list(grads))
    back = tk.rotary(*grads, cos, -sin, interleaved=interleaved)
    for x, g, expected in zip((q, k), grads, back, strict=True):
        assert expected is not None
        assert same_bits(_grad(x), expected)
        check(_grad(x), g, cos, -sin, interleaved=interleaved)


@pytest.mark.parametrize("inplace", [False, True], ids=["new", "in place"])
@pytest.mark.parametrize("how", ["positions", "offset", "packed", "partial"])
def test_options_are_those_of_the_forward_pass(device: str, how: str, inplace: bool) -> None:
    cos, sin = tables(50, 16 if how == "partial" else 32, device=device)
    q, k = operands(device=device)
    options: dict[str, Any] = {}
    if how == "positions":
        options = {"positions": torch.randint(0, 50, (2, 33), device=device)}
    elif how == "offset":
        options = {"positions": 11}
    elif how == "packed":
        q, k = q[0].transpose(0, 1).contiguous(), k[0].transpose(0, 1).contiguous()
        ends = torch.tensor([0, 5, 33], dtype=torch.int32, device=device)
        options = {"cu_seqlens": ends, "positions": 2}
    q, k = q.requires_grad_(), k.requires_grad_()
    given = (q * 1, k * 1) if inplace else (q, k)
    out, k_out = tk.rotary(*given, cos, sin, **options, inplace=inplace)
    assert k_out is not None
    grads = torch.randn_like(q), torch.randn_like(k)
    torch.autograd.backward([out, k_out], list(grads))
    for x, g in zip((q, k), grads, strict=True):
        check(_grad(x), g, cos, -sin, **options)


@pytest.mark.filterwarnings("ignore:Input #")  # fp32, for which the bounds are wide
def test_gradcheck_and_second_derivatives() -> None:
    q, k = (x.requires_grad_() for x in operands(1, 2, 1, 3, 6, dtype=FP32))
    cos, sin = tables(3, 2)
    how = {"eps": 1e-2, "atol": 1e-3, "rtol": 1e-3}

    def function(q: torch.Tensor, k: torch.Tensor) -> Any:
        return tk.rotary(q, k, cos, sin)

    assert torch.autograd.gradcheck(function, (q, k), **how)
    assert torch.autograd.gradgradcheck(function, (q, k), **how)


def test_gradients_of_one_of_the_two(device: str) -> None:
    q, k = operands(device=device)
    cos, sin = tables(33, 32, device=device)
    for x, other in ((q, k), (k, q)):
        for first in (True, False):
            x = x.detach().requires_grad_()
            given = (x, other) if first else (other, x)
            out = tk.rotary(*given, cos, sin)[0 if first else 1]
            assert out is not None
            out.sum().backward()  # an expanded gradient, of strides 0
            check(_grad(x), torch.ones_like(x), cos, -sin)


def test_a_gradient_of_other_strides(device: str) -> None:
    q, _ = operands(device=device)
    q.requires_grad_()
    cos, sin = tables(33, 32, device=device)
    grad = torch.randn(2, 33, 64, 3, device=device).bfloat16().permute(0, 3, 1, 2)
    tk.rotary(q, None, cos, sin)[0].backward(grad)
    check(_grad(q), grad, cos, -sin)


def test_what_is_not_differentiated() -> None:
    q, k = operands()
    cos, sin = tables(33, 32)
    with pytest.raises(NotImplementedError, match=r"tk.rotary: sin requires grad"):
        tk.rotary(q, k, cos, sin.requires_grad_())
    with torch.no_grad():
        tk.rotary(q, k, cos, sin)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        tk.rotary(q.requires_grad_(), k, cos, sin.detach(), inplace=True)


def test_what_was_rotated_in_place_is_not_what_was_saved(device: str) -> None:
    q, _ = operands(dtype=FP32, device=device)
    q.requires_grad_()
    cos, sin = tables(33, 32, device=device)
    squares = q.exp()  # saves its output
    tk.rotary(squares, None, cos, sin, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squares.sum().backward()
