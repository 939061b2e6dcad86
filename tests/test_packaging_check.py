"""tools/check_library.py: what it reads from ptxas and from a disassembly, and what it refuses."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
from packaging_tools import ROOT

LOG = """\
== matmul_bf16_k_k_tma_128_256_64_2
ptxas info    : 11 bytes gmem
ptxas info    : Compiling entry function '_Zfirst' for 'sm_90a'
ptxas info    : Function properties for _Zfirst
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers, 16 bytes cumulative stack size
== matmul_bf16_k_k_gather_128_128_64_2
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Compiling entry function '_Zsecond' for 'sm_90a'
ptxas info    : Function properties for _Zsecond
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 90 registers, used 1 barriers
== matmul_dispatch
"""

DISASSEMBLY = """\
\t\tFunction : _Zfirst
        /*0e40*/              @P0 UTMALDG.3D [UR16], [UR12] ;            /* 0x00000010 */
        /*1530*/                  HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24 ; /* 0x0 */
        /*1540*/                  HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24 ; /* 0x0 */
\t\tFunction : _Zsecond
        /*00a0*/                  HFMA2.MMA R7, -RZ, RZ, 3.5, 0 ;        /* 0x43000000 */
"""


@pytest.fixture(scope="module")
def check() -> ModuleType:
    path = ROOT / "tools" / "check_library.py"
    spec = importlib.util.spec_from_file_location("check_library", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_library"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def test_what_ptxas_said_is_read(check: ModuleType) -> None:
    first, second = check.read_log(LOG)
    assert (first.instance, first.function) == ("matmul_bf16_k_k_tma_128_256_64_2", "_Zfirst")
    assert (first.registers, first.stack, first.spill_stores, first.spill_loads) == (168, 16, 8, 12)
    assert (second.registers, second.stack, first.notes) == (90, 0, [])
    assert "serialized" in second.notes[0]


def test_spills_serialisation_and_missing_instructions_are_refused(check: ModuleType) -> None:
    first, second = check.read_log(LOG)
    assert first.faults({}) == ["spills 20 bytes, 0 are allowed", "has no HGMMA", "has no UTMALDG"]
    counts = check.count_instructions(DISASSEMBLY.splitlines())
    first.instructions, second.instructions = counts["_Zfirst"], counts["_Zsecond"]
    assert dict(first.instructions) == {"UTMALDG": 1, "HGMMA": 2}
    assert first.faults({first.instance: 20}) == []
    assert first.faults({first.instance: 19}) == ["spills 20 bytes, 19 are allowed"]
    assert [fault.split()[0] for fault in second.faults({})] == ["ptxas:", "has"]


def test_an_allowed_spill_needs_its_reason(check: ModuleType) -> None:
    assert check.read_allowed("# comment\n\nmatmul_x 16  # why\n") == {"matmul_x": 16}
    for line in ("matmul_x 16", "matmul_x # why", "matmul_x many # why"):
        with pytest.raises(ValueError, match="INSTANCE BYTES"):
            check.read_allowed(line)
    check.read_allowed(check.ALLOWED_SPILLS.read_text())
