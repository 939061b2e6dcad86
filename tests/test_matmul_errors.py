"""What tk.matmul refuses, before it runs anything, and in which words; and that nothing it accepts
is ignored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matmul_inputs import random

import tk
from tk.ops.overlap import overlaps_itself, share_memory

BF16, FP16, FP32, FP64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def zeros(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def ok(**changes: Any) -> dict[str, Any]:
    """Arguments of a good (4, 8) @ (8, 6), with changes."""
    return {"a": zeros(4, 8), "b": zeros(8, 6), **changes}


A = zeros(4, 8)
LONG = zeros(200)

VALUES: list[tuple[str, dict[str, Any], str]] = [
    ("a of one axis", ok(a=zeros(8)), r"a is a \(8,\) tensor.*must be of shape \(M, K\)"),
    ("a of four axes", ok(a=zeros(1, 1, 4, 8)), r"a is a \(1, 1, 4, 8\).*\(batch, M, K\)"),
    ("b of one axis", ok(b=zeros(8)), r"b is a \(8,\) tensor.*\(K, N\) or \(batch, K, N\)"),
    ("K differs", ok(b=zeros(7, 6)), r"b is a \(7, 6\) tensor.*\(\.\.\., 8, N\).*K = 8"),
    ("batch differs", ok(a=zeros(2, 4, 8), b=zeros(3, 8, 6)), r"b is .*batch 2 \(a's\) or 1"),
    ("a in fp32", ok(a=zeros(4, 8, dtype=FP32)), r"a is .*torch\.float32.*bfloat16 or torch\.fl"),
    ("a in int8", ok(a=zeros(4, 8, dtype=torch.int8)), r"a is .*torch\.int8"),
    ("a in bool", ok(a=zeros(4, 8, dtype=torch.bool)), r"a is .*torch\.bool"),
    ("a complex", ok(a=zeros(4, 8, dtype=torch.complex64)), r"a is .*complex64"),
    ("b's dtype differs", ok(b=zeros(8, 6, dtype=FP16)), r"b is .*float16.*a's dtype, torch\.b"),
    ("a sparse", ok(a=zeros(4, 8).to_sparse()), r"a is of layout torch\.sparse_coo.*strided"),
    ("b sparse", ok(b=zeros(8, 6).to_sparse()), r"b is of layout torch\.sparse_coo.*strided"),
    ("b on meta", ok(b=zeros(8, 6).to("meta")), r"b is on meta while a is on cpu"),
    ("c on meta", ok(c=zeros(4, 6).to("meta"), beta=1.0), r"c is on meta while a is on cpu"),
    ("bias too short", ok(bias=zeros(5)), r"bias is a \(5,\) tensor.*of shape \(6,\)"),
    ("bias of one", ok(bias=zeros(1)), r"bias is a \(1,\) tensor.*of shape \(6,\)"),
    ("bias of two axes", ok(bias=zeros(1, 6)), r"bias is a \(1, 6\) tensor.*of shape \(6,\)"),
    ("bias in fp64", ok(bias=zeros(6, dtype=FP64)), r"bias is .*float64.*float32"),
    ("c's shape", ok(c=zeros(5, 6), beta=1.0), r"c is a \(5, 6\).*broadcastable to \(4, 6\)"),
    ("c of more axes", ok(c=zeros(1, 4, 6), beta=1.0), r"c is a \(1, 4, 6\).*broadcastable"),
    ("c in int", ok(c=zeros(4, 6, dtype=torch.int32), beta=1.0), r"c is .*torch\.int32"),
    ("c without beta", ok(c=zeros(4, 6)), r"beta is 0\.0; must be other than 0\.0 when c is"),
    ("beta without c", ok(beta=0.5), r"beta is 0\.5; must be 0\.0 when c is not given"),
    ("alpha too large", ok(alpha=1e300), r"alpha is 1e\+300; must be representable in float32"),
    ("unknown activation", ok(activation="tanh"), r'activation is "tanh".*None, "relu", "gelu"'),
    ("empty activation", ok(activation=""), r'activation is "".*None, "relu", "gelu"'),
    ("out_dtype fp64", ok(out_dtype=FP64), r"out_dtype is torch\.float64.*or torch\.float32"),
    ("out's shape", ok(out=zeros(6, 4)), r"out is a \(6, 4\) tensor.*of shape \(4, 6\)"),
    ("out of one more axis", ok(out=zeros(1, 4, 6)), r"out is a \(1, 4, 6\).*\(4, 6\)"),
    ("out in int", ok(out=zeros(4, 6, dtype=torch.int64)), r"out is .*torch\.int64"),
    ("out's dtype", ok(out=zeros(4, 6), out_dtype=FP16), r"out_dtype is torch\.float16.*out's"),
    ("out requires grad", ok(out=zeros(4, 6).requires_grad_()), r"out is a tensor that requires"),
    ("out with grads", ok(a=zeros(4, 8).requires_grad_(), out=zeros(4, 6)), r"out is given for"),
    ("out expanded", ok(out=zeros(4, 1).expand(4, 6)), r"out is of strides \(1, 0\)"),
    ("out folded", ok(out=LONG.as_strided((4, 6), (2, 1))), r"out is of strides \(2, 1\)"),
    ("out is a", ok(a=LONG[:32].view(4, 8), out=LONG[8:32].view(4, 6)), r"out is in memory of a"),
    ("out is b", ok(b=LONG[:48].view(8, 6), out=LONG[47:71].view(4, 6)), r"out is in memory of b"),
    ("out is c", ok(c=LONG[:24].view(4, 6), beta=1.0, out=LONG[:24].view(4, 6)), r"out.* of c"),
    ("out is bias", ok(bias=LONG[:6], out=LONG[5:29].view(4, 6)), r"out is in memory of bias"),
]  # fmt: skip

TYPES: list[tuple[str, dict[str, Any], str]] = [
    ("a is a list", ok(a=[[1.0]]), r"a is list; must be a torch\.Tensor"),
    ("a is None", ok(a=None), r"a is NoneType; must be a torch\.Tensor"),
    ("b is an array", ok(b=np.zeros((8, 6))), r"b is ndarray; must be a torch\.Tensor"),
    ("bias is a number", ok(bias=1.0), r"bias is float; must be a torch\.Tensor or None"),
    ("c is a number", ok(c=1.0, beta=1.0), r"c is float; must be a torch\.Tensor or None"),
    ("out is a shape", ok(out=(4, 6)), r"out is tuple; must be a torch\.Tensor or None"),
    ("alpha is text", ok(alpha="1"), r"alpha is str; must be a real number"),
    ("alpha is None", ok(alpha=None), r"alpha is NoneType; must be a real number"),
    ("alpha is True", ok(alpha=True), r"alpha is bool; must be a real number"),
    ("alpha is complex", ok(alpha=1j), r"alpha is complex; must be a real number"),
    ("alpha is a tensor", ok(alpha=torch.ones(())), r"alpha is Tensor;.*\.item\(\)"),
    ("beta is text", ok(beta="0"), r"beta is str; must be a real number"),
    ("activation is a function", ok(activation=torch.relu), r"activation is .*; must be None"),
    ("activation is a list", ok(activation=["relu"]), r"activation is list; must be None, "),
    ("out_dtype is text", ok(out_dtype="float32"), r"out_dtype is str; must be a torch\.dtype"),
    ("plan is text", ok(plan="fast"), r"plan is str; must be a tk\.schedulers\.Plan or None"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "text"), [v[1:] for v in VALUES], ids=[v[0] for v in VALUES])
def test_values_that_cannot_be_computed_are_named(arguments: dict[str, Any], text: str) -> None:
    for _ in range(2):  # the second time nothing has been remembered as good
        with pytest.raises(ValueError, match=r"tk\.matmul: " + text):
            tk.matmul(**arguments)


@pytest.mark.parametrize(("arguments", "text"), [t[1:] for t in TYPES], ids=[t[0] for t in TYPES])
def test_objects_of_the_wrong_type_are_named(arguments: dict[str, Any], text: str) -> None:
    tk.matmul(**ok())  # a good call of the same shapes does not let them pass
    with pytest.raises(TypeError, match=r"tk\.matmul: " + text):
        tk.matmul(**arguments)


@pytest.mark.parametrize("arguments", [v[1] for v in VALUES], ids=[v[0] for v in VALUES])
def test_the_dispatcher_refuses_the_same_in_the_same_words(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tk\.matmul: ") as direct:
        tk.matmul(**arguments)
    with torch.device("cpu"), pytest.raises(ValueError, match=r"tk\.matmul: ") as dispatched:
        tk.matmul(**arguments)  # a mode is active, so the call takes the other way
    assert str(direct.value) == str(dispatched.value)


def test_a_refused_call_leaves_out_as_it_was() -> None:
    out = torch.full((4, 6), float("nan"), dtype=BF16)
    with pytest.raises(ValueError, match="activation"):
        tk.matmul(zeros(4, 8), zeros(8, 6), out=out, activation="tanh")
    assert out.isnan().all()
    assert out._version == 0


@pytest.mark.gpu
def test_operands_on_two_devices_are_named() -> None:
    with pytest.raises(ValueError, match=r"b is on cpu while a is on cuda:0"):
        tk.matmul(zeros(4, 8).cuda(), zeros(8, 6))
    with pytest.raises(ValueError, match=r"bias is on cuda:0 while a is on cpu"):
        tk.matmul(**ok(bias=zeros(6).cuda()))


def test_interleaved_memory_is_no_overlap(device: str) -> None:
    """a and out are column blocks of one buffer: their ranges cross, their elements do not."""
    buffer = torch.randn(40, 96, device=device).bfloat16()
    a, b, out = buffer[:, :32], random((32, 64), device=device), buffer[:, 32:]
    before = a.clone()
    assert torch.equal(tk.matmul(a, b, out=out), tk.matmul(before, b))
    assert torch.equal(a, before)


strided = st.integers(1, 3).flatmap(
    lambda rank: st.tuples(
        st.integers(0, 12), *[st.lists(st.integers(lo, hi), min_size=rank, max_size=rank)
                              for lo, hi in ((1, 4), (0, 9))]
    )
)  # fmt: skip


def addresses(tensor: tuple[int, list[int], list[int]], size: int) -> list[int]:
    start, shape, strides = tensor
    first = [
        start + size * sum(i * s for i, s in zip(index, strides, strict=True))
        for index in np.ndindex(*shape)
    ]
    return [address + byte for address in first for byte in range(size)]


@given(first=strided, second=strided, sizes=st.tuples(*[st.sampled_from((2, 4))] * 2))
def test_overlaps_are_exact(
    first: tuple[int, list[int], list[int]],
    second: tuple[int, list[int], list[int]],
    sizes: tuple[int, int],
) -> None:
    bytes_of = [addresses(t, size) for t, size in zip((first, second), sizes, strict=True)]
    crossing = share_memory((*first, sizes[0]), (*second, sizes[1]))
    assert crossing == bool(set(bytes_of[0]) & set(bytes_of[1]))
    elements = addresses(first, 1)
    assert overlaps_itself(first[1], first[2]) == (len(set(elements)) < len(elements))


# Of every argument: a value, and another one that is accepted.
CHANGES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "a": (lambda: random((5, 8)), lambda: random((5, 8))),
    "b": (lambda: random((8, 6)), lambda: random((8, 6))),
    "bias": (lambda: None, lambda: torch.ones(6)),
    "alpha": (lambda: 1.0, lambda: 0.5),
    "beta": (lambda: 1.0, lambda: 2.0),
    "c": (lambda: torch.ones(5, 6), lambda: torch.ones(6) * 2),
    "out_dtype": (lambda: None, lambda: FP32),
    "out": (lambda: None, lambda: zeros(5, 6, dtype=FP32)),
    "activation relu": (lambda: None, lambda: "relu"),
    "activation gelu": (lambda: None, lambda: "gelu"),
    "activation gelu_tanh": (lambda: None, lambda: "gelu_tanh"),
    "activation silu": (lambda: None, lambda: "silu"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_accepted_argument_changes_the_result(change: str) -> None:
    """`plan` alone may not: it says how, and another one gives the same bits or is refused."""
    argument = change.split()[0]
    arguments = {"a": random((5, 8)), "b": random((8, 6)), "beta": 0.0}
    if argument in ("c", "beta"):
        arguments |= {"c": torch.ones(5, 6), "beta": 1.0}
    first, second = (make() for make in CHANGES[change])
    results = [tk.matmul(**{**arguments, argument: value}) for value in (first, second)]
    assert results[0].dtype != results[1].dtype or not torch.equal(*results)


def test_gelu_and_its_tanh_form_differ() -> None:
    a, b = random((64, 64)), random((64, 64))
    exact, tanh = (tk.matmul(a, b, activation=name, out_dtype=FP32, alpha=0.1)
                   for name in ("gelu", "gelu_tanh"))  # fmt: skip
    assert not torch.equal(exact, tanh)
    torch.testing.assert_close(exact, tanh, rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", ["a", "b", "bias", "c", "out"])
def test_a_tensor_whose_memory_was_freed_is_refused(device: str, name: str) -> None:
    tensors = {
        "a": torch.ones(7, 5, device=device).bfloat16(),
        "b": torch.ones(5, 7, device=device).bfloat16(),
        "bias": torch.ones(7, device=device),
        "c": torch.ones(7, 7, device=device),
        "out": torch.empty(7, 7, device=device).bfloat16(),
    }
    tensors[name].untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=rf"tk\.matmul: {name} is a tensor whose memory was freed"):
        tk.matmul(**tensors, beta=1.0)


def test_out_without_memory_and_out_of_inference_mode_are_refused() -> None:
    a, b = torch.ones(9, 5).bfloat16(), torch.ones(5, 7).bfloat16()
    zeros = torch._efficientzerotensor((9, 7), dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="out is a tensor whose memory was freed"):
        tk.matmul(a, b, out=zeros)
    with torch.inference_mode():
        out = torch.empty(9, 7).bfloat16()
        tk.matmul(a, b, out=out)
    with pytest.raises(ValueError, match="out is a tensor of inference mode outside of it"):
        tk.matmul(a, b, out=out)


def test_numbers_beyond_floats_are_refused() -> None:
    a, b = torch.ones(9, 5).bfloat16(), torch.ones(5, 7).bfloat16()
    with pytest.raises(ValueError, match="alpha is a number beyond all floats"):
        tk.matmul(a, b, alpha=10**400)


def test_either_zero_as_a_factor_gives_the_same_bits() -> None:
    """They are equal as keys of what is remembered, so that the first call decided for both."""
    from tk.ops.matmul_eager import prepared_calls

    a, b = torch.ones(9, 5).bfloat16(), torch.ones(5, 7).bfloat16()
    results = []
    for alpha in (-0.0, 0.0):
        prepared_calls.clear()
        results.append(tk.matmul(a, b, alpha=alpha).view(torch.int16))
    assert torch.equal(*results)


def test_an_unmapped_c_with_a_batch_is_refused_inside_vmap() -> None:
    a, b = torch.ones(4, 9, 5).bfloat16(), torch.ones(5, 7).bfloat16()
    c = torch.ones(4, 9, 7)
    with pytest.raises(ValueError, match="c is"):
        torch.vmap(lambda each: tk.matmul(each, b, c=c, beta=1.0))(a)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"splits": 1.0}, "splits is 1.0; needs a whole number"),
        ({"num_stages": "3"}, "num_stages is '3'; needs a whole number"),
        ({"cluster": 2}, "cluster is 2; needs two numbers"),
        ({"order": "row"}, "order is 'row'; needs an object of Order"),
        ({"instance": None}, "instance is None"),
        ({"dynamic": "yes"}, "dynamic is 'yes'; needs True or False"),
    ],
)
def test_a_plan_s_fields_have_their_types(change: dict[str, object], text: str) -> None:
    plan = tk.plan_matmul(torch.ones(64, 64).bfloat16(), torch.ones(64, 64).bfloat16())
    with pytest.raises(ValueError, match=text):
        plan.replace(**change)


@pytest.mark.parametrize("param", [8.5, True, 1 << 40])
def test_an_order_s_width_is_a_whole_number(param: object) -> None:
    with pytest.raises(ValueError, match="needs a whole number up to"):
        tk.schedulers.Order("grouped_m", param)  # type: ignore[arg-type]
