"""TK_TUNE: whether calls without a plan use winners that were measured before, or measure them.

Winners are kept per device, driver, versions and instance table (`tk.schedulers.store`) under
`user_cache_dir()`. Only CUDA tensors have any: a CPU's times say nothing.
"""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tk import resources
from tk.runtime import Backend, library_version
from tk.schedulers import Choice, Plan
from tk.schedulers.plan import plan_of_choice
from tk.schedulers.store import Measured, PlanStore, StoreWarning, TuningEnvironment
from tk.user_cache import user_cache_dir

__all__ = ["VARIABLE", "Winner", "driver_version", "environment", "store", "tuned_plan", "tuning"]

VARIABLE = "TK_TUNE"
NEVER, STORED, FORCE = "0", "1", "force"
_DRIVER_FILES = ("/sys/module/nvidia/version", "/proc/driver/nvidia/version")

_lock = threading.RLock()
_environments: dict[int, tuple[Backend, TuningEnvironment]] = {}  # by the CUDA device's number
_stores: dict[Path, PlanStore] = {}
_warned: set[str] = set()


@dataclass(frozen=True)
class Winner:
    """The fastest choice of a measurement."""

    choice: Choice
    measured: Measured


def tuning() -> str:
    """What TK_TUNE asks for: "0", "1" (also when it is not set, or empty) or "force". ValueError
    names any other value."""
    value = os.environ.get(VARIABLE) or STORED
    if value not in (NEVER, STORED, FORCE):
        raise ValueError(f'environment variable {VARIABLE} is "{value}"; must be 0, 1 or force')
    return value


def tuned_plan(problem: Any, backend: Backend) -> Plan | None:
    """The measured plan of a problem, None where the model's is to be used.

    Read from the store, or with TK_TUNE=force measured now and stored. Nothing is measured while
    a CUDA graph is captured or torch.compile traces, nor when measuring fails, which gives one
    warning: the stored winner is used then. ValueError for a TK_TUNE that makes no sense.
    """
    wanted = tuning()
    if backend.kind != "cuda" or wanted == NEVER:
        return None
    if wanted == FORCE and _may_measure(backend.index):
        plan = _measured_plan(problem, backend)
        if plan is not None:
            return plan
    kept = store()
    # Not Path.is_dir, which raises where a home folder may not be entered.
    if kept is None or not os.path.isdir(kept.root):
        return None
    return kept.get(environment(backend), problem, backend.device, backend.instances)


def measure(problem: Any, backend: Backend) -> Winner | None:
    """Measures the plans of a problem that look best; None when it cannot make its operands."""
    from tk.benchmarks.tuning import tune_problem

    return tune_problem(problem, backend)


def store() -> PlanStore | None:
    """The store of the present cache folder; None, with one warning, when no home is known."""
    try:
        root = user_cache_dir() / "plans"
    except RuntimeError as error:
        _warn_once(f"tuned plans cannot be stored: {error}")
        return None
    return _stores.setdefault(root, PlanStore(root))


def environment(backend: Backend) -> TuningEnvironment:
    """What winners measured on a CUDA backend are valid for."""
    known = _environments.get(backend.index)
    if known is not None and known[0] is backend:
        return known[1]
    found = TuningEnvironment.of(
        backend.device,
        backend.instances,
        library=library_version(),
        driver=driver_version(),
        cuda=torch.version.cuda or "",
        torch=torch.__version__,
    )
    _environments[backend.index] = backend, found
    return found


def driver_version() -> str:
    """The NVIDIA driver's version, e.g. "580.65.06"; where the system does not say, the newest
    CUDA version that it supports, e.g. "cuda 13000", and empty without a driver."""
    for name in _DRIVER_FILES:
        try:
            text = Path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for word in text.split():
            if word[0].isdigit() and "." in word:
                return word
    supported: Any = getattr(torch._C, "_cuda_getDriverVersion", None)
    if supported is None or not torch.cuda.is_available():
        return ""
    return f"cuda {supported()}"


def _measured_plan(problem: Any, backend: Backend) -> Plan | None:
    with _lock:  # one measurement at a time
        try:
            winner = measure(problem, backend)
        except (RuntimeError, ValueError) as error:  # memory, a launch, no plan that is right
            _warn_once(f"{VARIABLE}=force: {problem} could not be measured: {error}")
            return None
    if winner is None:
        return None
    kept = store()
    if kept is not None:
        kept.put(environment(backend), problem, winner.choice, winner.measured)
    return plan_of_choice(problem, backend.device, winner.choice, measured=winner.measured.seconds)


def _may_measure(index: int) -> bool:
    """Whether kernels may be timed now: nothing captures or traces the calls of this thread."""
    compiling: Any = torch.compiler.is_compiling
    tracing: Any = torch._C._get_tracing_state
    return not (compiling() or tracing() is not None or resources.capturing(index))


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, StoreWarning, stacklevel=2)
