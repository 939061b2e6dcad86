"""tk.load's callables: values, what is refused before a launch, exceptions, streams and graphs."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import pytest
import torch
from extend_tools import KERNELS, session_cache, start_build  # noqa: F401  (a fixture)

import tk
from tk.extension import Extension

pytestmark = pytest.mark.prepare(start_build, KERNELS)


@pytest.fixture(scope="module")
def kernels(session_cache: object) -> Extension:  # noqa: F811
    return tk.load(KERNELS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (64, 64), (70, 131), (0, 3)])
def test_values_on_the_device_of_the_tensors(
    kernels: Extension, device: str, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    x = torch.randn(shape, dtype=dtype, device=device)
    for given in (x, torch.randn(shape[::-1], dtype=dtype, device=device).t()):
        out = torch.full(shape, float("nan"), dtype=dtype, device=device)
        kernels.scale(out, given, 4.0)
        assert torch.equal(out, 4 * given)


def test_defaults_and_names(kernels: Extension) -> None:
    x, out = torch.ones(2, 2), torch.zeros(2, 2)
    kernels.scale(x=x, out=out)
    assert torch.equal(out, 2.5 * x)
    kernels.scale(out, x, factor=2)
    assert torch.equal(out, 2.0 * x)


def test_everything_arrives_as_it_was_given(kernels: Extension) -> None:
    x = torch.zeros(2, 3, 4, dtype=torch.int32).permute(2, 0, 1)
    out = torch.zeros(12, dtype=torch.float64)
    kernels.report(out, x)
    assert out.tolist() == [4, 2, 3, 1, 12, 4, 3, 2**32, 0.5, -1e300, 1, 0]
    spread = torch.zeros(24, dtype=torch.float64)[::2]
    kernels.report(spread, x, -(2**31), -(2**63), float("inf"), 7, False)
    assert spread.tolist()[6:] == [-(2**31), -(2**63), float("inf"), 7, 0, 0]


def matrix(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(*sizes, dtype=dtype)


REFUSED = [
    (ValueError, "x is a .*float64 on cpu; must be one of",
     lambda: (matrix(2, 2), matrix(2, 2).double())),
    (ValueError, r"x is a \(2,\) tensor.*; must be one of", lambda: (matrix(2, 2), matrix(2))),
    (ValueError, r"must be one of scale\(out: torch.float32\[2\], written",
     lambda: (matrix(2, 2), matrix(2, 2, dtype=torch.bfloat16))),
    (ValueError, r"out \(2, 2\) must have the shape of x \(2, 3\)",
     lambda: (matrix(2, 2), matrix(2, 3))),
    (ValueError, "x is a .* on meta; must be on cpu",
     lambda: (matrix(2, 2), matrix(2, 2).to("meta"))),
    (ValueError, "tensors are on meta; must be on the CPU or a CUDA device",
     lambda: (matrix(2, 2).to("meta"), matrix(2, 2))),
    (ValueError, "out is .* with a stride of 0", lambda: (matrix(1, 2).expand(2, 2), matrix(2, 2))),
    (TypeError, "factor is str; must be a Python float",
     lambda: (matrix(2, 2), matrix(2, 2), "2")),
    (TypeError, "factor is Tensor", lambda: (matrix(2, 2), matrix(2, 2), torch.tensor(1.0))),
    (TypeError, "factor is bool", lambda: (matrix(2, 2), matrix(2, 2), True)),
    (TypeError, "lacks x", lambda: (matrix(2, 2),)),
    (TypeError, "takes 3 arguments but 4", lambda: (matrix(2, 2), matrix(2, 2), 1.0, 2.0)),
]  # fmt: skip


@pytest.mark.parametrize(("error", "words", "arguments"), REFUSED)
def test_a_wrong_argument_is_named(
    kernels: Extension, error: type[Exception], words: str, arguments: object
) -> None:
    assert callable(arguments)
    with pytest.raises(error, match=f"scale.*{words}"):
        kernels.scale(*arguments())


def test_a_wrong_scalar_is_named(kernels: Extension) -> None:
    out, x = torch.zeros(12, dtype=torch.float64), torch.zeros(1, 1, 1, dtype=torch.int32)
    with pytest.raises(TypeError, match="report: small is float; must be a Python int"):
        kernels.report(out, x, 1.0)
    with pytest.raises(TypeError, match="report: flag is int; must be a bool"):
        kernels.report(out, x, flag=1)
    with pytest.raises(ValueError, match=r"report: .*integer.* does not fit"):
        kernels.report(out, x, 2**31)
    with pytest.raises(ValueError, match=f"report: an integer argument is {2**64}"):
        kernels.report(out, x, large=2**64)
    with pytest.raises(
        ValueError, match=r"x is a \(1, 1, 1\) tensor of torch.int64 on cpu; must be"
    ):
        kernels.report(out, x.long())
    with pytest.raises(TypeError, match=r"x is int; must be a 3-dimensional tensor of torch.int32"):
        kernels.report(out, 3)
    with pytest.raises(TypeError, match="has no argument fraction"):
        kernels.report(out, x, fraction=1)
    with pytest.raises(TypeError, match="out is given twice"):
        kernels.report(out, x, out=out)


def test_what_tma_does_not_take_is_named(kernels: Extension) -> None:
    kernels.describe(matrix(3, 8, dtype=torch.bfloat16))
    odd = matrix(3, 9, dtype=torch.bfloat16)
    for wrong in (odd, odd.t(), matrix(3, 16, dtype=torch.bfloat16)[:, 1:9]):
        with pytest.raises(ValueError, match=r"describe: x \(\d, \d\) cannot be copied by TMA"):
            kernels.describe(wrong)


def test_exceptions_of_the_kernel_come_with_their_text(kernels: Extension) -> None:
    with pytest.raises(RuntimeError, match=r"^fail: it went wrong$"):
        kernels.fail(0)
    with pytest.raises(ValueError, match=r"^fail: how is 1; must be another$"):
        kernels.fail(1)
    with pytest.raises(RuntimeError, match=r"^fail: an exception that is no std::exception$"):
        kernels.fail(2)
    kernels.fail(3)


def test_an_unknown_kernel_is_an_attribute_error(kernels: Extension) -> None:
    with pytest.raises(AttributeError, match=r'no kernel scael; .*"scale".*"nothing"'):
        _ = kernels.scael
    assert {"scale", "report", "nothing"} <= set(dir(kernels))
    assert not hasattr(kernels, "__wrapped__")


def test_kernels_are_found_by_name(kernels: Extension) -> None:
    assert kernels.kernels["scale"] is kernels.scale
    assert {"scale", "report", "nothing"} <= set(kernels.kernels)
    assert len(kernels.kernels) == len(list(kernels.kernels))
    assert "scael" not in kernels.kernels
    with pytest.raises(KeyError, match=r"no kernel scael; .*scale.*nothing"):
        _ = kernels.kernels["scael"]


_HIDDEN = """
#include "tk/extend.hpp"
void set(const tk::launch_target&, tk::tensor<float, 1> out, float value) { out.data[0] = value; }
TK_EXPORT_AS(name, set, out, value = 1.0f);
TK_EXPORT_AS(architectures, set, out, value = 2.0f);
TK_EXPORT_AS(build_log, set, out, value = 3.0f);
TK_EXPORT_AS(kernels, set, out, value = 4.0f);
TK_EXPORT_AS(_library, set, out, value = 5.0f);
TK_EXPORT_AS(plain, set, out, value = 6.0f);
"""


@pytest.mark.parametrize("arch", [None, "host"])
def test_a_kernel_with_the_name_of_an_attribute_is_warned_of_and_found_by_name(
    session_cache: object,  # noqa: F811
    tmp_path: Path,
    arch: str | None,
) -> None:
    source = tmp_path / "hidden.hpp"
    source.write_text(_HIDDEN)
    hidden = ["_library", "architectures", "build_log", "kernels", "name"]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        extension = tk.load(source, arch=arch)
        assert [str(each.message).split()[4] for each in told] == hidden
        assert all('kernels["' in str(each.message) for each in told)
        out = torch.zeros(1)
        for value, name in enumerate(["name", "architectures", "build_log", "kernels"], 1):
            extension.kernels[name](out)
            assert out.item() == value
        extension.kernels["_library"](out)
        assert out.item() == 5
        extension.plain(out)
        assert out.item() == 6
    assert len(told) == len(hidden)  # each once
    assert extension.name == "hidden"
    assert "host" in extension.architectures
    assert extension.build_log("host").is_file()


def test_a_written_tensor_counts_as_changed(kernels: Extension) -> None:
    """Autograd must notice that what it saved was overwritten."""
    weight = torch.ones(2, 2, requires_grad=True)
    saved = torch.ones(2, 2)
    loss = (weight * saved).sum()
    kernels.scale(saved, torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_fake_tensor_is_refused(kernels: Extension) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), pytest.raises(ValueError, match="scale: out is a fake tensor"):
        kernels.scale(matrix(2, 2), matrix(2, 2))


def doubled(kernels: Extension, x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    out = torch.empty_like(y)
    kernels.scale(out, y, 2.0)
    return out + 1


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="torch.compile may not know it yet")
def test_torch_compile_breaks_its_graph_at_a_call(kernels: Extension) -> None:
    x = torch.randn(4, 4)
    compiled = torch.compile(doubled, backend="eager")
    assert torch.equal(compiled(kernels, x), 2 * (x + 1) + 1)
    assert torch.equal(compiled(kernels, x + 1), 2 * (x + 2) + 1)


def test_an_architecture_takes_its_tensors_alone(session_cache: object) -> None:  # noqa: F811
    host = tk.load(KERNELS, arch="host")
    assert repr(host) == "<extension extend_kernels for host>"
    assert "g++" in host.build_log("host").read_text().splitlines()[0]
    with pytest.raises(ValueError, match=r"tensors are on meta; must be on the CPU$"):
        host.scale(matrix(2, 2).to("meta"), matrix(2, 2))


@pytest.mark.parametrize(
    ("error", "words", "arguments"),
    [
        (ValueError, "sources is empty", {"sources": []}),
        (ValueError, r"sources has none\.cu, which is no file", {"sources": "none.cu"}),
        (TypeError, "sources has a int", {"sources": [3]}),
        (ValueError, 'arch is \'cuda\'; must be "host", "sm90" or None', {"arch": "cuda"}),
        (ValueError, "name is 'a/b'", {"name": "a/b"}),
        (TypeError, "flags is str", {"flags": "-O3"}),
    ],
)
def test_wrong_arguments_of_load_are_named(
    error: type[Exception], words: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(error, match=f"tk.load: {words}"):
        tk.load(**{"sources": KERNELS, **arguments})  # type: ignore[arg-type]


@pytest.mark.gpu
def test_cuda_graphs_capture_a_call(kernels: Extension) -> None:
    x = torch.randn(100, 100, device="cuda")
    out = torch.empty_like(x)
    kernels.scale(out, x)  # compiled and loaded before
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.scale(out, x)
    for _ in range(3):
        x.normal_()
        out.fill_(float("nan"))
        graph.replay()
        assert torch.equal(out, 2.5 * x)


@pytest.mark.gpu
def test_a_call_runs_on_the_current_stream_and_waits_for_nothing(kernels: Extension) -> None:
    x = torch.randn(64, 64, device="cuda")
    out = torch.zeros_like(x)
    kernels.scale(out, x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.fill_(1.0)
        kernels.scale(out, x)
        assert not stream.query()  # the call came back before its kernel ran
    stream.synchronize()
    assert torch.equal(out, torch.full_like(out, 2.5))


@pytest.mark.gpu
def test_tensors_on_two_devices_are_refused(kernels: Extension) -> None:
    with pytest.raises(ValueError, match=re.escape("x is a (2, 2)") + ".*on cpu; must be on cuda"):
        kernels.scale(matrix(2, 2).cuda(), matrix(2, 2))


@pytest.mark.gpu
def test_the_log_tells_registers(kernels: Extension) -> None:
    kernels.scale(matrix(2, 2).cuda(), matrix(2, 2).cuda())
    assert re.search(r"Used \d+ registers", kernels.build_log("sm90").read_text())
