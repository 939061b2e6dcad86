"""Bank conflicts of naive, padded and swizzled shared layouts, counted on the host by the library's
own function: no GPU is needed, a C++ compiler is."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tk.benchmarks.record import Figure

EXPERIMENT = "shared layouts"
UNIT = "wavefronts / fewest"
SOURCE = "counted on the host, worst ldmatrix of a 64x64 tile of 16 bits"


def count_conflicts() -> list[Figure]:
    """A figure for each layout: the most wavefronts of an access over the fewest, 1 is none.

    Compiles a small program, which takes seconds. RuntimeError says why it could not be.
    """
    from tk.extension import MissingToolError
    from tk.extension.compiler import compiler_for

    try:
        compiler = compiler_for("host")
    except MissingToolError as error:
        raise RuntimeError(str(error)) from error
    source = Path(__file__).with_suffix(".cpp")
    with tempfile.TemporaryDirectory(prefix="tk-layouts-") as folder:
        program = Path(folder) / "shared_layouts"
        command = [compiler.program, *compiler.flags, "-O1", str(source), "-o", str(program)]
        _run([*command, "-pthread"])
        return read(_run([str(program)]))


def read(text: str) -> list[Figure]:
    """The figures of the program's output."""
    figures = []
    for line in text.splitlines():
        layout, worst, _, _ = line.split("|")
        figures.append(Figure(EXPERIMENT, layout, float(worst), UNIT, SOURCE))
    return figures


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name}: {done.stderr.strip()[-300:]}")
    return done.stdout
