"""tk.matmul as torch sees it: the dispatcher's operation, fake tensors, the compiler, tracing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from matmul_inputs import random
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck
from torch.utils._python_dispatch import TorchDispatchMode

import tk

OPERATION: Any = torch.ops.tk.matmul.default
OUT_OPERATION: Any = torch.ops.tk.matmul_out.default
ACTIVATIONS = (None, "relu", "gelu", "gelu_tanh", "silu")


def operands(
    device: str, kinds: tuple[str, str] = ("dense", "dense"), batch: tuple[int, ...] = ()
) -> tuple[torch.Tensor, torch.Tensor]:
    a = random((*batch, 20, 24), kinds[0], device=device)
    return a, random((24, 16), kinds[1], device=device)


@pytest.mark.parametrize("gradient", [False, True], ids=["plain", "requires_grad"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_opcheck(device: str, gradient: bool, activation: str | None) -> None:
    a, b = operands(device)
    bias, c = torch.randn(16, device=device), random((20, 16), device=device)
    tensors = [t.clone().requires_grad_(gradient) for t in (a, b, bias, c)]
    opcheck(OPERATION, (*tensors, activation, 0.5, 2.0, torch.float32))


@pytest.mark.parametrize("batch", [(), (3,), (1,), (0,)], ids=str)
@pytest.mark.parametrize(
    "kinds", [("dense", "transposed"), ("transposed", "odd"), ("same", "same")]
)
def test_opcheck_over_strides_and_batches(
    device: str, kinds: tuple[str, str], batch: tuple[int, ...]
) -> None:
    a, b = operands(device, kinds, batch)
    opcheck(OPERATION, (a.requires_grad_(), b, None, None))


def test_opcheck_of_the_writing_form(device: str) -> None:
    a, b = operands(device)
    out = torch.empty(20, 16, device=device)
    opcheck(OUT_OPERATION, (out, a, b, torch.randn(16, device=device), None, "gelu"))


def properties(value: Any) -> list[tuple[object, ...]]:
    """Shape, strides, dtype and device of all tensors in a result."""
    tensors = [value] if isinstance(value, torch.Tensor) else list(value)
    return [(tuple(t.shape), tuple(t.stride()), t.dtype, t.device.type) for t in tensors]


def fake_and_real(function: Callable[..., Any], inputs: list[torch.Tensor]) -> tuple[Any, Any]:
    """What the shape-only and the real run of a function say of their results. opcheck does not
    look at strides on a CPU; this does."""
    real = properties(function(*inputs))
    mode = FakeTensorMode()
    fakes = []
    for tensor in inputs:
        fake = mode.from_tensor(tensor.detach())
        fakes.append(fake.requires_grad_(tensor.requires_grad))
    with mode:
        return properties(function(*fakes)), real


def layouts() -> Iterator[tuple[tuple[int, ...], str, str, str, str]]:
    kinds = ("dense", "transposed", "padded", "odd", "same_rows", "same")
    for a_kind, b_kind in itertools.product(kinds, kinds[:4]):
        yield (20, 24), a_kind, "outer", b_kind, "outer"
    for batch_kind in ("outer", "between", "inner", "shared"):
        yield (3, 20, 24), "dense", batch_kind, "transposed", "outer"
        yield (3, 20, 24), "transposed", batch_kind, "dense", "matrix"
    for shape in ((1, 20, 24), (0, 20, 24), (3, 1, 24), (3, 20, 1), (3, 0, 24), (1, 24), (20, 0)):
        yield shape, "dense", "outer", "dense", "outer"


def product_and_gradients(a: Any, b: Any, bias: Any, c: Any) -> list[torch.Tensor]:
    out = tk.matmul(a, b, bias=bias, activation="silu", c=c, beta=0.5)
    gradient = torch.ones_like(out)
    return [out, *torch.autograd.grad(out, (a, b, bias, c), gradient)]


def test_fake_and_real_agree_in_strides_of_results_and_of_gradients(device: str) -> None:
    for shape, a_kind, a_batch, b_kind, b_batch in layouts():
        a = random(shape, a_kind, a_batch, device=device)
        lead = shape[:-2] if b_batch != "matrix" else ()
        b_shape = (*lead, shape[-1], 16)
        b = random(b_shape, b_kind, b_batch if lead else "outer", device=device)
        bias = torch.randn(16, device=device)
        c = random((shape[-2], 16), "transposed", device=device)
        inputs = [t.detach().requires_grad_() for t in (a, b, bias, c)]
        fake, real = fake_and_real(product_and_gradients, inputs)
        assert fake == real, (shape, a_kind, a_batch, b_kind, b_batch)
        assert len(real) == 5


def test_the_comparison_notices_an_altered_stride() -> None:
    """An operation whose shape-only form promises the strides of a transposed result."""
    with torch.library._scoped_library("tk_test", "FRAGMENT") as library:
        library.define("wrong_strides(Tensor a, Tensor b) -> Tensor")
        library.impl("wrong_strides", lambda a, b: tk.matmul(a, b), "CPU")
        library._register_fake(
            "wrong_strides", lambda a, b: a.new_empty(b.shape[1], a.shape[0]).t()
        )
        a, b = operands("cpu")
        fake, real = fake_and_real(torch.ops.tk_test.wrong_strides, [a, b])
        assert fake != real
        assert [f[0] for f in fake] == [r[0] for r in real]


def test_meta_tensors_have_shapes_only() -> None:
    a = torch.empty(3, 20, 24, device="meta", dtype=torch.bfloat16)
    out = tk.matmul(a, a.mT, out_dtype=torch.float32)
    assert (out.shape, out.dtype, out.device.type) == ((3, 20, 20), torch.float32, "meta")
    assert tk.matmul(a, a.mT, out=out) is out
    assert torch.ops.tk.matmul(a, a.mT, None, None).shape == (3, 20, 20)
    with pytest.raises(ValueError, match=r"tk\.matmul: b is a \(3, 20, 24\)"):
        tk.matmul(a, a)


def compiled(
    function: Callable[..., Any], backend: str = "aot_eager", dynamic: bool | None = None
) -> Callable[..., Any]:
    """The function as one graph; "aot_eager" traces everything and generates no code."""
    dynamo: Any = torch._dynamo
    dynamo.reset()
    compile_: Any = torch.compile
    fast: Callable[..., Any] = compile_(function, fullgraph=True, backend=backend, dynamic=dynamic)
    return fast


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_into_one_graph(device: str, dynamic: bool) -> None:
    def function(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return tk.matmul(a, b, bias=bias, activation="gelu", alpha=2, out_dtype=torch.float32) + 1

    fast = compiled(function, dynamic=dynamic)
    for rows in (20, 21, 40):
        a, b, bias = random((rows, 24), device=device), *operands(device)[1:], torch.ones(16)
        arguments = (a, b, bias.to(device))
        assert torch.equal(fast(*arguments), function(*arguments))


def test_compiles_with_gradients(device: str) -> None:
    def function(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return tk.matmul(a, b, activation="silu", c=c, beta=0.5).float().square().sum()

    a, b = operands(device, batch=(3,))
    gradients = []
    for run in (function, compiled(function)):
        inputs = [t.clone().requires_grad_() for t in (a, b, random((20, 16), device=device) * 0)]
        run(*inputs).backward()
        gradients.append([t.grad for t in inputs])
    for eager, fast in zip(*gradients, strict=True):
        # Tracing takes silu's derivative apart as the double-differentiable form does.
        torch.testing.assert_close(eager, fast, rtol=2**-7, atol=1e-2)


def test_compiles_with_a_plan_and_with_out(device: str) -> None:
    a, b = operands(device)
    plan = tk.plan_matmul(a, b)

    def planned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return tk.matmul(a, b, plan=plan)

    def writing(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return tk.matmul(a, b, out=out) + 1

    assert torch.equal(compiled(planned)(a, b), planned(a, b))
    outs = [torch.full((20, 16), float("nan"), device=device).bfloat16() for _ in range(2)]
    assert torch.equal(compiled(writing)(a, b, outs[0]), writing(a, b, outs[1]))
    assert torch.equal(outs[0], outs[1])


@pytest.mark.slow
def test_compiles_with_inductor(device: str) -> None:
    a, b = operands(device)

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return tk.matmul(a * 2, b, activation="relu") + 1

    torch.testing.assert_close(compiled(function, backend="inductor")(a, b), function(a, b))


def test_wrong_arguments_are_named_while_compiling() -> None:
    a, b = operands("cpu")
    with pytest.raises(Exception, match=r"tk\.matmul: b is a \(20, 24\) tensor"):
        compiled(lambda a: tk.matmul(a, a))(a)
    with pytest.raises(Exception, match=r'activation is "tanh"'):
        compiled(lambda a, b: tk.matmul(a, b, activation="tanh"))(a, b)


def test_exports_and_traces(device: str) -> None:
    class Module(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return tk.matmul(a, b, activation="relu")

    a, b = operands(device)
    expected = tk.matmul(a, b, activation="relu")
    exported = torch.export.export(Module(), (a, b))
    assert OPERATION in [node.target for node in exported.graph.nodes]
    assert torch.equal(exported.module()(a, b), expected)
    traced = make_fx(Module())(a, b)
    assert OPERATION in [node.target for node in traced.graph.nodes]
    assert torch.equal(torch.fx.symbolic_trace(Module())(a, b), expected)


def test_modes_and_subclasses_see_the_operation(device: str) -> None:
    seen = []

    def record(_: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(function)
        return function(*args, **(kwargs or {}))

    Recorder: Any = type("Recorder", (TorchDispatchMode,), {"__torch_dispatch__": record})

    Subclass: Any = type("Subclass", (torch.Tensor,), {})

    a, b = operands(device)
    with Recorder():
        inside = tk.matmul(a, b)
    assert OPERATION in seen
    assert torch.equal(inside, tk.matmul(a, b))
    result = tk.matmul(a.as_subclass(Subclass), b)
    assert type(result) is Subclass
    assert torch.equal(result.as_subclass(torch.Tensor), inside)
    assert type(tk.matmul(torch.nn.Parameter(a, requires_grad=False), b)) is torch.Tensor


def test_writing_counts_as_a_change_of_out(device: str) -> None:
    a, b = operands(device)
    out = torch.ones(20, 16, device=device).bfloat16()
    weight = torch.ones(20, 16, device=device).bfloat16().requires_grad_()
    loss: Any = (weight * out).sum()
    version = out._version
    tk.matmul(a, b, out=out)
    assert out._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_inference_mode_and_no_grad(device: str) -> None:
    a, b = operands(device)
    expected = tk.matmul(a, b)
    a.requires_grad_()
    with torch.no_grad():
        assert not tk.matmul(a, b).requires_grad
        assert torch.equal(tk.matmul(a, b, out=torch.empty_like(expected)), expected)
    with torch.inference_mode():
        result = tk.matmul(a, b)
        assert result.is_inference()
        assert torch.equal(tk.matmul(a, b, out=torch.empty_like(expected)), expected)
    assert torch.equal(result, expected)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_negated_views_are_read_negated() -> None:
    """The imaginary part of a conjugate is a view with the sign bit in torch, not in memory."""
    pairs = torch.view_as_complex(torch.randn(20, 24, 2).half())
    a = torch.conj(pairs).imag
    b = torch.randn(24, 16).half()
    assert a.is_neg()
    assert torch.equal(tk.matmul(a, b), tk.matmul(a.resolve_neg(), b))
