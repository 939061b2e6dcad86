"""Gradients of tk.matmul against float64: all inputs, batches and broadcasts, activations, expanded
operands, higher and forward-mode derivatives, func."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matmul_inputs import MATRIX_KINDS, error, random, torch_formula

import tk

func: Any = torch.func
forward_ad: Any = torch.autograd.forward_ad
backward = torch.autograd.backward

ACTIVATIONS = (None, "relu", "gelu", "gelu_tanh", "silu")
NAMES = ("a", "b", "bias", "c")

sizes = st.integers(1, 100)


def gradients(
    function: Any, tensors: dict[str, torch.Tensor], gradient: Any, **options: Any
) -> Any:
    leaves = {name: t.detach().requires_grad_() for name, t in tensors.items()}
    a, b = leaves.pop("a"), leaves.pop("b")
    out = function(a, b, **leaves, **options)
    return torch.autograd.grad(out, (a, b, *leaves.values()), gradient)


def assert_gradients_no_worse_than_torch(
    tensors: dict[str, torch.Tensor], gradient: torch.Tensor, **options: Any
) -> None:
    """1.05 x the error of torch's own gradients of the same steps in the same dtypes."""
    gradient = gradient.to(options.get("out_dtype") or tensors["a"].dtype)
    ours = gradients(tk.matmul, tensors, gradient, **options)
    rivals = gradients(torch_formula, tensors, gradient, **options)
    wide = {name: tensor.double() for name, tensor in tensors.items()}
    options |= {"out_dtype": None}
    exact = gradients(tk.reference.matmul, wide, gradient.double(), **options)
    for name, one, rival, right in zip(tensors, ours, rivals, exact, strict=True):
        assert one.shape == right.shape
        assert one.dtype == tensors[name].dtype
        # The floor: what rounding the activation's slope, or the result, to a's dtype may add.
        floor = torch.finfo(tensors["a"].dtype).eps / 4 * float(right.norm())
        assert error(one, right) <= 1.05 * error(rival, right) + floor, name


@given(
    shape=st.tuples(sizes, sizes, sizes),
    kinds=st.tuples(*[st.sampled_from(MATRIX_KINDS)] * 2),
    dtype=st.sampled_from((torch.bfloat16, torch.float16)),
    out_dtype=st.sampled_from((None, torch.float32)),
    activation=st.sampled_from(ACTIVATIONS),
    epilogue=st.sampled_from((torch.bfloat16, torch.float32)),
)
def test_gradients_of_all_inputs(
    device: str,
    shape: tuple[int, int, int],
    kinds: tuple[str, str],
    dtype: torch.dtype,
    out_dtype: torch.dtype | None,
    activation: str | None,
    epilogue: torch.dtype,
) -> None:
    m, n, k = shape
    tensors = {
        "a": random((m, k), kinds[0], dtype=dtype, device=device),
        "b": random((k, n), kinds[1], dtype=dtype, device=device),
        "bias": torch.randn(n, device=device).to(epilogue),
        "c": random((m, n), dtype=epilogue, device=device),
    }
    options = {"activation": activation, "alpha": 0.5, "beta": -0.7, "out_dtype": out_dtype}
    gradient = torch.randn(m, n, device=device)
    assert_gradients_no_worse_than_torch(tensors, gradient, **options)


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((3, 20, 24), (3, 24, 16)),
        ((3, 20, 24), (24, 16)),
        ((20, 24), (3, 24, 16)),
        ((1, 20, 24), (3, 24, 16)),
        ((3, 20, 24), (1, 24, 16)),
        ((1, 20, 24), (24, 16)),
        ((0, 20, 24), (24, 16)),
        ((3, 0, 24), (24, 16)),
        ((20, 0), (0, 16)),
    ],
    ids=str,
)
def test_gradients_of_batches_and_of_what_they_share(
    device: str, a_shape: tuple[int, ...], b_shape: tuple[int, ...], activation: str | None
) -> None:
    tensors = {
        "a": torch.randn(a_shape, device=device).bfloat16(),
        "b": torch.randn(b_shape, device=device).bfloat16(),
    }
    gradient = torch.randn(tk.matmul(tensors["a"], tensors["b"]).shape, device=device)
    assert_gradients_no_worse_than_torch(tensors, gradient, activation=activation)


def test_a_batch_of_strided_matrices_shares_its_gradient(device: str) -> None:
    """The rows of this batch are no view of one matrix."""
    tensors = {
        "a": random((3, 20, 24), "padded", "inner", device=device),
        "b": random((24, 16), device=device),
    }
    assert_gradients_no_worse_than_torch(tensors, torch.randn(3, 20, 16, device=device))


@pytest.mark.parametrize("c_shape", [(16,), (20, 1), (1, 1), (), (3, 1, 16), (1, 20, 16)], ids=str)
def test_the_gradient_of_a_broadcast_addend_has_its_shape(
    device: str, c_shape: tuple[int, ...]
) -> None:
    tensors = {
        "a": random((3, 20, 24), device=device),
        "b": random((24, 16), device=device),
        "c": torch.randn(c_shape, device=device),
    }
    gradient = torch.randn(3, 20, 16, device=device)
    assert_gradients_no_worse_than_torch(tensors, gradient, beta=2.0, activation="gelu")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("b_kind", ["one", "column"])
@pytest.mark.parametrize(("a_turned", "b_turned"), list(itertools.product((False, True), repeat=2)))
def test_expanded_operands_and_gradients(
    device: str, b_kind: str, a_turned: bool, b_turned: bool
) -> None:
    """pytorch/pytorch #29984: strides of 0, also in the gradient of a sum."""
    a = torch.randn(64, 1, device=device).bfloat16().expand(64, 48)
    b = torch.ones(1, 1) if b_kind == "one" else torch.randn(48, 1)
    b = b.to(device).bfloat16().expand(48, 40)
    if a_turned:
        a = torch.randn(48, 1, device=device).bfloat16().expand(48, 64).t()
    if b_turned:
        b = torch.randn(40, 1, device=device).bfloat16().expand(40, 48).t()
    a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
    out = tk.matmul(a, b)
    assert torch.equal(out, tk.matmul(a.contiguous(), b.contiguous()))
    backward(out.sum())
    wide_a, wide_b = (t.detach().double().requires_grad_() for t in (a, b))
    backward((wide_a @ wide_b).sum())
    for one, right in ((a, wide_a), (b, wide_b)):
        assert one.grad is not None and right.grad is not None
        torch.testing.assert_close(one.grad.double(), right.grad, rtol=2**-8, atol=1e-6)


def test_only_what_is_needed_is_computed(device: str) -> None:
    a, b = random((20, 24), device=device), random((24, 16), device=device)
    for needed in ("a", "b"):
        leaves = {"a": a.clone(), "b": b.clone()}
        leaves[needed].requires_grad_()
        backward(tk.matmul(leaves["a"], leaves["b"]).sum())
        assert {name for name, leaf in leaves.items() if leaf.grad is not None} == {needed}
    bias = torch.zeros(16, device=device, requires_grad=True)
    backward(tk.matmul(a, b, bias=bias).sum())
    assert torch.equal(bias.grad, torch.full((16,), 20.0, device=device))  # type: ignore[arg-type]


def test_changing_a_saved_tensor_is_an_error(device: str) -> None:
    a, b = random((20, 24), device=device), random((24, 16), device=device)
    b.requires_grad_()
    out = tk.matmul(a, b)
    a.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        backward(out.sum())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_second_derivatives(device: str, activation: str | None) -> None:
    def penalty(function: Any, a: torch.Tensor, b: torch.Tensor, **options: Any) -> Any:
        out = function(a, b, activation=activation, **options)
        (slope,) = torch.autograd.grad(out.square().sum(), a, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), (a, b))

    a, b = random((5, 8), device=device).requires_grad_(), random((8, 6), device=device)
    b.requires_grad_()
    wide = [t.detach().double().requires_grad_() for t in (a, b)]
    ours = penalty(tk.matmul, a, b, out_dtype=torch.float32)
    for one, right in zip(ours, penalty(tk.reference.matmul, *wide), strict=True):
        assert error(one, right) <= 0.02 * float(right.norm()) + 1e-6


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_forward_mode(device: str, activation: str | None) -> None:
    tensors = [random((20, 24), device=device), random((24, 16), device=device)]
    tensors += [torch.randn(16, device=device), random((20, 16), device=device)]
    tangents = [torch.randn_like(tensor) for tensor in tensors]

    def run(function: Any, *inputs: torch.Tensor) -> torch.Tensor:
        a, b, bias, c = inputs
        result: torch.Tensor = function(a, b, bias=bias, c=c, beta=0.5, activation=activation)
        return result

    out, tangent = func.jvp(lambda *i: run(tk.matmul, *i), tuple(tensors), tuple(tangents))
    wide = [tuple(t.double() for t in each) for each in (tensors, tangents)]
    _, right = func.jvp(lambda *i: run(tk.reference.matmul, *i), *wide)
    assert torch.equal(out, run(tk.matmul, *tensors))
    assert error(tangent, right) <= 0.01 * float(right.norm())
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(tensors[0], tangents[0])
        held = forward_ad.unpack_dual(run(tk.matmul, dual, *tensors[1:]))
    assert held.tangent is not None


def test_torch_func(device: str) -> None:
    a, b = random((3, 20, 24), device=device), random((24, 16), device=device)

    def loss(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return tk.matmul(a, b, activation="gelu").float().square().sum()

    mapped = func.vmap(tk.matmul, in_dims=(0, None))
    assert torch.equal(mapped(a, b), tk.matmul(a, b))
    assert torch.equal(func.vmap(tk.matmul)(a, a.mT), tk.matmul(a, a.mT))
    inner = func.vmap(func.vmap(tk.matmul, (0, None)), (None, 0))
    assert inner(a, b.expand(2, 24, 16)).shape == (2, 3, 20, 16)
    biases = torch.randn(3, 16, device=device)
    with_bias = func.vmap(lambda a, bias: tk.matmul(a, b, bias=bias))(a, biases)
    assert torch.equal(with_bias[2], tk.matmul(a[2], b, bias=biases[2]))

    leaf = a[0].clone().requires_grad_()
    (eager,) = torch.autograd.grad(loss(leaf, b), leaf)
    assert torch.equal(func.grad(loss)(a[0], b), eager)
    each = func.vmap(func.grad(loss), in_dims=(0, None))(a, b)
    torch.testing.assert_close(each[0], eager)
    with pytest.raises(ValueError, match=r"out is given inside a torch\.func transform"):
        func.vmap(lambda a: tk.matmul(a, b, out=torch.empty(20, 16).bfloat16()))(a)


def test_relu_lets_the_gradient_of_nan_through_as_torch_does(device: str) -> None:
    a = torch.full((2, 8), float("nan"), device=device).bfloat16().requires_grad_()
    b = torch.ones(8, 8, device=device).bfloat16()
    (ours,) = torch.autograd.grad(tk.matmul(a, b, activation="relu").sum(), a)
    (theirs,) = torch.autograd.grad(torch.relu(torch.matmul(a, b)).sum(), a)
    assert torch.equal(ours, theirs)


def test_a_checkpoint_reads_each_saved_tensor_once(device: str) -> None:
    from torch.utils.checkpoint import checkpoint

    a, b = random((9, 16), device=device), random((16, 8), device=device)
    plain, again = (a.clone().requires_grad_() for _ in range(2))
    tk.matmul(plain, b, activation="silu").sum().backward()
    function = functools.partial(tk.matmul, activation="silu")
    checkpoint(function, again, b, use_reentrant=False).sum().backward()
    assert torch.equal(plain.grad, again.grad)


def test_only_what_a_gradient_needs_is_saved(device: str) -> None:
    """A frozen weight keeps no activations alive, and may be changed before the backward pass."""
    x, w = random((9, 16), device=device), random((16, 8), device=device).requires_grad_()
    saved: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        output = tk.matmul(x, w)
    assert [each.shape for each in saved] == [x.shape]
    with torch.no_grad():
        w.add_(1)
    output.sum().backward()
    assert w.grad is not None


def test_an_activation_without_a_derivative_is_refused() -> None:
    from tk.ops.matmul_gradient import _through_activation

    class Context:
        activation, alpha, beta = "new", 1.0, 0.0

    a, b = random((4, 8), device="cpu"), random((8, 4), device="cpu")
    with pytest.raises(NotImplementedError, match="activation 'new' has no derivative"):
        _through_activation(Context(), (a, b, None, None, None), torch.ones(4, 4))


def test_forward_mode_is_refused_where_torch_would_lose_the_tangents() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    a, b = random((4, 8), device="cpu"), random((8, 4), device="cpu")
    with (
        FlopCounterMode(display=False),
        pytest.raises(NotImplementedError, match="forward-mode differentiation"),
    ):
        torch.func.jvp(lambda x: tk.matmul(x, b), (a,), (a,))
