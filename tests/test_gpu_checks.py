"""The checks of tests/cpp on a GPU: matrix products, TMA and synchronisation, the block templates.
Each program prints "ok" last, or what is wrong."""

from __future__ import annotations

import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from gpu_programs import gpu_program

pytestmark = [pytest.mark.slow, pytest.mark.gpu]

# program: source, and flags; the products are compiled in two halves at once
_PROGRAMS = {
    "gpu_mma_check_1": ("gpu_mma_check.cu", "-DTK_MMA_HALF=1"),
    "gpu_mma_check_2": ("gpu_mma_check.cu", "-DTK_MMA_HALF=2"),
    "gpu_tma_check": ("gpu_tma_check.cu",),
    "gpu_templates_check": ("gpu_templates_check.cu",),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Path]]:
    folder = tmp_path_factory.mktemp("gpu_checks")
    pool = ThreadPoolExecutor(len(_PROGRAMS))
    return {name: pool.submit(gpu_program, folder, name, *how) for name, how in _PROGRAMS.items()}


@pytest.mark.parametrize("name", _PROGRAMS)
def test_every_check_is_passed(name: str, programs: dict[str, Future[Path]]) -> None:
    program = str(programs[name].result())
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines()[-1] == "ok", done.stdout
