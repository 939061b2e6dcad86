"""tk.rotary as torch sees it: the dispatcher's operations, fake tensors, the compiler, graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rotary_inputs import BF16, operands, same_bits, tables
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck

import tk

OPERATION: Any = torch.ops.tk.rotary.default
INPLACE: Any = torch.ops.tk.rotary_.default

OPTIONS: list[dict[str, Any]] = [{}, {"interleaved": True, "offset": 3}, {"rotary_dim": 64}]


@pytest.mark.parametrize("operation", [OPERATION, INPLACE], ids=["new", "in place"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_opcheck(device: str, options: dict[str, Any], operation: Any) -> None:
    given = (*operands(rows=9, device=device), *tables(12, 32, device=device))
    opcheck(operation, given, options)
    opcheck(operation, (given[0], None, *given[2:]), options)


@pytest.mark.parametrize("operation", [OPERATION, INPLACE], ids=["new", "in place"])
def test_opcheck_with_every_tensor(device: str, operation: Any) -> None:
    cos, sin = tables(12, 32, device=device)
    q, k = operands(rows=9, device=device, rows_first=True)
    positions = torch.randint(0, 12, (2, 9), device=device)
    opcheck(operation, (q, k, cos, sin, positions), {})
    packed = (torch.randn(9, heads, 64, device=device) for heads in (3, 1))
    ends = torch.tensor([0, 4, 9], dtype=torch.int32, device=device)
    opcheck(operation, (*packed, cos, sin, None, ends), {"interleaved": True})


def test_opcheck_with_gradients(device: str) -> None:
    q, k = (x.requires_grad_() for x in operands(rows=9, dtype=torch.float32, device=device))
    opcheck(OPERATION, (q, k, *tables(9, 32, device=device)), {"interleaved": True})
    opcheck(OPERATION, (q, None, *tables(9, 16, device=device)), {})


@pytest.mark.parametrize("rows_first", [False, True])
def test_fake_tensors_have_the_strides_of_real_ones(device: str, rows_first: bool) -> None:
    given = (*operands(rows=9, device=device, rows_first=rows_first), *tables(9, 32, device=device))
    real = tk.rotary(*given)
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(tensor) for tensor in given]
    with mode:
        fake = tk.rotary(*fakes)
    for a, b in zip(real, fake, strict=True):
        assert a is not None
        assert b is not None
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
    with pytest.raises(ValueError, match="rotary_dim is 3"), mode:
        tk.rotary(*fakes, rotary_dim=3)


def _layer(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
    rotated, k_rotated = tk.rotary(q * 2, k, cos, sin, interleaved=True, positions=1)
    assert k_rotated is not None
    return rotated + 1, k_rotated


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_whole(device: str, dynamic: bool) -> None:
    compiled = torch.compile(_layer, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (9, 12):
        given = (*operands(rows=rows, device=device), *tables(13, 32, device=device))
        for a, b in zip(compiled(*given), _layer(*given), strict=True):
            assert same_bits(a, b)


def test_compiled_gradients(device: str) -> None:
    compiled = torch.compile(_layer, fullgraph=True, backend="aot_eager")
    cos, sin = tables(12, 32, device=device)
    grads = []
    for function in (compiled, _layer):
        torch.manual_seed(1)
        q, k = (x.requires_grad_() for x in operands(rows=9, device=device))
        out, k_out = function(q, k, cos, sin)
        torch.autograd.backward([out, k_out], [out.detach(), k_out.detach()])
        grads.append((q.grad, k.grad))
    for a, b in zip(*grads, strict=True):
        assert a is not None
        assert b is not None
        assert same_bits(a, b)


def test_compiled_in_place(device: str) -> None:
    def layer(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        tk.rotary(q, k, cos, sin, inplace=True)
        return q + 0, k

    given = (*operands(rows=9, device=device), *tables(12, 32, device=device))
    copies = tuple(x.clone() for x in given)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    out, _ = compiled(*given)
    layer(*copies)
    assert same_bits(out, copies[0])
    assert same_bits(given[0], copies[0])
    assert same_bits(given[1], copies[1])


def test_in_place_with_gradients_is_refused_where_torch_cannot_have_it() -> None:
    q, k = (x.requires_grad_() * 1 for x in operands())
    with pytest.raises(NotImplementedError, match="inplace is differentiable in eager calls"):
        make_fx(lambda q, k: tk.rotary(q, k, *tables(33, 32), inplace=True)[0])(q, k)


def test_tracing_sees_one_operation() -> None:
    given = (*operands(), *tables(33, 32))
    graph = make_fx(lambda *each: tk.rotary(*each))(*given)
    called = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert called.count("tk.rotary.default") == 1


def test_subclasses_that_override_are_asked() -> None:
    class Seen(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, *_: Any, **__: Any) -> Any:
            return function.__name__

    q, k = operands()
    assert tk.rotary(q.as_subclass(Seen), k, *tables(33, 32)) == "rotary"


def test_autocast_changes_nothing(device: str) -> None:
    q, k = operands(dtype=torch.float32, device=device)
    with torch.autocast(device, dtype=BF16):
        out, _ = tk.rotary(q, k, *tables(33, 32, device=device))
    assert out.dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.parametrize("inplace", [False, True], ids=["new", "in place"])
@pytest.mark.parametrize("warm", [False, True], ids=["first call", "warm"])
def test_a_graph_replays_on_new_inputs(warm: bool, inplace: bool) -> None:
    rows = 40 + warm + 2 * inplace  # shapes of its own, so that the first call is in the capture
    q, k = operands(rows=rows, device="cuda")
    cos, sin = tables(rows, 32, device="cuda")
    if warm:
        tk.rotary(q.clone(), k.clone(), cos, sin, inplace=inplace)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out, k_out = tk.rotary(q, k, cos, sin, inplace=inplace)
    assert k_out is not None
    for _ in range(3):
        fresh, k_fresh = operands(rows=rows, device="cuda")
        q.copy_(fresh), k.copy_(k_fresh)
        graph.replay()
        expected, k_expected = tk.rotary(fresh, k_fresh, cos, sin)
        assert k_expected is not None
        assert same_bits(out, expected)
        assert same_bits(k_out, k_expected)


@pytest.mark.gpu
def test_it_runs_on_the_current_stream() -> None:
    q, k = operands(4, 32, 8, 4096, device="cuda")
    cos, sin = tables(4096, 32, device="cuda")
    expected, _ = tk.rotary(q, k, cos, sin)
    later = torch.zeros_like(q)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        later.copy_(q)
        out, _ = tk.rotary(later, None, cos, sin)
    stream.synchronize()
    assert same_bits(out, expected)
