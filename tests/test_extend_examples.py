"""The examples against PyTorch, on the host architecture and on a GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from extend_tools import ROOT, session_cache, start_build

__all__ = ["session_cache"]

Function = Callable[..., torch.Tensor]


pytestmark = [
    pytest.mark.prepare(start_build, ROOT / "examples" / name / f"{name}.hpp")
    for name in ("swiglu", "softmax")
]


def example(name: str) -> ModuleType:
    path = ROOT / "examples" / name / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"tk_example_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def swiglu(session_cache: object) -> Function:
    return example("swiglu").swiglu  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def softmax(session_cache: object) -> Function:
    return example("softmax").softmax  # type: ignore[no-any-return]


def padded(rows: int, cols: int, device: str) -> torch.Tensor:
    """A random bf16 matrix whose rows start at multiples of 16 bytes."""
    whole = torch.randn(rows, -(-cols // 8) * 8, device=device)
    return (whole / cols**0.25).bfloat16()[:, :cols]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(1, 1, 1), (128, 128, 64), (131, 257, 199), (300, 136, 520), (0, 8, 8), (8, 0, 8)],
)
def test_swiglu_of_any_sizes(swiglu: Function, device: str, m: int, n: int, k: int) -> None:
    a, w1, w2 = padded(m, k, device), padded(k, n, device), padded(k, n, device)
    out = swiglu(a, w1, w2)
    right = torch.nn.functional.silu(a.double() @ w1.double()) * (a.double() @ w2.double())
    # one rounding to bf16 (2^-9), and fp32 sums of k products
    torch.testing.assert_close(out.double(), right, rtol=2**-8, atol=2**-8)


@pytest.mark.slow
def test_swiglu_names_what_does_not_fit(swiglu: Function) -> None:
    a, w = padded(16, 16, "cpu"), padded(16, 24, "cpu")
    with pytest.raises(ValueError, match=r"swiglu: w2 \(16, 16\) must have the shape of w1"):
        swiglu(a, w, a)
    with pytest.raises(ValueError, match=r"swiglu: w1 \(24, 16\) must have as many rows as a"):
        swiglu(a, w.t().contiguous(), w)
    with pytest.raises(ValueError, match=r"swiglu: a is .*float32"):
        swiglu(a.float(), w, w)
    with pytest.raises(ValueError, match=r"swiglu: w1 \(16, 24\) cannot be copied by TMA"):
        swiglu(a, padded(24, 16, "cpu").t(), w)
    with pytest.raises(ValueError, match=r"swiglu: a \(16, 0\) must have at least one column"):
        swiglu(a[:, :0], w[:0], w[:0])


@pytest.mark.slow
def test_swiglu_is_an_operation(swiglu: Function, device: str) -> None:
    arguments = padded(16, 16, device), padded(16, 24, device), padded(16, 24, device)
    torch.library.opcheck(torch.ops.tk_examples.swiglu.default, arguments)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (64, 64), (70, 200), (3, 5001), (0, 4), (4, 0)])
def test_softmax_of_any_sizes_and_strides(
    softmax: Function, device: str, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    for x in (torch.randn(shape), torch.randn(shape[::-1]).t(), torch.randn(shape) - 1e4):
        given = (5 * x).to(device, dtype)
        right = torch.softmax(given.double(), -1)
        rounding = 2**-8 if dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(softmax(given).double(), right, rtol=rounding, atol=1e-7)


@pytest.mark.slow
def test_softmax_of_special_values(softmax: Function, device: str) -> None:
    x = torch.full((5, 130), -float("inf"), device=device)
    x[1, 129] = 1.0
    x[2, 3] = float("nan")
    x[3], x[3, 7] = 1.0, float("inf")
    x[4, 64:] = torch.finfo(torch.float32).max
    torch.testing.assert_close(softmax(x), torch.softmax(x, -1), equal_nan=True)


@pytest.mark.slow
def test_softmax_is_an_operation_with_a_gradient(softmax: Function, device: str) -> None:
    x = torch.randn(5, 70, device=device, requires_grad=True)
    torch.library.opcheck(torch.ops.tk_examples.softmax.default, (x,))
    weight = torch.randn(5, 70, device=device)
    (got,) = torch.autograd.grad((softmax(x) * weight).sum(), x)
    (right,) = torch.autograd.grad((torch.softmax(x, -1) * weight).sum(), x)
    torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-6)
