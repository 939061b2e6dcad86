"""What users of other attention libraries reported, as cases of our own: rows without keys, packed
sequences of few tokens, views, offsets beyond 32 bits. (Their gradients wait for the backward
kernel.)"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attention_inputs import assert_no_worse_than_torch, no_keys, pair, random

import tk


def test_queries_that_see_no_key_give_zeros_and_minus_infinity(device: str) -> None:
    """More queries than keys: under a causal mask the first ones have none (aligned at the end)."""
    q = random(1, 2, 130, 64, device=device)
    k, v = (random(1, 2, 66, 64, device=device) for _ in range(2))
    out, lse = pair(tk.attention(q, k, v, causal=True, return_lse=True))
    assert (out[:, :, :64] == 0).all()
    assert no_keys(lse[:, :, :64]).all()
    assert not no_keys(lse[:, :, 64:]).any()
    assert_no_worse_than_torch(out, lse, q, k, v, causal=True)


def test_a_window_can_leave_rows_without_keys(device: str) -> None:
    q = random(1, 2, 129, 64, device=device)
    k, v = (random(1, 2, 5, 64, device=device) for _ in range(2))
    out, lse = pair(tk.attention(q, k, v, window=(32, 64), return_lse=True))
    assert torch.equal(no_keys(lse)[0, 1].nonzero().flatten().cpu(), torch.arange(60))
    assert (out[:, :, :60] == 0).all()
    assert_no_worse_than_torch(out, lse, q, k, v, window=(32, 64))


def test_packed_sequences_of_one_query_and_of_none(device: str) -> None:
    q = torch.randn(2, 9, 64, device=device).bfloat16()
    k, v = (torch.randn(8, 3, 64, device=device).bfloat16() for _ in range(2))
    ends = [
        torch.tensor(numbers, dtype=torch.int32, device=device)
        for numbers in ([0, 1, 1, 2], [0, 3, 3, 8])
    ]
    out = tk.attention(q, k, v, cu_seqlens_q=ends[0], cu_seqlens_k=ends[1], causal=True, scale=1.0)
    assert isinstance(out, torch.Tensor)
    assert out.shape == (2, 9, 64)
    for token, keys in ((0, slice(0, 3)), (1, slice(3, 8))):
        each = (t.transpose(0, 1)[None] for t in (q[token : token + 1], k[keys], v[keys]))
        alone = tk.attention(*each, causal=True, scale=1.0)
        assert isinstance(alone, torch.Tensor)
        torch.testing.assert_close(out[token], alone[0, :, 0], rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("key_heads", [4, 1])
@pytest.mark.parametrize("dimension", [64, 128, 256])
def test_slices_of_a_fused_projection_are_read_in_place(
    device: str, dimension: int, key_heads: int
) -> None:
    fused = torch.randn(1, 128, 3, 4, dimension, device=device).bfloat16()
    q, k, v = (t.transpose(1, 2) for t in fused.unbind(2))
    k, v = k[:, :key_heads], v[:, :key_heads]
    out, lse = pair(tk.attention(q, k, v, return_lse=True))
    dense = (t.contiguous() for t in (q, k, v))
    expected, expected_lse = pair(tk.attention(*dense, return_lse=True))
    assert torch.equal(out, expected)
    assert torch.equal(lse, expected_lse)
    assert_no_worse_than_torch(out, lse, q, k, v)


def test_a_dimension_without_a_kernel_is_named_at_once(device: str) -> None:
    q = random(1, 1, 5, 264, device=device)
    with pytest.raises(ValueError, match=r"tk\.attention: q is .*head dimension 264.*up to 256"):
        tk.attention(q, q, q)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_offsets_beyond_32_bits(device: str) -> None:
    """Two batches 2^31 elements apart; of the memory between them nothing is touched."""
    base = torch.empty(2**31 + 4096, dtype=torch.bfloat16, device=device)

    def apart() -> torch.Tensor:
        view = base.as_strided((2, 1, 64, 64), (2**31, 4096, 64, 1))
        for part in view:
            part.copy_(torch.randn(1, 64, 64, device=device))
        return view

    q = apart()
    out = tk.attention(q, q, q)
    dense = q.contiguous()
    assert torch.equal(out[1:], tk.attention(*[dense[1:]] * 3))  # type: ignore[arg-type]
    written = torch.empty(2**31 + 4096, dtype=torch.bfloat16, device=device)
    far = written.as_strided((2, 1, 64, 64), (2**31, 4096, 64, 1))
    assert torch.equal(tk.attention(dense, dense, dense, out=far), out)


@pytest.mark.gpu
def test_the_row_after_65536_is_right() -> None:
    q, k, v = (random(1, 1, 65537, 64, device="cuda") for _ in range(3))
    out = tk.attention(q, k, v, causal=True)
    last: Any = tk.reference.attention(q[:, :, -1:], k, v)
    assert isinstance(out, torch.Tensor)
    torch.testing.assert_close(out[:, :, -1:].double(), last, rtol=2**-6, atol=2**-12)


def test_a_loss_on_the_log_sum_exp_is_refused_not_ignored(device: str) -> None:
    q, k = random(1, 1, 5, 64, device=device), random(1, 1, 7, 64, device=device)
    with pytest.raises(NotImplementedError, match=r"tk\.attention: q requires grad"):
        tk.attention(q.requires_grad_(), k, k, return_lse=True)


@pytest.mark.gpu
def test_operands_on_two_devices_are_named() -> None:
    q, k = random(1, 1, 5, 64, device="cuda"), random(1, 1, 5, 64)
    with pytest.raises(ValueError, match=r"k is on cpu while q is on cuda:\d"):
        tk.attention(q, k, k)
