"""What tk.attention computes, against float64: lengths, options, layouts, special numbers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from attention_inputs import KINDS, assert_no_worse_than_torch, no_keys, pair, random
from hypothesis import given
from hypothesis import strategies as st

import tk

BF16, FP16 = torch.bfloat16, torch.float16
NAN, INF = math.nan, math.inf


def checked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
    """The output of a call that was compared with float64, its log-sum-exp too."""
    out, lse = pair(tk.attention(q, k, v, return_lse=True, **options))
    assert_no_worse_than_torch(out, lse, q, k, v, **options)
    assert torch.equal(tk.attention(q, k, v, **options), out)
    return out


def operands(
    queries: int, keys: int, dimension: int = 64, heads: int = 1, device: str = "cpu", **how: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return (
        random(1, heads, queries, dimension, device=device, **how),
        random(1, heads, keys, dimension, device=device, **how),
        random(1, heads, keys, dimension, device=device, **how),
    )


LENGTHS = [1, 2, 63, 64, 65, 127, 128, 129, (113, 203), (128, 217), (217, 128), (1, 300), (130, 1)]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("length", LENGTHS, ids=str)
def test_lengths(device: str, length: int | tuple[int, int], causal: bool) -> None:
    queries, keys = (length, length) if isinstance(length, int) else length
    checked(*operands(queries, keys, device=device), causal=causal)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("dimension", [64, 96, 128, 256])
@pytest.mark.parametrize("lengths", [(1023, 1024), (2048, 2048), (4097, 4097)], ids=str)
def test_long_lengths(lengths: tuple[int, int], dimension: int, causal: bool) -> None:
    checked(*operands(*lengths, dimension, 2, device="cuda"), causal=causal)


@pytest.mark.parametrize("dtype", [BF16, FP16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("dimension", [8, 40, 64, 96, 128, 136, 256])
def test_head_dimensions(device: str, dimension: int, dtype: torch.dtype) -> None:
    checked(*operands(70, 90, dimension, device=device, dtype=dtype), causal=True)


@pytest.mark.parametrize(("dimension", "value_dimension"), [(64, 32), (32, 64), (128, 64)])
def test_the_values_may_have_another_dimension(
    device: str, dimension: int, value_dimension: int
) -> None:
    q, k, _ = operands(33, 65, dimension, device=device)
    checked(q, k, random(1, 1, 65, value_dimension, device=device))


@pytest.mark.parametrize("window", [(0, 0), (3, 0), (0, 5), (-1, 4), (6, -1), (70, 2), (500, 500)])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_windows(device: str, window: tuple[int, int], causal: bool) -> None:
    checked(*operands(150, 140, device=device), window=window, causal=causal)


def test_a_score_is_capped_before_slopes_and_bias_are_added(device: str) -> None:
    q, k, v = (10 * t for t in operands(65, 70, heads=2, device=device))
    bias = torch.randn(65, 70, device=device)
    slopes = torch.tensor([0.5, 0.03], device=device)
    checked(q, k, v, softcap=5.0)
    checked(q, k, v, alibi_slopes=slopes)
    checked(q, k, v, bias=bias)
    checked(q, k, v, softcap=5.0, alibi_slopes=slopes, bias=bias, causal=True, window=(40, -1))


@pytest.mark.parametrize("dtype", [BF16, torch.float32], ids=str)
@pytest.mark.parametrize(
    "shape", [(2, 3, 5, 7), (1, 3, 5, 7), (2, 1, 5, 7), (5, 7), (1, 7), (3, 5, 1), (), (1, 1, 1, 1)]
)
def test_a_bias_is_broadcast(device: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    q = random(2, 3, 5, 16, device=device)
    k, v = (random(2, 3, 7, 16, device=device) for _ in range(2))
    bias = torch.randn(shape, device=device).to(dtype)
    checked(q, k, v, bias=bias)


def test_a_bias_of_other_strides(device: str) -> None:
    q = random(2, 3, 5, 16, device=device)
    k, v = (random(2, 3, 7, 16, device=device) for _ in range(2))
    bias = torch.randn(7, 3, 5, 2, device=device).permute(3, 1, 2, 0)
    checked(q, k, v, bias=bias)
    checked(q, k, v, bias=bias.bfloat16()[:, :, ::5].expand(2, 3, 5, 7))


def test_a_bias_of_minus_infinity_is_a_mask(device: str) -> None:
    q, k, v = operands(20, 30, device=device)
    bias = torch.zeros(20, 30, device=device)
    bias[:, 10:] = -INF
    bias[5] = -INF
    out, lse = pair(tk.attention(q, k, v, bias=bias, return_lse=True))
    assert (out[0, 0, 5] == 0).all()
    assert no_keys(lse)[0, 0].nonzero().flatten().tolist() == [5]
    part = tk.reference.attention(q, k[:, :, :10], v[:, :, :10])
    rows = [row for row in range(20) if row != 5]
    torch.testing.assert_close(out[0, 0, rows].double(), part[0, 0, rows], rtol=0, atol=2e-2)


@pytest.mark.parametrize("shared", [False, True], ids=["by batch", "of heads"])
def test_slopes(device: str, shared: bool) -> None:
    q = random(2, 3, 70, 16, device=device)
    k, v = (random(2, 3, 90, 16, device=device) for _ in range(2))
    slopes = torch.rand(3 if shared else 6, device=device)
    checked(q, k, v, alibi_slopes=slopes if shared else slopes.view(2, 3))
    checked(q, k, v, alibi_slopes=torch.rand(6, device=device)[::2], causal=True)


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
@pytest.mark.parametrize("queries", [1, 3, 40])
def test_heads_that_share_keys(device: str, queries: int, kv_heads: int) -> None:
    q = random(2, 6, queries, 64, device=device)
    k, v = (random(2, kv_heads, 150, 64, device=device) for _ in range(2))
    checked(q, k, v, causal=True)


@pytest.mark.parametrize("options", [{}, {"causal": True, "window": (60, 0)}], ids=["", "window"])
def test_few_queries_and_a_long_cache(device: str, options: dict[str, Any]) -> None:
    q = random(1, 8, 4, 128, device=device)
    k, v = (random(1, 2, 1500, 128, device=device) for _ in range(2))
    out = checked(q, k, v, **options)
    plan = tk.plan_attention(q, k, v, **options)
    for splits in (1, 3, 5):
        for pack_heads in (False, True):
            other = plan.replace(splits=splits, pack_heads=pack_heads, dynamic=False)
            result = tk.attention(q, k, v, plan=other, **options)
            torch.testing.assert_close(result, out, rtol=2**-7, atol=2**-7)
            assert torch.equal(tk.attention(q, k, v, plan=other, **options), result)


@pytest.mark.parametrize("v_kind", KINDS)
@pytest.mark.parametrize("q_kind", KINDS)
def test_kinds_of_memory(device: str, q_kind: str, v_kind: str) -> None:
    """Bit for bit the result of dense copies."""
    q = random(2, 2, 9, 32, kind=q_kind, device=device)
    k = random(2, 2, 11, 32, kind="rows_first", device=device)
    v = random(2, 2, 11, 32, kind=v_kind, device=device)
    out, lse = pair(tk.attention(q, k, v, causal=True, return_lse=True))
    dense = (tensor.contiguous() for tensor in (q, k, v))
    expected, expected_lse = pair(tk.attention(*dense, causal=True, return_lse=True))
    assert torch.equal(out, expected)
    assert torch.equal(lse, expected_lse)


def test_outputs_lie_in_memory_as_queries_do(device: str) -> None:
    k, v = (random(2, 3, 11, 32, device=device) for _ in range(2))
    for kind, strides in (("dense", (480, 160, 32, 1)), ("fused", (480, 32, 96, 1))):
        q = random(2, 3, 5, 32, kind=kind, device=device)
        assert tk.attention(q, k, v).stride() == strides


def test_out_is_written_and_nothing_beside_it(device: str) -> None:
    q, k, v = (random(2, 3, 11, 32, device=device) for _ in range(3))
    memory = torch.full((2, 11, 3, 40), NAN, dtype=BF16, device=device)
    out = memory.transpose(1, 2)[..., :32]
    result, lse = pair(tk.attention(q, k, v, out=out, return_lse=True))
    assert result is out
    expected, expected_lse = pair(tk.attention(q, k, v, return_lse=True))
    assert torch.equal(out, expected)
    assert torch.equal(lse, expected_lse)
    assert memory[..., 32:].isnan().all()


@pytest.mark.parametrize("scale", [0.0, -0.3, 1e-30, 2.0, None])
def test_any_finite_scale(device: str, scale: float | None) -> None:
    q, k, v = operands(65, 70, device=device)
    checked(q, k, v, scale=scale, causal=True)


def test_very_large_logits(device: str) -> None:
    # Whole numbers, whose sums of products are exact in fp32: else its last place would decide.
    # Equal largest scores, in different tiles and splits, have equal weights.
    for seed in range(5):
        torch.manual_seed(seed)
        q, k = (torch.randint(-3, 4, (1, 1, n, 64), device=device).bfloat16() for n in (65, 140))
        v = torch.randn(1, 1, 140, 64, device=device).bfloat16()
        for splits in (1, 2):
            plan = tk.plan_attention(q, k, v).replace(splits=splits, dynamic=False)
            found = tk.attention(1024 * q, 1024 * k, v, plan=plan, return_lse=True)
            assert_no_worse_than_torch(*pair(found), 1024 * q, 1024 * k, v)
    out, lse = pair(tk.attention(1000 * q, 1000 * k, v, scale=1.0, return_lse=True))
    assert out.isfinite().all()
    assert lse.isfinite().all()


def test_rows_without_a_key(device: str) -> None:
    q, k, v = operands(300, 140, device=device)
    out, lse = pair(tk.attention(q, k, v, causal=True, return_lse=True))
    assert (out[:, :, :160] == 0).all()
    assert torch.equal(no_keys(lse)[0, 0], torch.arange(300, device=device) < 160)
    checked(q, k, v, causal=True)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_numbers_that_are_none_propagate(device: str, where: str, value: float) -> None:
    q, k, v = operands(5, 7, device=device)
    {"q": q, "k": k, "v": v}[where][0, 0, 3, 5] = value
    out = tk.attention(q, k, v)
    exact = tk.reference.attention(q, k, v)
    assert torch.equal(out.isnan(), exact.isnan())
    right = out.isfinite()
    assert torch.equal(right, exact.isfinite())
    torch.testing.assert_close(out[right].double(), exact[right], rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize(
    ("q_shape", "k_shape"),
    [
        ((0, 2, 5, 16), (0, 2, 7, 16)),
        ((2, 0, 5, 16), (2, 0, 7, 16)),
        ((2, 0, 5, 16), (2, 2, 7, 16)),
        ((2, 2, 0, 16), (2, 2, 7, 16)),
        ((2, 2, 5, 16), (2, 2, 0, 16)),
    ],
)
def test_empty_tensors(device: str, q_shape: tuple[int, ...], k_shape: tuple[int, ...]) -> None:
    q = torch.zeros(q_shape, dtype=BF16, device=device)
    k = torch.zeros(k_shape, dtype=BF16, device=device)
    out, lse = pair(tk.attention(q, k, k, return_lse=True))
    assert out.shape == q_shape
    assert lse.shape == q_shape[:-1]
    assert (out == 0).all()
    assert no_keys(lse).all()


def lengths_tensor(numbers: list[int], device: str) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32, device=device)


PACKED = [
    ([0, 5, 5, 12], [0, 9, 20, 27]),
    ([0, 1], [0, 1]),
    ([0, 130, 131, 131, 140], [0, 130, 131, 131, 140]),
    ([0, 0, 3], [0, 0, 0]),
    ([0, 70, 73], [0, 0, 150]),
]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("queries", "keys"), PACKED, ids=[str(p[0]) for p in PACKED])
def test_packed_sequences(device: str, queries: list[int], keys: list[int], causal: bool) -> None:
    q = torch.randn(queries[-1], 4, 64, device=device).bfloat16()
    k, v = (torch.randn(keys[-1], 2, 64, device=device).bfloat16() for _ in range(2))
    lengths = {
        "cu_seqlens_q": lengths_tensor(queries, device),
        "cu_seqlens_k": lengths_tensor(keys, device),
    }
    checked(q, k, v, causal=causal, **lengths)
    checked(q, k, v, causal=causal, window=(50, 3), softcap=3.0, **lengths)
    slopes = torch.rand(len(queries) - 1, 4, device=device)
    checked(q, k, v, causal=causal, alibi_slopes=slopes, **lengths)


def test_packed_sequences_of_a_fused_projection(device: str) -> None:
    """Bit for bit the same as each sequence alone."""
    fused = torch.randn(40, 3, 2, 64, device=device).bfloat16()
    q, k, v = fused.unbind(1)
    ends = [0, 17, 18, 40]
    cumulative = lengths_tensor(ends, device)
    out = tk.attention(q, k, v, cu_seqlens_q=cumulative, cu_seqlens_k=cumulative)
    for first, end in pairwise(ends):
        each = (t[first:end].transpose(0, 1)[None] for t in (q, k, v))
        assert torch.equal(out[first:end], tk.attention(*each)[0].transpose(0, 1))


def test_a_packed_sequence_sees_nothing_of_its_neighbours(device: str) -> None:
    """Rows of two sequences share a tile; NaN in one must not reach the other."""
    ends = [0, 30, 75, 90]
    cumulative = lengths_tensor(ends, device)
    q, k, v = (torch.randn(90, 2, 64, device=device).bfloat16() for _ in range(3))
    expected = tk.attention(q, k, v, cu_seqlens_q=cumulative, cu_seqlens_k=cumulative)
    for tensor in (q, k, v):
        tensor[30:75] = NAN
    out = tk.attention(q, k, v, cu_seqlens_q=cumulative, cu_seqlens_k=cumulative)
    assert isinstance(out, torch.Tensor)
    assert isinstance(expected, torch.Tensor)
    assert out[30:75].isnan().all()
    others = [*range(30), *range(75, 90)]
    assert torch.equal(out[others], expected[others])


def test_packed_caches_of_different_lengths(device: str) -> None:
    """A token each against keys of 3 to 2000: heads are packed, keys split."""
    keys = [0, 3, 2003, 2003, 2700]
    q = torch.randn(4, 8, 64, device=device).bfloat16()
    k, v = (torch.randn(2700, 2, 64, device=device).bfloat16() for _ in range(2))
    lengths = {
        "cu_seqlens_q": lengths_tensor([0, 1, 2, 3, 4], device),
        "cu_seqlens_k": lengths_tensor(keys, device),
    }
    checked(q, k, v, causal=True, **lengths)
    plan = tk.plan_attention(q, k, v, **lengths)
    # Lengths that lie on a GPU are not known to the plan.
    assert plan.pack_heads or device != "cpu"
    for splits in (1, 4):
        other = plan.replace(splits=splits, dynamic=False)
        out, lse = pair(tk.attention(q, k, v, plan=other, return_lse=True, **lengths))
        assert_no_worse_than_torch(out, lse, q, k, v, **lengths)


@st.composite
def problems(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """(shapes, options) of small problems with any options."""
    kv_heads = draw(st.integers(1, 2))
    shapes = {
        "batch": draw(st.integers(1, 2)),
        "heads": kv_heads * draw(st.integers(1, 3)),
        "kv_heads": kv_heads,
        "queries": draw(st.integers(1, 140)),
        "keys": draw(st.integers(1, 200)),
        "dimension": draw(st.sampled_from([16, 64, 80, 128])),
        "dtype": draw(st.sampled_from([BF16, FP16])),
        "kinds": [draw(st.sampled_from(KINDS)) for _ in range(3)],
        "bias": draw(st.sampled_from([None, "full", "keys", "heads"])),
        "slopes": draw(st.booleans()),
    }
    side = st.integers(-1, 160)
    options = {
        "causal": draw(st.booleans()),
        "scale": draw(st.sampled_from([None, 0.5, 0.0])),
        "window": draw(st.none() | st.tuples(side, side)),
        "softcap": draw(st.sampled_from([None, 2.0])),
    }
    return shapes, options


@given(problem=problems())
def test_all_options_together(device: str, problem: tuple[dict[str, Any], dict[str, Any]]) -> None:
    s, options = problem
    how = {"dtype": s["dtype"], "device": device}
    q = random(s["batch"], s["heads"], s["queries"], s["dimension"], kind=s["kinds"][0], **how)
    k, v = (
        random(s["batch"], s["kv_heads"], s["keys"], s["dimension"], kind=kind, **how)
        for kind in s["kinds"][1:]
    )
    if s["bias"] is not None:
        shape = {
            "full": (s["batch"], s["heads"], s["queries"], s["keys"]),
            "keys": (s["keys"],),
            "heads": (1, s["heads"], 1, 1),
        }[s["bias"]]
        options["bias"] = torch.randn(shape, device=device)
    if s["slopes"]:
        options["alibi_slopes"] = torch.rand(s["heads"], device=device)
    checked(q, k, v, **options)


def test_merging_parts_of_the_keys_gives_the_whole(device: str) -> None:
    q, k, v = operands(40, 150, heads=2, device=device)
    whole, whole_lse = pair(tk.attention(q, k, v, return_lse=True))
    ends = [0, 1, 70, 150]
    parts = [
        pair(tk.attention(q, k[:, :, a:b], v[:, :, a:b], return_lse=True))
        for a, b in pairwise(ends)
    ]
    out, lse = tk.attention_merge([p[0] for p in parts], [p[1] for p in parts])
    torch.testing.assert_close(lse, whole_lse, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out, whole, rtol=2**-7, atol=2**-7)
    assert out.dtype == whole.dtype


def test_merging_agrees_with_float64_and_keeps_rows_without_keys() -> None:
    outs, lses = torch.randn(3, 2, 5, 8), 20 * torch.randn(3, 2, 5)
    lses[:, 0, 1] = -INF
    lses[1] = -INF
    out, lse = tk.attention_merge(outs, lses)
    exact, exact_lse = tk.reference.attention_merge(outs, lses)
    assert (out[0, 1] == 0).all()
    assert no_keys(lse)[0, 1]
    torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(lse.double(), exact_lse, rtol=1e-5, atol=1e-5)
