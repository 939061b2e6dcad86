"""Hopper GPU kernels over CuTe, with plans made in Python, that also run on a CPU.

`tk.matmul`, `tk.attention` and `tk.rotary` are the operations; `tk.plan_matmul` and
`tk.plan_attention` say how they will run. `tk.schedulers` makes
plans, `tk.reference` holds PyTorch formulas, `tk.runtime` the loaded libraries. `tk.load` compiles
kernels of one's own.
"""

from importlib import metadata as _metadata
from importlib import util as _util

if _util.find_spec("tk._binding") is None:
    raise ImportError(
        f"tk at {__path__[0]} is a source tree that was not built: run `pip install .` in the "
        "folder above it, and import tk from any other folder (or use `pip install -e .`)"
    )

from tk import reference, runtime, schedulers
from tk.extension import cmake_dir, include_dir, load, open_extension
from tk.ops.attention import attention, plan_attention
from tk.ops.attention_merge import attention_merge
from tk.ops.matmul import matmul, plan_matmul
from tk.ops.rotary import rotary

try:
    __version__ = _metadata.version("tk-cute")
except _metadata.PackageNotFoundError:  # files put on the path without being installed
    __version__ = "0+unknown"

__all__ = [
    "__version__",
    "attention",
    "attention_merge",
    "cmake_dir",
    "include_dir",
    "load",
    "matmul",
    "open_extension",
    "plan_attention",
    "plan_matmul",
    "reference",
    "rotary",
    "runtime",
    "schedulers",
]
