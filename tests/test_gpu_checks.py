"""The checks of tests/cpp on a GPU: matrix products, TMA and synchronisation, the block templates.
Each program prints "ok" last, or what is wrong. The folder TK_TEST_BINARIES, if the environment
names one, has them compiled already."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from packaging_tools import ROOT, toolchain

pytestmark = [pytest.mark.slow, pytest.mark.gpu]

# program: source, and flags; the products are compiled in two halves at once
_PROGRAMS = {
    "gpu_mma_check_1": ("gpu_mma_check", "-DTK_MMA_HALF=1"),
    "gpu_mma_check_2": ("gpu_mma_check", "-DTK_MMA_HALF=2"),
    "gpu_tma_check": ("gpu_tma_check",),
    "gpu_templates_check": ("gpu_templates_check",),
}


def _program(folder: Path, name: str) -> Path:
    prebuilt = os.environ.get("TK_TEST_BINARIES")
    if prebuilt is not None:
        return Path(prebuilt) / name
    toolkit = toolchain.find_toolkit(cuda=True)
    if toolkit is None or toolkit.nvcc is None:
        pytest.skip("needs nvcc")
    source, *flags = _PROGRAMS[name]
    command = [
        *(str(toolkit.nvcc), "-std=c++20", "-O3", "--expt-relaxed-constexpr", *flags),
        *("-gencode", "arch=compute_90a,code=sm_90a"),
        *(f"-I{ROOT / 'cpp'}", f"-I{ROOT / 'cpp' / 'include'}"),
        *("-isystem", str(toolchain.cutlass_include())),
        *(str(ROOT / "tests" / "cpp" / f"{source}.cu"), "-o", str(folder / name)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / name


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Path]]:
    folder = tmp_path_factory.mktemp("gpu_checks")
    pool = ThreadPoolExecutor(len(_PROGRAMS))
    return {name: pool.submit(_program, folder, name) for name in _PROGRAMS}


@pytest.mark.parametrize("name", _PROGRAMS)
def test_every_check_is_passed(name: str, programs: dict[str, Future[Path]]) -> None:
    program = str(programs[name].result())
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines()[-1] == "ok", done.stdout
