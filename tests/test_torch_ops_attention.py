"""tk.attention as torch sees it: the dispatcher's operation, fake tensors, the compiler, tracing,
graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from attention_inputs import KINDS, pair, random
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck
from torch.utils._python_dispatch import TorchDispatchMode

import tk

OPERATION: Any = torch.ops.tk.attention.default
OUT_OPERATION: Any = torch.ops.tk.attention_out.default


def operands(device: str, kind: str = "dense", queries: int = 9) -> tuple[torch.Tensor, ...]:
    return (
        random(2, 4, queries, 16, kind=kind, device=device),
        random(2, 2, 11, 16, kind=kind, device=device),
        random(2, 2, 11, 24, device=device),
    )


def lengths(*numbers: int, device: str) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32, device=device)


@pytest.mark.parametrize("return_lse", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"causal": True, "window": [3, 2]}, {"scale": 0.5, "softcap": 2.0}],
    ids=["plain", "masks", "numbers"],
)
def test_opcheck(device: str, options: dict[str, Any], return_lse: bool) -> None:
    opcheck(OPERATION, operands(device), {**options, "return_lse": return_lse})


def test_opcheck_with_every_tensor(device: str) -> None:
    q, k, v = operands(device)
    bias, slopes = torch.randn(4, 9, 1, device=device), torch.rand(2, 4, device=device)
    opcheck(OPERATION, (q, k, v, None, None, bias, slopes), {"return_lse": True})
    packed = (torch.randn(rows, 2, 16, device=device).bfloat16() for rows in (5, 7, 7))
    ends = lengths(0, 2, 5, device=device), lengths(0, 7, 7, device=device)
    opcheck(OPERATION, (*packed, *ends), {"return_lse": True, "causal": True})


@pytest.mark.parametrize("kind", KINDS)
def test_opcheck_over_strides(device: str, kind: str) -> None:
    opcheck(OPERATION, operands(device, kind), {"return_lse": True})
    opcheck(OPERATION, operands(device, kind, queries=0))
    opcheck(OPERATION, operands(device, kind, queries=1))


def test_opcheck_of_the_writing_form(device: str) -> None:
    out = torch.empty(2, 9, 4, 24, device=device).bfloat16().transpose(1, 2)
    opcheck(OUT_OPERATION, (out, *operands(device)), {"return_lse": True})


def properties(tensors: Any) -> list[tuple[object, ...]]:
    """Shape, strides, dtype and device of all tensors of a result."""
    return [(tuple(t.shape), tuple(t.stride()), t.dtype, t.device.type) for t in tensors]


def fake_and_real(inputs: tuple[torch.Tensor, ...], **options: Any) -> tuple[Any, Any]:
    """What the shape-only and the real run say of their results. opcheck does not look at strides
    on a CPU; this does."""
    real = properties(pair(tk.attention(*inputs, return_lse=True, **options)))
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(tensor) for tensor in inputs]
    with mode:
        return properties(pair(tk.attention(*fakes, return_lse=True, **options))), real


@pytest.mark.parametrize("queries", [9, 1, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_fake_and_real_agree_in_strides(device: str, kind: str, queries: int) -> None:
    q, k, v = operands(device, kind, queries)
    turned = v.transpose(1, 2).contiguous().transpose(1, 2)
    for inputs in (
        (q, k, v),
        (q, k, turned),
        (q[:, :1], k[:, :1], v[:, :1]),
        (q[:0], k[:0], v[:0]),
    ):
        fake, real = fake_and_real(inputs, causal=True)
        assert fake == real, (kind, [t.stride() for t in inputs])


def test_meta_tensors_have_shapes_only() -> None:
    q, k, v = (tensor.to("meta") for tensor in operands("cpu", "rows_first"))
    out, lse = pair(tk.attention(q, k, v, return_lse=True))
    assert (out.shape, out.dtype, out.device.type) == ((2, 4, 9, 24), torch.bfloat16, "meta")
    assert (lse.shape, lse.dtype) == ((2, 4, 9), torch.float32)
    assert tk.attention(q, k, v, out=out) is out
    with pytest.raises(ValueError, match=r"tk\.attention: v is a \(2, 2, 11, 24\)"):
        tk.attention(q, q, v)


def compiled(function: Callable[..., Any], dynamic: bool | None = None) -> Callable[..., Any]:
    """The function as one graph; "aot_eager" traces everything and generates no code."""
    dynamo: Any = torch._dynamo
    dynamo.reset()
    compile_: Any = torch.compile
    fast: Callable[..., Any] = compile_(
        function, fullgraph=True, backend="aot_eager", dynamic=dynamic
    )
    return fast


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_into_one_graph(device: str, dynamic: bool) -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out, lse = pair(tk.attention(q, k, v, causal=True, window=(5, 2), return_lse=True))
        return tk.attention(q, k, v, scale=0.3) + out + lse[..., None]

    fast = compiled(function, dynamic)
    for queries in (9, 10, 20):
        inputs = operands(device, queries=queries)
        assert torch.equal(fast(*inputs), function(*inputs))


def test_compiles_with_every_option(device: str) -> None:
    bias, slopes = torch.randn(9, 11, device=device), torch.rand(4, device=device)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        out = torch.empty(2, 4, 9, 24, dtype=q.dtype, device=q.device)
        return tk.attention(q, k, v, softcap=3.0, bias=bias, alibi_slopes=slopes, out=out) * 2

    inputs = operands(device)
    assert torch.equal(compiled(function)(*inputs), function(*inputs))


def test_compiles_packed_and_with_a_plan(device: str) -> None:
    q, k, v = operands(device)
    plan = tk.plan_attention(q, k, v)
    ends = lengths(0, 3, 9, device=device)

    def planned(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return tk.attention(q, k, v, plan=plan)

    def packed(x: torch.Tensor) -> Any:
        return tk.attention(x, x, x, cu_seqlens_q=ends, cu_seqlens_k=ends)

    assert torch.equal(compiled(planned)(q, k, v), planned(q, k, v))
    x = torch.randn(9, 2, 32, device=device).bfloat16()
    assert torch.equal(compiled(packed)(x), packed(x))


def test_wrong_arguments_are_named_while_compiling() -> None:
    q, k, v = operands("cpu")
    with pytest.raises(Exception, match=r"tk\.attention: k is a \(2, 4, 9, 24\)"):
        compiled(lambda q, k, v: tk.attention(q, torch.cat([q, q[..., :8]], -1), v))(q, k, v)


def test_a_gradient_is_refused_by_the_operation_too(device: str) -> None:
    q, k, v = operands(device)
    with pytest.raises(NotImplementedError, match=r"tk\.attention has no backward kernel yet"):
        torch.ops.tk.attention(q.requires_grad_(), k, v)
    with pytest.raises(Exception, match=r"requires grad|Observed exception"):
        compiled(lambda q: tk.attention(q, k, v))(q)
    with torch.no_grad():
        assert torch.equal(compiled(lambda q: tk.attention(q, k, v))(q), tk.attention(q, k, v))


def test_exports_and_traces(device: str) -> None:
    class Module(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
            return tk.attention(q, k, v, causal=True)

    inputs = operands(device)
    expected = tk.attention(*inputs, causal=True)
    exported = torch.export.export(Module(), inputs)
    assert OPERATION in [node.target for node in exported.graph.nodes]
    assert torch.equal(exported.module()(*inputs), expected)
    traced = make_fx(Module())(*inputs)
    assert OPERATION in [node.target for node in traced.graph.nodes]


def test_modes_and_subclasses_see_the_operation(device: str) -> None:
    seen = []

    def record(_: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(function)
        return function(*args, **(kwargs or {}))

    Recorder: Any = type("Recorder", (TorchDispatchMode,), {"__torch_dispatch__": record})
    Subclass: Any = type("Subclass", (torch.Tensor,), {})
    q, k, v = operands(device)
    with Recorder():
        inside = tk.attention(q, k, v)
    assert OPERATION in seen
    assert torch.equal(inside, tk.attention(q, k, v))
    result = tk.attention(q.as_subclass(Subclass), k, v)
    assert type(result) is Subclass
    assert torch.equal(result.as_subclass(torch.Tensor), inside)


def test_negated_views_are_read_negated(device: str) -> None:
    q, k, v = operands(device)
    negated = torch._neg_view(q)
    assert negated.is_neg()
    assert torch.equal(tk.attention(negated, k, v), tk.attention(-q, k, v))


def test_writing_counts_as_a_change_of_out(device: str) -> None:
    out = torch.ones(2, 4, 9, 24, device=device).bfloat16()
    weight = torch.ones_like(out).requires_grad_()
    loss: Any = (weight * out).sum()
    tk.attention(*operands(device), out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_inference_mode(device: str) -> None:
    inputs = operands(device)
    expected = tk.attention(*inputs)
    with torch.inference_mode():
        result = tk.attention(*inputs)
        assert isinstance(result, torch.Tensor)
        assert result.is_inference()
        assert torch.equal(result, expected)


def test_merging_compiles_and_differentiates() -> None:
    outs = torch.randn(2, 3, 8, dtype=torch.float32, requires_grad=True)
    lses = torch.randn(2, 3, requires_grad=True)
    out, lse = tk.attention_merge(outs, lses)
    (out.sum() + lse.sum()).backward()
    assert outs.grad is not None
    assert lses.grad is not None
    weights = torch.softmax(lses.detach(), 0)[..., None].expand_as(outs)
    torch.testing.assert_close(outs.grad, weights)
    fast = compiled(tk.attention_merge)(outs.detach(), lses.detach())
    torch.testing.assert_close(fast[0], out.detach())


@pytest.mark.gpu
@pytest.mark.parametrize("queries", [1, 300])
def test_a_graph_replays_with_new_inputs(queries: int) -> None:
    """The first call ever of its shape inside the capture; splits and a queue take counters."""
    q = random(2, 8, queries, 64, device="cuda")
    k, v = (random(2, 2, 4000, 64, device="cuda") for _ in range(2))
    cuda: Any = torch.cuda
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        out, lse = pair(tk.attention(q, k, v, causal=True, return_lse=True))
    for _ in range(3):
        for tensor in (q, k, v):
            tensor.copy_(torch.randn_like(tensor))
        out.fill_(math.nan)
        graph.replay()
        expected, expected_lse = pair(tk.attention(q, k, v, causal=True, return_lse=True))
        assert torch.equal(out, expected)
        assert torch.equal(lse, expected_lse)


@pytest.mark.gpu
def test_nothing_waits_for_the_device() -> None:
    fused = torch.randn(50, 3, 4, 64, device="cuda").bfloat16()
    q, k, v = fused.unbind(1)
    ends = lengths(0, 20, 50, device="cuda")
    cuda: Any = torch.cuda
    tk.attention(q, k, v, cu_seqlens_q=ends, cu_seqlens_k=ends)
    cuda.set_sync_debug_mode("error")
    try:
        tk.attention(q, k, v, cu_seqlens_q=ends, cu_seqlens_k=ends, causal=True)
    finally:
        cuda.set_sync_debug_mode("default")


def test_threads_share_prepared_calls(device: str) -> None:
    """First calls of a shape, at once; a queue or a split has counters of each call."""
    q = random(1, 8, 3, 64, device=device)
    k, v = (random(1, 2, 700, 64, device=device) for _ in range(2))
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(tk.attention, q, k, v, causal=True) for _ in range(12)]
        results: list[Any] = [call.result() for call in calls]
    expected = tk.attention(q, k, v, causal=True)
    assert all(torch.equal(result, expected) for result in results)
