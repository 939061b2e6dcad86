"""The values of tk.matmul: shapes, memory layouts, data types and epilogues against torch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from matmul_inputs import (
    BATCH_KINDS,
    MATRIX_KINDS,
    OUT_KINDS,
    allocate,
    assert_no_worse_than_torch,
    random,
)

import tk

HALF = (torch.bfloat16, torch.float16)
OUT = (torch.bfloat16, torch.float16, torch.float32)
ACTIVATIONS = (None, "relu", "gelu", "gelu_tanh", "silu")

sizes = st.integers(1, 300)


@given(
    shape=st.tuples(sizes, sizes, sizes),
    a_kind=st.sampled_from(MATRIX_KINDS),
    b_kind=st.sampled_from(MATRIX_KINDS),
    dtype=st.sampled_from(HALF),
    out_dtype=st.sampled_from((None, *OUT)),
)
@example(shape=(1, 1, 1), a_kind="dense", b_kind="dense", dtype=torch.bfloat16, out_dtype=None)
@example(shape=(129, 257, 65), a_kind="dense", b_kind="dense", dtype=torch.float16, out_dtype=None)
def test_any_shape_and_any_strides_are_as_right_as_torch(
    device: str,
    shape: tuple[int, int, int],
    a_kind: str,
    b_kind: str,
    dtype: torch.dtype,
    out_dtype: torch.dtype | None,
) -> None:
    m, n, k = shape
    a = random((m, k), a_kind, dtype=dtype, device=device)
    b = random((k, n), b_kind, dtype=dtype, device=device)
    result = tk.matmul(a, b, out_dtype=out_dtype)
    assert result.dtype == (out_dtype or dtype)
    assert result.is_contiguous()
    assert_no_worse_than_torch(result, a, b, out_dtype=out_dtype)


@pytest.mark.parametrize("a_kind", ["dense", "transposed"])
@pytest.mark.parametrize("b_kind", ["dense", "transposed"])
@pytest.mark.parametrize("dtype", HALF, ids=["bf16", "fp16"])
def test_all_four_majors(device: str, a_kind: str, b_kind: str, dtype: torch.dtype) -> None:
    a = random((136, 200), a_kind, dtype=dtype, device=device)
    b = random((200, 264), b_kind, dtype=dtype, device=device)
    assert_no_worse_than_torch(tk.matmul(a, b), a, b)


@given(
    shape=st.tuples(sizes, sizes, sizes),
    activation=st.sampled_from(ACTIVATIONS),
    alpha=st.sampled_from((1.0, 0.5, -1.7)),
    bias=st.sampled_from((None, *OUT)),
    bias_step=st.integers(0, 2),
    c_kind=st.sampled_from((None, *MATRIX_KINDS)),
    c_dtype=st.sampled_from(OUT),
    beta=st.sampled_from((1.0, -0.25)),
    out_dtype=st.sampled_from(OUT),
)
def test_every_epilogue_is_as_right_as_torch(
    device: str,
    shape: tuple[int, int, int],
    activation: str | None,
    alpha: float,
    bias: torch.dtype | None,
    bias_step: int,
    c_kind: str | None,
    c_dtype: torch.dtype,
    beta: float,
    out_dtype: torch.dtype,
) -> None:
    m, n, k = shape
    a, b = random((m, k), device=device), random((k, n), device=device)
    options: dict[str, object] = {"activation": activation, "alpha": alpha, "out_dtype": out_dtype}
    if bias is not None:
        options["bias"] = torch.randn(2 * n, device=device).to(bias).as_strided((n,), (bias_step,))
    if c_kind is not None:
        options |= {"c": random((m, n), c_kind, dtype=c_dtype, device=device), "beta": beta}
    result = tk.matmul(a, b, **options)  # type: ignore[arg-type]
    assert_no_worse_than_torch(result, a, b, **options)


@given(
    batch=st.integers(1, 5),
    shape=st.tuples(st.integers(1, 150), st.integers(1, 150), st.integers(1, 150)),
    kinds=st.tuples(*[st.sampled_from(MATRIX_KINDS)] * 2),
    batch_kinds=st.tuples(*[st.sampled_from((*BATCH_KINDS, "one", "matrix"))] * 2),
)
def test_batches_in_any_memory_and_matrices_shared_by_all(
    device: str,
    batch: int,
    shape: tuple[int, int, int],
    kinds: tuple[str, str],
    batch_kinds: tuple[str, str],
) -> None:
    m, n, k = shape

    def operand(rows: int, cols: int, kind: str, batch_kind: str) -> torch.Tensor:
        if batch_kind == "matrix":
            return random((rows, cols), kind, device=device)
        if batch_kind == "one":
            return random((1, rows, cols), kind, device=device)
        return random((batch, rows, cols), kind, batch_kind, device=device)

    a = operand(m, k, kinds[0], batch_kinds[0])
    b = operand(k, n, kinds[1], batch_kinds[1])
    assert_no_worse_than_torch(tk.matmul(a, b), a, b)


@given(
    batch=st.sampled_from((None, 3)),
    shape=st.tuples(sizes, sizes),
    kind=st.sampled_from(OUT_KINDS),
    batch_kind=st.sampled_from(("outer", "between", "inner")),
    dtype=st.sampled_from(OUT),
)
def test_out_is_filled_wherever_it_lies_and_nothing_beside_it(
    device: str,
    batch: int | None,
    shape: tuple[int, int],
    kind: str,
    batch_kind: str,
    dtype: torch.dtype,
) -> None:
    m, n = shape
    lead = () if batch is None else (batch,)
    a, b = random((*lead, m, 40), device=device), random((40, n), device=device)
    out = allocate((*lead, m, n), kind, batch_kind, dtype, device)
    assert tk.matmul(a, b, out=out.view) is out.view
    assert_no_worse_than_torch(out.view, a, b, out_dtype=dtype)
    assert out.untouched()


@pytest.mark.parametrize("c_shape", [(70,), (1, 70), (33, 1), (1, 1), (), (3, 33, 70), (3, 1, 70)])
def test_c_broadcasts_as_in_torch(device: str, c_shape: tuple[int, ...]) -> None:
    a, b = random((3, 33, 40), device=device), random((3, 40, 70), device=device)
    c = torch.randn(c_shape, device=device)
    assert_no_worse_than_torch(tk.matmul(a, b, c=c, beta=2.0), a, b, c=c, beta=2.0)


@pytest.mark.parametrize("shape", [(0, 5, 7), (5, 0, 7), (5, 7, 0), (0, 0, 0), (1, 1, 0)])
@pytest.mark.parametrize("batch", [None, 0, 3])
def test_empty_products_are_as_torch_defines_them(
    device: str, shape: tuple[int, int, int], batch: int | None
) -> None:
    m, n, k = shape
    lead = () if batch is None else (batch,)
    a = torch.randn(*lead, m, k, device=device).bfloat16()
    b = torch.randn(*lead, k, n, device=device).bfloat16()
    bias = torch.randn(n, device=device)
    c = torch.randn(*lead, m, n, device=device)
    torch.testing.assert_close(tk.matmul(a, b), torch.matmul(a, b), rtol=0, atol=0)
    result = tk.matmul(a, b, bias=bias, c=c, beta=0.5, activation="silu", out_dtype=torch.float32)
    expected = torch.nn.functional.silu(bias + 0.5 * c)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("m", [1, 2, 3, 16, 17, 64, 128])
def test_few_rows(device: str, m: int) -> None:
    a, w = random((m, 520), device=device), random((136, 520), device=device)
    assert_no_worse_than_torch(tk.matmul(a, w.t()), a, w.t())


@pytest.mark.parametrize(
    "shape", [(300, 1, 1), (1, 300, 1), (1, 1, 300), (300, 1, 40), (300, 40, 1)]
)
@pytest.mark.parametrize("kinds", [("dense", "dense"), ("transposed", "transposed")])
def test_columns_rows_and_outer_products(
    device: str, shape: tuple[int, int, int], kinds: tuple[str, str]
) -> None:
    m, n, k = shape
    a, b = random((m, k), kinds[0], device=device), random((k, n), kinds[1], device=device)
    assert_no_worse_than_torch(tk.matmul(a, b), a, b)


def test_nan_and_infinity_pass_through_as_in_torch(device: str) -> None:
    a, b = random((33, 40), device=device), random((40, 50), device=device)
    a[3, 7] = float("inf")
    a[20, 1] = float("nan")
    for activation in (None, "relu"):
        result = tk.matmul(a, b, activation=activation).double()
        expected = tk.reference.matmul(a, b, activation=activation)
        assert torch.equal(result.isnan(), expected.isnan())
        assert torch.equal(result.isinf(), expected.isinf())


def test_views_at_an_offset_read_their_own_elements(device: str) -> None:
    big = torch.full((90, 200), float("nan"), device=device).bfloat16()
    a = big.narrow(0, 11, 33).narrow(1, 64, 40)
    b = big.narrow(0, 50, 40).narrow(1, 3, 70)
    a.copy_(torch.randn(33, 40))
    b.copy_(torch.randn(40, 70))
    assert_no_worse_than_torch(tk.matmul(a, b), a, b)


def test_zeros_without_memory_are_zeros(device: str) -> None:
    """Forward-mode differentiation makes them; their address is 0."""
    zero = torch._efficientzerotensor((24, 16), dtype=torch.bfloat16, device=device)
    a, c = random((20, 24), device=device), random((20, 16), device=device)
    assert not tk.matmul(a, zero).any()
    assert torch.equal(tk.matmul(a, zero, c=c, beta=1.0), c)
    nothing = torch._efficientzerotensor((20, 16), dtype=torch.bfloat16, device=device)
    assert torch.equal(
        tk.matmul(a, zero.clone() + 1, c=nothing, beta=1.0), tk.matmul(a, zero.clone() + 1)
    )
