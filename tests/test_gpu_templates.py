"""The block templates on a GPU: the kernels and cases that test_host_templates.py runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from packaging_tools import ROOT, toolchain

pytestmark = [pytest.mark.slow, pytest.mark.gpu]


def test_every_kernel_of_the_templates_is_exact(tmp_path: Path) -> None:
    toolkit = toolchain.find_toolkit(cuda=True)
    if toolkit is None or toolkit.nvcc is None:
        pytest.skip("needs nvcc")
    program = tmp_path / "gpu_templates_check"
    includes = [f"-I{ROOT / 'cpp'}", f"-I{ROOT / 'cpp' / 'include'}"]
    subprocess.run(
        [
            *(str(toolkit.nvcc), "-std=c++20", "-O3", "--expt-relaxed-constexpr"),
            *("-gencode", "arch=compute_90a,code=sm_90a", *includes),
            *("-isystem", str(toolchain.cutlass_include())),
            *(str(ROOT / "tests" / "cpp" / "gpu_templates_check.cu"), "-o", str(program)),
        ],
        check=True,
    )
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines()[-1] == "ok", done.stdout
