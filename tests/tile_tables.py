"""The generated tables of docs/tiles.md: bank conflicts, and instructions beside those written by
hand. `python tests/tile_tables.py` writes them anew, those whose tools are there."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "tiles.md"
SASS = ROOT / "tests" / "cpp" / "sass"


# --- Bank conflicts ---


@dataclass(frozen=True)
class Cost:
    """What an operation costs in one tile, as tests/cpp/host_bank_conflicts.cpp counts it."""

    operation: str
    dtype: str
    swizzle: int  # bytes; -1: a vector
    shape: str
    worst: float  # wavefronts of an access, over the fewest of its kind
    wavefronts: int  # of all accesses
    fewest: int


def read_costs(text: str) -> list[Cost]:
    """Every line of the program's output."""
    costs = []
    for line in text.splitlines():
        operation, dtype, swizzle, shape, worst, wavefronts, fewest = line.split("|")
        numbers = (float(worst), int(wavefronts), int(fewest))
        costs.append(Cost(operation, dtype, int(swizzle), shape, *numbers))
    return costs


def worst_by_swizzle(
    costs: Iterable[Cost],
) -> dict[tuple[str, str], dict[int, tuple[float, float]]]:
    """The lowest and the highest `worst` over the shapes, by (operation, dtype) and swizzle."""
    found: dict[tuple[str, str], dict[int, tuple[float, float]]] = {}
    for cost in costs:
        of_operation = found.setdefault((cost.operation, cost.dtype), {})
        low, high = of_operation.get(cost.swizzle, (cost.worst, cost.worst))
        of_operation[cost.swizzle] = (min(low, cost.worst), max(high, cost.worst))
    return found


def bank_table(costs: Iterable[Cost]) -> str:
    """The markdown table of docs/tiles.md."""
    rows = [
        "| operation | dtype | 128 bytes | 64 | 32 | none |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (operation, dtype), by_swizzle in worst_by_swizzle(costs).items():
        cells = []
        for swizzle in (128, 64, 32, 0):
            low, high = by_swizzle.get(swizzle, by_swizzle.get(-1, (0.0, 0.0)))
            cells.append(
                "–" if high == 0 else f"{low:g}" if low == high else f"{low:g} to {high:g}"
            )
        rows.append(f"| {operation} | {dtype} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


# --- Instructions ---


@cache
def tool(name: str) -> str | None:
    """A compiler or disassembler: of NVIDIA's wheels, of PATH, or of a toolkit."""
    spec = importlib.util.find_spec("nvidia")
    folders = (
        [str(Path(p) / "cu13" / "bin") for p in (spec.submodule_search_locations or [])]
        if spec
        else []
    )
    path = os.pathsep.join([*folders, os.environ.get("PATH", ""), "/usr/local/cuda/bin"])
    return shutil.which(name, path=path)


def missing_tools() -> list[str]:
    """What is needed to compare instructions and is not there."""
    return [name for name in ("nvcc", "cuobjdump", "nvdisasm") if tool(name) is None]


def compile_cuda(source: Path, folder: Path, *options: str) -> Path:
    """A program, or with -cubin a file of machine code. RuntimeError with what nvcc said."""
    flags = subprocess.run(
        [sys.executable, str(ROOT / "build_backend" / "toolchain.py"), "--flags"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    # nvcc brings CUDA's headers of its own version: of the folders only CUTLASS's is needed
    cutlass = next(folder for folder in flags if "cutlass" in folder)
    target = folder / source.stem
    command = [
        *(tool("nvcc") or "nvcc", "-std=c++20", "-O3", "--expt-relaxed-constexpr", *options),
        *("-gencode=arch=compute_90a,code=sm_90a", f"-I{ROOT / 'cpp' / 'include'}"),
        *(f"-I{ROOT / 'cpp'}", f"-I{cutlass.removeprefix('-I')}"),
    ]
    done = subprocess.run(
        [*command, str(source), "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{source.name} does not compile:\n{done.stderr[:4000]}")
    return target


_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?\s*([A-Z]\w*)")


def count_instructions(cubin: Path) -> dict[str, int]:
    """The instructions of every kernel, without the padding behind its end."""
    folder = str(Path(tool("nvdisasm") or "").parent)
    environment = {**os.environ, "NVDISASM_PATH": folder}
    environment["PATH"] = f"{folder}:{environment.get('PATH', '')}"
    text = subprocess.run(
        [tool("cuobjdump") or "cuobjdump", "-sass", str(cubin)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    ).stdout
    counts: Counter[str] = Counter()
    kernel = ""
    for line in text.splitlines():
        if "Function : " in line:
            kernel = line.partition("Function : ")[2].strip()
        elif (match := _INSTRUCTION.match(line)) and match[1] != "NOP":
            counts[kernel] += 1
    return dict(counts)


def compare_instructions() -> dict[str, tuple[int, int]]:
    """(ours, by hand) of every pair of kernels in tests/cpp/sass, by operation."""
    with tempfile.TemporaryDirectory() as folder:
        counts: dict[str, int] = {}
        for source in sorted(SASS.glob("*.cu")):
            counts |= count_instructions(compile_cuda(source, Path(folder), "-cubin"))
    names = sorted(name.removeprefix("ours_") for name in counts if name.startswith("ours_"))
    assert len(counts) == 2 * len(names), sorted(counts)
    return {name: (counts[f"ours_{name}"], counts[f"hand_{name}"]) for name in names}


def sass_table(pairs: dict[str, tuple[int, int]]) -> str:
    """The markdown table of docs/tiles.md."""
    rows = ["| operation | the library | by hand |", "| --- | --- | --- |"]
    rows += [f"| `{name}` | {ours} | {hand} |" for name, (ours, hand) in pairs.items()]
    return "\n".join(rows) + "\n"


# --- The page ---


def _section(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: .*? -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def documented(name: str) -> str:
    """What stands in docs/tiles.md between the marks of a generated table."""
    found = _section(name).search(DOCS.read_text())
    assert found is not None, f"docs/tiles.md has no section {name}"
    return found[2].strip("\n") + "\n"


def write(name: str, table: str) -> None:
    """Puts a table between its marks."""
    text, count = _section(name).subn(lambda m: f"{m[1]}\n{table}\n{m[3]}", DOCS.read_text())
    assert count == 1, f"docs/tiles.md has no section {name}"
    DOCS.write_text(text)


if __name__ == "__main__":
    import host_programs

    done = host_programs.run("host_bank_conflicts", "plain")
    done.check_returncode()
    write("bank conflicts", bank_table(read_costs(done.stdout)))
    if missing_tools():
        print("left as they are: instructions, for want of", *missing_tools())
    else:
        write("instructions", sass_table(compare_instructions()))
