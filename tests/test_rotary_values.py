"""What tk.rotary computes, against float64: sizes, dtypes, pairings, strides, positions, packed
sequences, in place, special numbers."""

from __future__ import annotations

import math

import pytest
import torch
from rotary_inputs import BF16, DTYPES, FP16, FP32, operands, rotate, same_bits, tables
from rotary_inputs import assert_is_rotation as check

import tk

PAIRINGS = pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])


@PAIRINGS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dimension", [2, 6, 16, 40, 64, 80, 128, 256])
def test_dimensions(device: str, dimension: int, dtype: torch.dtype, interleaved: bool) -> None:
    q, k = operands(dimension=dimension, dtype=dtype, device=device)
    rotate(q, k, *tables(33, dimension // 2, device=device), interleaved=interleaved)


@pytest.mark.parametrize("heads", [(1, 1), (8, 2), (7, 5), (33, 3), (0, 2), (2, 0)], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 31, 130])
def test_rows_and_heads(device: str, rows: int, heads: tuple[int, int]) -> None:
    q, k = operands(3, *heads, rows, device=device)
    rotate(q, k, *tables(rows, 32, device=device))


@PAIRINGS
@pytest.mark.parametrize("dtype", [BF16, FP16], ids=str)
def test_tables_of_the_inputs_dtype(device: str, dtype: torch.dtype, interleaved: bool) -> None:
    q, k = operands(dimension=128, dtype=dtype, device=device)
    rotate(q, k, *tables(33, 64, dtype, device), interleaved=interleaved)
    rotate(q, k, *tables(33, 10, dtype, device), interleaved=interleaved)


@pytest.mark.parametrize("inplace", [False, True], ids=["new", "in place"])
@PAIRINGS
@pytest.mark.parametrize(
    ("dimension", "rotary_dim"), [(80, 20), (64, 16), (128, 32), (128, 128), (72, 32), (65, 64)]
)
def test_partial_rotation_reads_no_column_beyond(
    device: str, dimension: int, rotary_dim: int, interleaved: bool, inplace: bool
) -> None:
    """linkedin/Liger-Kernel #1451."""
    cos, sin = tables(33, rotary_dim // 2, device=device)
    wide = [torch.full((33, 70), math.nan, device=device) for _ in range(2)]
    for table, values in zip(wide, (cos, sin), strict=True):
        table[:, : rotary_dim // 2] = values
    cos, sin = (table[:, : rotary_dim // 2] for table in wide)
    q, k = operands(dimension=dimension, device=device)
    before = q.clone(), k.clone()
    options = {"interleaved": interleaved, "rotary_dim": rotary_dim}
    out = tk.rotary(q, k, cos, sin, inplace=inplace, **options)
    for rotated, x in zip(out, before, strict=True):
        assert rotated is not None
        assert not rotated.isnan().any()
        check(rotated, x, cos, sin, interleaved=interleaved)
    same = [a is b for a, b in zip(out, (q, k), strict=True)]
    assert same == [inplace, inplace]
    assert inplace or (same_bits(q, before[0]) and same_bits(k, before[1]))


def _kinds(device: str) -> dict[str, torch.Tensor]:
    def normal(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, device=device).bfloat16()

    return {
        "rows first": normal(2, 19, 3, 64).transpose(1, 2),
        "padded": normal(2, 3, 19, 72)[..., :64],
        "odd rows": normal(2, 3, 19, 65)[..., :64],
        "odd address": normal(2 * 3 * 19 * 64 + 1)[1:].view(2, 3, 19, 64),
        "columns apart": normal(2, 3, 64, 19).transpose(2, 3),
        "fused": normal(2, 19, 3, 3, 64).select(2, 1).transpose(1, 2),
        "one head": normal(2, 1, 19, 64).expand(2, 3, 19, 64),
        "one batch": normal(1, 3, 19, 64).expand(2, 3, 19, 64),
    }


@PAIRINGS
@pytest.mark.parametrize("kind", list(_kinds("cpu")))
def test_strides(device: str, kind: str, interleaved: bool) -> None:
    x, tables_ = _kinds(device)[kind], tables(19, 32, device=device)
    other = operands(heads=2, rows=19, device=device)[0]
    first, _ = rotate(x, other, *tables_, interleaved=interleaved)
    _, second = rotate(other, x, *tables_, interleaved=interleaved)
    assert same_bits(first, second)
    heads_inside = x.stride(1) < x.stride(2)
    assert (first.stride(1) < first.stride(2)) == heads_inside


@pytest.mark.parametrize("kind", [kind for kind in _kinds("cpu") if not kind.startswith("one")])
def test_strides_in_place(device: str, kind: str) -> None:
    x, (cos, sin) = _kinds(device)[kind], tables(19, 16, device=device)
    before, memory = x.clone(), x._base
    total = None if memory is None else memory.double().sum() - x.double().sum()
    version = x._version
    out, none = tk.rotary(x, None, cos, sin, inplace=True)
    assert out is x
    assert none is None
    assert x._version > version
    check(x, before, cos, sin)
    if memory is not None:  # what lies beside it is as it was
        assert float(memory.double().sum() - x.double().sum() - total) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("kind", ["transposed", "strided", "odd"])
def test_tables_of_any_strides(device: str, kind: str) -> None:
    cos, sin = tables(33, 32, device=device)
    if kind == "transposed":
        cos, sin = cos.t().contiguous().t(), sin.t().contiguous().t()
    elif kind == "strided":
        cos, sin = (t.repeat_interleave(2, dim=0)[::2] for t in (cos, sin))
    else:
        cos, sin = (torch.cat([t, t[:, :1]], dim=1)[:, :32] for t in (cos, sin))
    rotate(*operands(device=device), cos, sin)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("shape", [(33,), (1, 33), (2, 33)], ids=str)
def test_positions_of_a_tensor(device: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    positions = torch.randint(0, 50, shape, device=device).to(dtype)
    rotate(*operands(device=device), *tables(50, 32, device=device), positions=positions)
    strided = positions.repeat_interleave(2, dim=-1)[..., ::2]
    rotate(*operands(device=device), *tables(50, 32, device=device), positions=strided)


@pytest.mark.parametrize("offset", [0, 1, 17])
def test_positions_from_an_offset(device: str, offset: int) -> None:
    q, k = operands(device=device)
    cos, sin = tables(50, 32, device=device)
    out, k_out = rotate(q, k, cos, sin, positions=offset)
    rows = slice(offset, offset + 33)
    sliced, k_sliced = tk.rotary(q, k, cos[rows], sin[rows])
    assert same_bits(out, sliced)
    assert k_sliced is not None
    assert same_bits(k_out, k_sliced)


@PAIRINGS
@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize("lengths", [(70,), (0, 1, 30, 0, 39), (64, 6, 0)], ids=str)
def test_packed_sequences(
    device: str, lengths: tuple[int, ...], offset: int, interleaved: bool
) -> None:
    q, k = (torch.randn(70, heads, 64, device=device).bfloat16() for heads in (4, 2))
    cos, sin = tables(80, 32, device=device)
    ends = torch.tensor([0, *lengths], dtype=torch.int32, device=device).cumsum(0).int()
    options = {"interleaved": interleaved, "positions": offset, "cu_seqlens": ends}
    out, k_out = rotate(q, k, cos, sin, **options)
    places = torch.cat([torch.arange(length) for length in lengths]).to(device) + offset
    by_token, k_by_token = tk.rotary(q, k, cos, sin, interleaved=interleaved, positions=places)
    assert k_by_token is not None
    assert same_bits(out, by_token)
    assert same_bits(k_out, k_by_token)


@PAIRINGS
def test_positions_of_cos_1_and_sin_0_keep_their_bits(device: str, interleaved: bool) -> None:
    """Dao-AILab/flash-attention #569, and the sign of 0, and what is beside an infinity."""
    q, k = operands(device=device)
    q[..., 3], q[..., 4], q[..., 5] = -0.0, math.inf, 0.0
    cos, sin = torch.ones(33, 32, device=device), torch.zeros(33, 32, device=device)
    out, k_out = tk.rotary(q, k, cos, sin, interleaved=interleaved)
    assert k_out is not None
    assert same_bits(out, q)
    assert same_bits(k_out, k)


def test_special_numbers_stay_in_their_pairs(device: str) -> None:
    q, _ = operands(1, 1, 1, 4, device=device)
    q[0, 0, 1, 3], q[0, 0, 2, 40] = math.nan, math.inf
    cos, sin = (table[7:] for table in tables(11, 32, device=device))
    out, _ = tk.rotary(q, None, cos, sin)
    wrong = (~out.isfinite()).nonzero().tolist()
    assert wrong == [[0, 0, 1, 3], [0, 0, 1, 35], [0, 0, 2, 8], [0, 0, 2, 40]]


@PAIRINGS
@pytest.mark.parametrize("dtype", [BF16, FP32], ids=str)
def test_the_inverse_gives_back_the_input(
    device: str, dtype: torch.dtype, interleaved: bool
) -> None:
    q, k = operands(dtype=dtype, device=device)
    cos, sin = tables(33, 32, device=device)
    for x in (q, k):
        there, _ = tk.rotary(x, None, cos, sin, interleaved=interleaved)
        back, _ = tk.rotary(there, None, cos, -sin, interleaved=interleaved)
        unit = torch.finfo(dtype).eps
        # a rounding of each of the two, of numbers as large as the pair's
        assert (back - x).abs().max() <= 2 * unit * x.abs().max()


def test_the_same_bits_at_every_call_and_without_the_other(device: str) -> None:
    q, k = operands(2, 9, 4, 65, 128, device=device)
    cos, sin = tables(65, 64, device=device)
    first, second = tk.rotary(q, k, cos, sin), tk.rotary(q, k, cos, sin)
    alone, none = tk.rotary(q, None, cos, sin)
    assert none is None
    assert first[1] is not None
    assert second[1] is not None
    assert same_bits(first[0], second[0])
    assert same_bits(first[1], second[1])
    assert same_bits(first[0], alone)


@pytest.mark.parametrize("shape", [(0, 2, 5, 64), (2, 0, 5, 64), (2, 2, 0, 64)], ids=str)
def test_nothing_to_rotate(device: str, shape: tuple[int, ...]) -> None:
    cos, sin = tables(5, 32, device=device)
    x = torch.empty(shape, device=device)
    out, _ = tk.rotary(x, x.clone(), cos, sin)
    assert out.shape == shape
    assert tk.rotary(x, None, cos, sin, inplace=True)[0] is x


@pytest.mark.gpu
def test_a_position_without_a_row_is_nan_on_a_gpu() -> None:
    q, _ = operands(1, 2, 1, 4, device="cuda")
    cos, sin = tables(8, 32, device="cuda")
    positions = torch.tensor([0, 8, -1, 7], device="cuda")
    out, _ = tk.rotary(q, None, cos, sin, positions=positions)
    assert out.isnan().all(dim=-1).tolist() == [[[False, True, True, False]] * 2]
    assert not out[:, :, [0, 3]].isnan().any()


@pytest.mark.gpu
@PAIRINGS
@pytest.mark.parametrize("rows_first", [False, True])
@pytest.mark.parametrize("dimension", [64, 128])
def test_long_ones_on_a_gpu(dimension: int, rows_first: bool, interleaved: bool) -> None:
    q, k = operands(2, 32, 8, 4096, dimension, device="cuda", rows_first=rows_first)
    cos, sin = tables(4096, dimension // 2, device="cuda")
    out, k_out = rotate(q, k, cos, sin, interleaved=interleaved)
    tk.rotary(q, k, cos, sin, interleaved=interleaved, inplace=True)
    assert same_bits(q, out)
    assert same_bits(k, k_out)
