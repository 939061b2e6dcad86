"""Every operation on tiles and vectors against plain loops, on the host and on a GPU: shapes,
dtypes, layouts, scopes and special values are those of tests/cpp/tile_ops, one source for both."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import host_programs
import pytest
from gpu_programs import gpu_program

_ROOT = Path(__file__).resolve().parents[1]
_INCLUDE = _ROOT / "cpp" / "include" / "tk"
_SOURCES = _ROOT / "tests" / "cpp" / "tile_ops"
_PROGRAMS = [
    *(
        "register_maps",
        "register_moves",
        "register_reductions",
        "shared_tiles",
        "global_tensors",
        "scattered_rows",
        "unit_vectors",
        "complex_tiles",
    ),
]

_prepare = pytest.mark.prepare(
    host_programs.start_builds, [(f"tile_ops/{name}", "address_only") for name in _PROGRAMS]
)

# Operations whose proof is elsewhere: structure of the headers, and the sources that are run there.
_TESTED_ELSEWHERE = {
    "sync_ops": ("tests/cpp/*.?pp", "cpp/include/tk/block/*.hpp"),
    "memory_ops": ("tests/cpp/*.?pp", "cpp/include/tk/block/*.hpp"),
    "mma_ops": ("tests/cpp/mma_cases.hpp", "tests/cpp/host_mma_check.cpp"),
}
_STRUCTURE = re.compile(r"struct (\w+_ops)\b[^;{]*\{(.*?)(?:\n  private:|\n\};)", re.DOTALL)
_OPERATION = re.compile(r"^    static (?:TK_DEVICE )?(?:constexpr )?[\w:<>&*]+ (\w+)\(", re.M)


def operations(architecture: str) -> set[tuple[str, str]]:
    """(structure, operation) of all that are public at a scope: warp::, warpgroup::, group<N>::."""
    other = {"host": "sm90", "sm90": "host"}[architecture]
    found = set()
    for header in _INCLUDE.rglob("*.hpp"):
        if _INCLUDE / "arch" / other in header.parents:
            continue
        for structure, body in _STRUCTURE.findall(header.read_text()):
            found |= {(structure, name) for name in _OPERATION.findall(body)}
    return found


@_prepare
@pytest.mark.slow
@pytest.mark.parametrize("name", _PROGRAMS)
def test_every_operation_is_right_on_the_host(name: str) -> None:
    done = host_programs.run(f"tile_ops/{name}", "address_only", timeout=300)
    assert (done.stdout, done.stderr, done.returncode) == ("ok\n", "", 0)


@pytest.mark.prepare(host_programs.start_builds, [("tile_layouts", "plain")])
def test_layouts_are_bijections_and_the_fragments_of_the_atoms() -> None:
    done = host_programs.run("tile_layouts", "plain")
    assert (done.stdout, done.stderr, done.returncode) == ("ok\n", "", 0)


@pytest.mark.prepare(host_programs.start_builds, [("host_strided_tiles", "address")])
def test_every_lane_copies_its_part_of_a_tile_from_and_to_any_strides() -> None:
    done = host_programs.run("host_strided_tiles", "address")
    assert (done.stdout, done.stderr, done.returncode) == ("ok\n", "", 0)


@_prepare
@pytest.mark.slow
def test_every_operation_has_a_test() -> None:
    tested = set()
    for name in _PROGRAMS:
        done = host_programs.run(f"tile_ops/{name}", "address_only", "list")
        tested |= {line.split()[0] for line in done.stdout.splitlines()}
    for architecture in ("host", "sm90"):
        found = operations(architecture)
        assert len(found) > 80  # the headers are read as meant
        untested = {
            f"{structure}::{name}"
            for structure, name in found
            if structure not in _TESTED_ELSEWHERE and name not in tested
        }
        assert not untested, f"operations on {architecture} without a case in tests/cpp/tile_ops"


def test_operations_that_are_tested_elsewhere_are_called_there() -> None:
    for structure, patterns in _TESTED_ELSEWHERE.items():
        sources = [path for pattern in patterns for path in _ROOT.glob(pattern)]
        text = "".join(path.read_text() for path in sources)
        for architecture in ("host", "sm90"):
            names = {name for of, name in operations(architecture) if of == structure}
            missing = {name for name in names if not re.search(rf"\b{name}\b\s*[(<]", text)}
            assert not missing, f"{structure} on {architecture}, in none of {patterns}"


def test_both_architectures_have_the_same_operations() -> None:
    assert operations("host") == operations("sm90")


@pytest.fixture(scope="module")
def cuda_programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tile_ops")
    with ThreadPoolExecutor(len(_PROGRAMS)) as pool:
        programs = pool.map(
            lambda name: gpu_program(folder, name, f"tile_ops/{name}.cpp", "-x", "cu"), _PROGRAMS
        )
        return dict(zip(_PROGRAMS, programs, strict=True))


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("name", _PROGRAMS)
def test_every_operation_is_right_on_a_gpu(name: str, cuda_programs: dict[str, Path]) -> None:
    done = subprocess.run(
        [str(cuda_programs[name])], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.stdout, done.returncode) == ("ok\n", 0)
