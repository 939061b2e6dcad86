"""What tk.attention refuses, before it runs anything, and in which words; and that nothing it
accepts is ignored."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attention_inputs import random

import tk

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def zeros(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def ends(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def ok(**changes: Any) -> dict[str, Any]:
    """Arguments of a good call, 4 heads on 2 key heads, with changes."""
    return {"q": zeros(2, 4, 5, 16), "k": zeros(2, 2, 7, 16), "v": zeros(2, 2, 7, 24), **changes}


def packed(**changes: Any) -> dict[str, Any]:
    """The same of packed sequences."""
    good = {
        "q": zeros(5, 4, 16),
        "k": zeros(7, 2, 16),
        "v": zeros(7, 2, 24),
        "cu_seqlens_q": ends(0, 2, 5),
        "cu_seqlens_k": ends(0, 0, 7),
    }
    return {**good, **changes}


LONG = zeros(4000)
OUT = zeros(2, 4, 5, 24)
Q, OVER_Q = LONG[:640].view(2, 4, 5, 16), LONG[600:1560].view(2, 4, 5, 24)
V, OVER_V = LONG[:672].view(2, 2, 7, 24), LONG[664:1624].view(2, 4, 5, 24)

VALUES: list[tuple[str, dict[str, Any], str]] = [
    ("q of three axes", ok(q=zeros(4, 5, 16)), r"q is a \(4, 5, 16\).*\(B, H, Nq, D\) without cu"),
    ("k of five axes", ok(k=zeros(1, 2, 2, 7, 16)), r"k is a .*\(B, Hkv, Nk, D\) without cu_seql"),
    ("v of two axes", ok(v=zeros(7, 24)), r"v is a \(7, 24\).*\(B, Hkv, Nk, Dv\)"),
    ("q in fp32", ok(q=zeros(2, 4, 5, 16, dtype=FP32)), r"q is .*float32.*bfloat16 or torch\.fl"),
    ("q in int8", ok(q=zeros(2, 4, 5, 16, dtype=torch.int8)), r"q is .*torch\.int8"),
    ("k in fp16", ok(k=zeros(2, 2, 7, 16, dtype=FP16)), r"k is .*float16.*q's dtype, torch\.bf"),
    ("v in fp32", ok(v=zeros(2, 2, 7, 24, dtype=FP32)), r"v is .*float32.*q's dtype, torch\.bf"),
    ("q sparse", ok(q=zeros(2, 4, 5, 16).to_sparse()), r"q is of layout torch\.sparse_coo"),
    ("k on meta", ok(k=zeros(2, 2, 7, 16).to("meta")), r"k is on meta while q is on cpu"),
    ("batch", ok(k=zeros(3, 2, 7, 16)), r"k is a \(3, 2, 7, 16\).*q's batch, 2"),
    ("heads", ok(k=zeros(2, 3, 7, 16)), r"k is a \(2, 3, 7, 16\).*heads that divides q's, 4"),
    ("more key heads", ok(k=zeros(2, 8, 7, 16)), r"k is a \(2, 8, 7, 16\).*divides q's, 4"),
    ("no key heads", ok(k=zeros(2, 0, 7, 16)), r"k is a \(2, 0, 7, 16\).*divides q's, 4"),
    ("dimension", ok(k=zeros(2, 2, 7, 24)), r"k is a \(2, 2, 7, 24\).*q's head dimension, 16"),
    ("v's rows", ok(v=zeros(2, 2, 8, 24)), r"v is a \(2, 2, 8, 24\).*\(2, 2, 7, Dv\), as k has"),
    ("v's heads", ok(v=zeros(2, 4, 7, 24)), r"v is a \(2, 4, 7, 24\).*\(2, 2, 7, Dv\)"),
    ("D of 12", ok(q=zeros(2, 4, 5, 12), k=zeros(2, 2, 7, 12)), r"q is .*head dimension 12.*of 8"),
    ("D of 264", ok(q=zeros(2, 4, 5, 264), k=zeros(2, 2, 7, 264)), r"q is .*264.*up to 256"),
    ("D of 0", ok(q=zeros(2, 4, 5, 0), k=zeros(2, 2, 7, 0)), r"q is .*head dimension 0.*of 8"),
    ("Dv of 20", ok(v=zeros(2, 2, 7, 20)), r"v is .*value dimension 20.*multiple of 8"),
    ("q transposed", ok(q=zeros(2, 4, 16, 5).mT), r"q is of strides \(320, 80, 1, 5\).*contiguous"),
    ("v by twos", ok(v=zeros(2, 2, 7, 48)[..., ::2]), r"v is of strides .*contiguous in its last"),
    ("k of odd rows", ok(k=zeros(2, 2, 7, 17)[..., :16]), r"k is of strides .*, 17, 1\).*of 8"),
    ("k of equal rows", ok(k=zeros(2, 2, 1, 16).expand(2, 2, 7, 16)), r"k is of .*between its"),
    ("q at 2 bytes", ok(q=LONG[1:641].view(2, 4, 5, 16)), r"q is at address 0x.*16 bytes"),
    ("scale inf", ok(scale=math.inf), r"scale is inf; must be a finite number or None"),
    ("scale nan", ok(scale=math.nan), r"scale is nan; must be a finite number or None"),
    ("scale large", ok(scale=1e300), r"scale is 1e\+300; must be representable in float32"),
    ("softcap 0", ok(softcap=0.0), r"softcap is 0\.0; must be a finite number above 0 or None"),
    ("softcap negative", ok(softcap=-1), r"softcap is -1\.0; must be a finite number above 0"),
    ("softcap inf", ok(softcap=math.inf), r"softcap is inf; must be a finite number above 0"),
    ("window of one", ok(window=(3,)), r"window is \(3,\); must be two ints >= -1"),
    ("window of -2", ok(window=(-2, 0)), r"window is \(-2, 0\); must be two ints >= -1"),
    ("window of floats", ok(window=(1.0, 2.0)), r"window is \(1\.0, 2\.0\); must be two ints"),
    ("window of bools", ok(window=(True, 2)), r"window is \(True, 2\); must be two ints"),
    ("bias's shape", ok(bias=zeros(2, 4, 5, 6)), r"bias is a \(2, 4, 5, 6\).*\(2, 4, 5, 7\)"),
    ("bias of five axes", ok(bias=zeros(1, 2, 4, 5, 7)), r"bias is a .*broadcastable to \(B, H"),
    ("bias in int", ok(bias=zeros(5, 7, dtype=torch.int32)), r"bias is .*int32.*float32"),
    ("bias in fp16", ok(bias=zeros(5, 7, dtype=FP16)), r"bias is .*float16.*bfloat16 or torch\.fl"),
    ("bias in bool", ok(bias=zeros(5, 7, dtype=torch.bool)), r"bias is .*torch\.bool"),
    ("slopes of 3", ok(alibi_slopes=zeros(3, dtype=FP32)), r"alibi_slopes is a \(3,\).*\(4,\) or"),
    ("slopes' batch", ok(alibi_slopes=zeros(3, 4, dtype=FP32)), r"alibi_slopes is a .*\(2, 4\)"),
    ("slopes in bf16", ok(alibi_slopes=zeros(4)), r"alibi_slopes is .*bfloat16.*torch\.float32"),
    ("out's shape", ok(out=zeros(2, 4, 5, 16)), r"out is a .*of shape \(2, 4, 5, 24\)"),
    ("out in fp32", ok(out=zeros(2, 4, 5, 24, dtype=FP32)), r"out is .*q's dtype, torch\.bfloat16"),
    ("out transposed", ok(out=zeros(2, 4, 24, 5).mT), r"out is of strides .*contiguous"),
    ("out requires grad", ok(out=OUT.clone().requires_grad_()), r"out is a tensor that requires"),
    ("out expanded", ok(out=zeros(2, 1, 5, 24).expand(2, 4, 5, 24)), r"out is of strides \(120"),
    ("out is q", ok(q=Q, out=OVER_Q), r"out is in memory of q"),
    ("out is v", ok(v=V, out=OVER_V), r"out is in memory of v"),
    ("only queries' lengths", packed(cu_seqlens_k=None), r"cu_seqlens_k is None while"),
    ("only keys' lengths", packed(cu_seqlens_q=None), r"cu_seqlens_q is None while cu_seqlens_k"),
    ("lengths in int64", packed(cu_seqlens_q=ends(0, 2, 5).long()), r"cu_seqlens_q is .*int64"),
    ("lengths of two axes", packed(cu_seqlens_q=ends(0, 2, 5)[None]), r"cu_seqlens_q is a \(1, 3"),
    ("no lengths", packed(cu_seqlens_q=ends()), r"cu_seqlens_q is a \(0,\).*sequences \+ 1"),
    ("other lengths", packed(cu_seqlens_k=ends(0, 7)), r"cu_seqlens_k is a \(2,\).*shape, \(3,\)"),
    ("strided lengths", packed(cu_seqlens_q=ends(0, 0, 2, 0, 5)[::2]), r"cu_seqlens_q is of st"),
    ("falling lengths", packed(cu_seqlens_q=ends(0, 6, 5)), r"cu_seqlens_q is \[0, 6, 5\].*never"),
    ("not from 0", packed(cu_seqlens_k=ends(1, 2, 7)), r"cu_seqlens_k is \[1, 2, 7\].*with 0"),
    ("not to the end", packed(cu_seqlens_k=ends(0, 2, 6)), r"cu_seqlens_k is \[0, 2, 6\].*with 7"),
    ("beyond the end", packed(cu_seqlens_k=ends(0, 2, 8)), r"cu_seqlens_k is \[0, 2, 8\].*with 7"),
    ("packed q of four axes", packed(q=zeros(1, 5, 4, 16)), r"q is a .*\(Tq, H, D\) with"),
    ("padded q of three", packed(k=zeros(1, 2, 7, 16)), r"k is a .*\(Tk, Hkv, D\) with"),
    ("packed equal rows", packed(q=zeros(1, 4, 16).expand(5, 4, 16)), r"q is of .*its rows that"),
    ("packed bias", packed(bias=zeros(5, 7)), r"bias is given with cu_seqlens_q; must be None"),
    ("no sequences", packed(cu_seqlens_q=ends(0), cu_seqlens_k=ends(0)), r"cu_seqlens_q is of no"),
]  # fmt: skip

TYPES: list[tuple[str, dict[str, Any], str]] = [
    ("q is a list", ok(q=[[1.0]]), r"q is list; must be a torch\.Tensor"),
    ("k is None", ok(k=None), r"k is NoneType; must be a torch\.Tensor"),
    ("v is an array", ok(v=np.zeros((2, 2, 7, 24))), r"v is ndarray; must be a torch\.Tensor"),
    ("bias is a number", ok(bias=1.0), r"bias is float; must be a torch\.Tensor or None"),
    ("slopes are a list", ok(alibi_slopes=[1.0]), r"alibi_slopes is list; must be a torch\.Tensor"),
    ("out is a shape", ok(out=(2, 4)), r"out is tuple; must be a torch\.Tensor or None"),
    ("lengths are a list", packed(cu_seqlens_q=[0, 2, 5]), r"cu_seqlens_q is list; must be"),
    ("causal is a number", ok(causal=1), r"causal is int; must be True or False"),
    ("causal is text", ok(causal="yes"), r"causal is str; must be True or False"),
    ("return_lse is None", ok(return_lse=None), r"return_lse is NoneType; must be True or False"),
    ("scale is text", ok(scale="1"), r"scale is str; must be a real number"),
    ("scale is a tensor", ok(scale=torch.ones(())), r"scale is Tensor;.*\.item\(\)"),
    ("scale is True", ok(scale=True), r"scale is bool; must be a real number"),
    ("softcap is a list", ok(softcap=[1.0]), r"softcap is list; must be a real number"),
    ("window is a number", ok(window=3), r"window is int; must be \(left, right\) or None"),
    ("plan is text", ok(plan="fast"), r"plan is str; must be a tk\.schedulers\.Plan or None"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "text"), [v[1:] for v in VALUES], ids=[v[0] for v in VALUES])
def test_values_that_cannot_be_computed_are_named(arguments: dict[str, Any], text: str) -> None:
    for _ in range(2):  # the second time nothing has been remembered as good
        with pytest.raises(ValueError, match=r"tk\.attention: " + text):
            tk.attention(**arguments)


@pytest.mark.parametrize(("arguments", "text"), [t[1:] for t in TYPES], ids=[t[0] for t in TYPES])
def test_objects_of_the_wrong_type_are_named(arguments: dict[str, Any], text: str) -> None:
    tk.attention(**ok())  # a good call of the same shapes does not let them pass
    tk.attention(**packed())
    with pytest.raises(TypeError, match=r"tk\.attention: " + text):
        tk.attention(**arguments)


@pytest.mark.parametrize("arguments", [v[1] for v in VALUES], ids=[v[0] for v in VALUES])
def test_the_dispatcher_refuses_the_same_in_the_same_words(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tk\.attention: ") as direct:
        tk.attention(**arguments)
    with torch.device("cpu"), pytest.raises(ValueError, match=r"tk\.attention: ") as dispatched:
        tk.attention(**arguments)  # a mode is active, so the call takes the other way
    assert str(direct.value) == str(dispatched.value)


@pytest.mark.parametrize("name", ["q", "k", "v", "bias", "alibi_slopes"])
def test_a_needed_gradient_is_not_implemented(name: str) -> None:
    arguments = ok(bias=zeros(5, 7, dtype=FP32), alibi_slopes=zeros(4, dtype=FP32))
    expected = tk.attention(**arguments)
    arguments[name] = arguments[name].clone().requires_grad_()
    with pytest.raises(NotImplementedError, match=rf"tk\.attention: {name} requires grad.*no_grad"):
        tk.attention(**arguments)
    with pytest.raises(NotImplementedError, match=r"tk\.attention: .*no_grad"):
        tk.attention(**arguments, return_lse=True)
    with torch.no_grad():
        assert torch.equal(tk.attention(**arguments), expected)


def test_a_refused_call_leaves_out_as_it_was() -> None:
    out = torch.full((2, 4, 5, 24), math.nan, dtype=BF16)
    with pytest.raises(ValueError, match="window"):
        tk.attention(**ok(out=out, window=(-2, 3)))
    assert out.isnan().all()


def test_a_good_call_does_not_let_an_unaligned_one_pass() -> None:
    aligned, unaligned = (LONG[o : o + 640].view(2, 4, 5, 16) for o in (0, 1))
    tk.attention(**ok(q=aligned))
    with pytest.raises(ValueError, match=r"q is at address"):
        tk.attention(**ok(q=unaligned))


def test_lengths_are_checked_at_every_call() -> None:
    arguments = packed()
    tk.attention(**arguments)
    arguments["cu_seqlens_q"][1] = 6
    with pytest.raises(ValueError, match=r"cu_seqlens_q is \[0, 6, 5\]"):
        tk.attention(**arguments)


def test_strides_of_axes_of_one_mean_nothing() -> None:
    q = torch.randn(4000).bfloat16().as_strided((1, 2, 1, 16), (3, 16, 5, 1))
    k = torch.randn(4000).bfloat16().as_strided((1, 1, 7, 16), (1, 9, 16, 1))
    expected = tk.attention(q.contiguous(), k.contiguous(), k.contiguous())
    assert torch.equal(tk.attention(q, k, k), expected)


def other_problem() -> tk.schedulers.Plan:
    return tk.plan_attention(**ok(causal=True))


def test_a_plan_for_something_else_is_refused() -> None:
    plan = tk.plan_attention(**ok())
    assert torch.equal(tk.attention(**ok(), plan=plan), tk.attention(**ok()))
    with pytest.raises(ValueError, match=r"plan is for attention .*causal.*must be for attention"):
        tk.attention(**ok(), plan=other_problem())
    a = zeros(4, 8)
    with pytest.raises(ValueError, match=r"plan is for gemm.*must be for attention"):
        tk.attention(**ok(), plan=tk.plan_matmul(a, a.mT))
    with pytest.raises(ValueError, match=r"plan is for attention.*for a matrix product"):
        tk.matmul(a, a.mT, plan=plan)


def test_the_plan_of_nothing_is_refused() -> None:
    for nothing in (ok(q=zeros(2, 4, 0, 16)), ok(k=zeros(2, 2, 0, 16), v=zeros(2, 2, 0, 24))):
        with pytest.raises(ValueError, match=r"the output is empty, or of no keys"):
            tk.plan_attention(**nothing)


CHANGES: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "scale": {"scale": 2.0},
    "window": {"window": (1, 1)},
    "softcap": {"softcap": 0.5},
    "bias": {"bias": torch.randn(5, 7)},
    "alibi_slopes": {"alibi_slopes": torch.rand(4) + 0.5},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_argument_is_ignored(change: dict[str, Any]) -> None:
    q, k = random(2, 4, 5, 16), random(2, 2, 7, 16)
    assert not torch.equal(tk.attention(q, k, k, **change), tk.attention(q, k, k))


MERGES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: tk.attention_merge([], []), ValueError, "outs is without parts"),
    (lambda: tk.attention_merge(1, []), TypeError, "outs is int"),  # type: ignore[arg-type]
    (lambda: tk.attention_merge([1], [2]), TypeError, r"outs\[0\] is int"),  # type: ignore[list-item]
    (lambda: tk.attention_merge(OUT, OUT[..., 0][:1]), ValueError, "lses is of 1 parts.*outs' 2"),
    (lambda: tk.attention_merge(OUT, OUT[..., :3, 0]), ValueError, r"lses\[0\] is a \(4, 3\)"),
    (lambda: tk.attention_merge([OUT, OUT[:1]], [OUT[..., 0]] * 2), ValueError, r"outs\[1\] is a"),
    (lambda: tk.attention_merge([OUT.int()], [OUT[..., 0]]), ValueError, r"outs\[0\] is .*int32"),
]


@pytest.mark.parametrize(("call", "kind", "text"), MERGES, ids=[m[2] for m in MERGES])
def test_parts_that_cannot_be_merged_are_named(
    call: Callable[[], object], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=r"tk\.attention_merge: " + text):
        call()
