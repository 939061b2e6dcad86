"""Arguments of a kernel's call that cannot be right: each is a Python error that names
the argument, and none reaches memory that is not there."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from extend_tools import session_cache  # noqa: F401  (a fixture)

import tk
from tk.extension import CompileError, Extension

SOURCE = """\
#include "tk/extend.hpp"

namespace {
void keep(const tk::launch_target&, tk::tensor<float, 2> out, tk::tensor<const float, 2> x,
          float narrow, double wide, uint64_t large, uint8_t small) {
    if (x.elements() == 0) return;
    for (int i = 0; i < out.size(0); ++i) {
        for (int j = 0; j < out.size(1); ++j) {
            out.data[i * out.stride(0) + j * out.stride(1)] =
                x.data[i * x.stride(0) + j * x.stride(1)] * narrow;
        }
    }
    (void)wide, (void)large, (void)small;
}
void described(const tk::launch_target&, tk::tensor<const tk::bf16, 2> x) {
    using tile = tk::st_bf<64, 64>;
    tk::make_gl<tk::gl<tk::bf16, 1, 1, -1, -1, tile>>(x);
}
void described_fixed(const tk::launch_target&, tk::tensor<const tk::bf16, 2> x) {
    tk::make_gl<tk::gl<tk::bf16, 1, 1, 64, -1, tk::st_bf<64, 64>>>(x);
}
}  // namespace

TK_EXPORT(keep, out, x, narrow = 1.0, wide = 1.0, large = 0, small = 0);
TK_EXPORT(described, x);
TK_EXPORT(described_fixed, x);
"""


@pytest.fixture(scope="module")
def kernels(session_cache: object, tmp_path_factory: pytest.TempPathFactory) -> Extension:  # noqa: F811
    source = tmp_path_factory.mktemp("arguments") / "arguments.hpp"
    source.write_text(SOURCE)
    return tk.load(source, arch="host")


def freed(*sizes: int) -> torch.Tensor:
    """A tensor whose storage was given back, as sharded training does."""
    tensor = torch.ones(*sizes)
    tensor.untyped_storage().resize_(0)
    return tensor


def test_tensors_without_memory_are_refused(kernels: Extension) -> None:
    full = torch.ones(2, 2)
    for empty in (freed(2, 2), torch._efficientzerotensor((2, 2))):
        with pytest.raises(ValueError, match="keep: x is a tensor without memory"):
            kernels.keep(full, empty)
        with pytest.raises(ValueError, match="keep: out is a tensor without memory"):
            kernels.keep(empty, full)
    kernels.keep(torch.empty(0, 2), torch.empty(0, 2))  # nothing is there, and nothing is needed


def test_tensors_of_transforms_are_refused(kernels: Extension) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        kernels.keep(torch.empty(2, 2), x)
        return x.sum()

    words = r"keep: (x|out) is a tensor without memory of its own"
    with pytest.raises(ValueError, match=words):
        torch.func.grad(function)(torch.ones(2, 2))
    with pytest.raises(ValueError, match=words):
        torch.func.vmap(function)(torch.ones(3, 2, 2))


@pytest.mark.parametrize(("sizes", "strides"), [((10, 10), (1, 1)), ((3, 4), (2, 1))])
def test_an_output_whose_elements_overlap_is_refused(
    kernels: Extension, sizes: tuple[int, int], strides: tuple[int, int]
) -> None:
    out = torch.as_strided(torch.zeros(100), sizes, strides)
    with pytest.raises(ValueError, match=r"keep: out is .* with the strides .*elements are apart"):
        kernels.keep(out, torch.ones(sizes))


@pytest.mark.parametrize(
    ("sizes", "strides"), [((2, 3), (1, 2)), ((3, 4), (8, 2)), ((3, 2), (2, 3))]
)
def test_an_output_of_any_other_strides_is_written(
    kernels: Extension, sizes: tuple[int, int], strides: tuple[int, int]
) -> None:
    x = torch.randn(sizes)
    out = torch.as_strided(torch.zeros(100), sizes, strides)
    kernels.keep(out, x, 2.0)
    assert torch.equal(out, 2 * x)


def test_numbers_beyond_their_type_are_named(kernels: Extension) -> None:
    x, out = torch.ones(2, 2), torch.zeros(2, 2)
    kernels.keep(out, x, float("inf"), 1e300, 2**63 - 1, 255)
    assert out.isinf().all()
    with pytest.raises(ValueError, match=r"keep: narrow is .*beyond its C.. type"):
        kernels.keep(out, x, 1e39)
    with pytest.raises(ValueError, match="keep: wide is an integer beyond every float"):
        kernels.keep(out, x, 1.0, 10**400)
    for name, value in (("large", -1), ("small", -1), ("small", 256)):
        with pytest.raises(ValueError, match=f"keep: {name} is {value}, an integer that does not"):
            kernels.keep(out, x, **{name: value})


def test_every_refusal_of_tma_names_the_tensor(kernels: Extension) -> None:
    half = torch.zeros(1, 64, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"described: x \(64, 64\): .*stride of rows is 0 bytes"):
        kernels.described(half.expand(64, 64))
    with pytest.raises(ValueError, match=r"described_fixed: x \(1, 64\): gl: rows is 1"):
        kernels.described_fixed(half)
    kernels.described(half), kernels.described_fixed(half.repeat(64, 1))


def test_kernels_may_be_copied_with_what_holds_them(kernels: Extension) -> None:
    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernels, self.keep = kernels, kernels.keep

    held = copy.deepcopy(Holder())
    assert held.kernels is kernels and held.keep is kernels.keep
    assert copy.copy(kernels) is kernels


def test_a_name_that_python_cannot_call_is_refused(
    session_cache: object,  # noqa: F811
    tmp_path: Path,
) -> None:
    source = tmp_path / "inner.hpp"
    source.write_text(
        '#include "tk/extend.hpp"\nnamespace inner {\nvoid f(const tk::launch_target&) {}\n}\n'
        "TK_EXPORT(inner::f);\n"
    )
    with pytest.raises(CompileError, match=r"TK_EXPORT\(inner::f\): .*TK_EXPORT_AS"):
        tk.load(source, arch="host")
