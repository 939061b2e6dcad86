"""Checks the compiled libtk_cuda.so: lists every kernel with its registers, stack and spills, and
fails on what would make it slow without making it wrong.

A kernel fails when it spills more than tools/allowed_spills.txt lets it, when ptxas notes a loss
(C7510 and its kin: matrix products run one after the other), and when a matrix kernel lacks its
hardware instructions: HGMMA in all, UTMALDG in those that load by TMA. What ptxas said is in
libtk_cuda.ptxas.txt beside the library; the instructions are read from the library itself with
cuobjdump and nvdisasm (pip install '.[check]').

    python tools/check_library.py [LIBRARY]        default: that of the installed tk
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

MATRIX_FAMILIES = ("matmul", "attention")
"""Families whose every kernel multiplies on the tensor cores."""

ALLOWED_SPILLS = Path(__file__).with_name("allowed_spills.txt")
WANTED = ("HGMMA", "UTMALDG")


@dataclass
class Kernel:
    """A kernel as ptxas and the disassembler see it; stack and spills in bytes."""

    instance: str  # the object it comes from: matmul_bf16_k_k_tma_128_256_64_2
    function: str  # its mangled name
    registers: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    notes: list[str] = field(default_factory=list)  # losses that ptxas saw in its object
    instructions: Counter[str] = field(default_factory=Counter)  # of WANTED, in the library

    def faults(self, allowed: dict[str, int]) -> list[str]:
        """What is wrong with it, in words; `allowed` is read_allowed's."""
        found = [f"ptxas: {note}" for note in self.notes]
        spilled, limit = self.spill_stores + self.spill_loads, allowed.get(self.instance, 0)
        if spilled > limit:
            found.append(f"spills {spilled} bytes, {limit} are allowed")
        if self.instance.split("_")[0] in MATRIX_FAMILIES:
            if not self.instructions["HGMMA"]:
                found.append("has no HGMMA")
            if "_tma_" in self.instance and not self.instructions["UTMALDG"]:
                found.append("has no UTMALDG")
        return found


def read_log(text: str) -> list[Kernel]:
    """The kernels of a libtk_cuda.ptxas.txt, as cmake/merge_logs.cmake writes it."""
    kernels: list[Kernel] = []
    for section in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        instance, _, log = section.partition("\n")
        notes = re.findall(r"\(C7\d+\).*", log)
        for part in log.split("Compiling entry function '")[1:]:
            kernel = Kernel(instance.strip(), part.partition("'")[0], notes=notes)
            sizes = r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
            for stack, stores, loads in re.findall(sizes, part):
                kernel.stack += int(stack)
                kernel.spill_stores += int(stores)
                kernel.spill_loads += int(loads)
            if used := re.search(r"Used (\d+) registers", part):
                kernel.registers = int(used[1])
            kernels.append(kernel)
    return kernels


def read_allowed(text: str) -> dict[str, int]:
    """Bytes of spills allowed by instance. Each line: INSTANCE BYTES  # why. ValueError if not."""
    allowed = {}
    for line in text.splitlines():
        entry, _, reason = line.partition("#")
        if not entry.strip():
            continue
        words = entry.split()
        if len(words) != 2 or not words[1].isdigit() or not reason.strip():
            raise ValueError(f"{ALLOWED_SPILLS.name}: '{line}' is not 'INSTANCE BYTES  # why'")
        allowed[words[0]] = int(words[1])
    return allowed


def count_instructions(lines: Iterable[str]) -> dict[str, Counter[str]]:
    """How often each function of a disassembly has each instruction of WANTED."""
    pattern = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?\s*(" + "|".join(WANTED) + r")\b")
    counts: dict[str, Counter[str]] = {}
    current: Counter[str] = Counter()
    for line in lines:
        if "Function : " in line:
            current = counts.setdefault(line.partition("Function : ")[2].strip(), Counter())
        elif match := pattern.match(line):
            current[match[1]] += 1
    return counts


def tool(name: str) -> str:
    """cuobjdump and nvdisasm: of the wheels, of PATH, or of a toolkit."""
    spec = importlib.util.find_spec("nvidia")
    parents = (spec.submodule_search_locations or []) if spec else []
    folders = [str(Path(parent) / "cu13" / "bin") for parent in parents]
    path = os.pathsep.join([*folders, os.environ.get("PATH", ""), "/usr/local/cuda/bin"])
    found = shutil.which(name, path=path)
    if found is None:
        raise SystemExit(f"{name} was not found: pip install '.[check]'")
    return found


def disassemble(library: Path) -> dict[str, Counter[str]]:
    """count_instructions of every kernel in a library."""
    environment = {**os.environ, "NVDISASM_PATH": str(Path(tool("nvdisasm")).parent)}
    environment["PATH"] = f"{environment['NVDISASM_PATH']}:{environment.get('PATH', '')}"
    command = [tool("cuobjdump"), "-sass", str(library)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        counts = count_instructions(process.stdout)
    if process.returncode != 0:
        raise SystemExit(f"cuobjdump failed on {library}")
    return counts


def show(kernels: list[Kernel], allowed: dict[str, int], console: Console) -> None:
    """Prints the table of kernels, and below it what is wrong."""
    table = Table(title="Kernels of libtk_cuda.so (stack and spills in bytes)")
    table.add_column("instance")
    for column in ("registers", "stack", "spill stores", "spill loads", *WANTED):
        table.add_column(column, justify="right")
    for kernel in kernels:
        numbers = (kernel.registers, kernel.stack, kernel.spill_stores, kernel.spill_loads)
        counts = (kernel.instructions[name] for name in WANTED)
        style = "red" if kernel.faults(allowed) else None
        table.add_row(kernel.instance, *map(str, (*numbers, *counts)), style=style)
    console.print(table)
    for kernel in kernels:
        for fault in kernel.faults(allowed):
            console.print(f"{kernel.instance}: {fault}", style="red", markup=False)


def installed_library() -> Path:
    """libtk_cuda.so of the installed tk, found without importing torch."""
    spec = importlib.util.find_spec("tk")
    for parent in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(parent) / "lib" / "libtk_cuda.so").exists():
            return path
    raise SystemExit("no installed libtk_cuda.so was found; name one: check_library.py LIBRARY")


def main(arguments: list[str]) -> int:
    """Returns the exit status: 0 when every kernel is as it should be."""
    library = Path(arguments[0]) if arguments else installed_library()
    kernels = read_log(library.with_name("libtk_cuda.ptxas.txt").read_text())
    allowed = read_allowed(ALLOWED_SPILLS.read_text())
    counts = disassemble(library)
    for kernel in kernels:
        kernel.instructions = counts.pop(kernel.function, Counter())
    console = Console(width=140)
    show(kernels, allowed, console)
    if not kernels or counts:
        console.print(f"kernels that ptxas said nothing of: {sorted(counts) or 'all'}", style="red")
        return 1
    unused = set(allowed) - {kernel.instance for kernel in kernels}
    if unused:
        console.print(f"no such instance in {ALLOWED_SPILLS.name}: {sorted(unused)}", style="red")
        return 1
    faulty = [kernel for kernel in kernels if kernel.faults(allowed)]
    console.print(f"{len(kernels)} kernels, {len(faulty)} with faults")
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
