"""Where a benchmark ran: device, driver, clocks, versions of everything, revision, time."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import tk
from tk.benchmarks.nvml import Card
from tk.benchmarks.record import Environment
from tk.benchmarks.rivals import rival_versions


def card_of(device: torch.device) -> Card | None:
    """The management library's view of a CUDA device, None for any other."""
    if device.type != "cuda":
        return None
    properties = torch.cuda.get_device_properties(device)
    parts = [getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    if None in parts:
        return None
    domain, bus, slot = (int(part) for part in parts if part is not None)
    return Card(f"{domain:08X}:{bus:02X}:{slot:02X}.0")


def card_state(device: torch.device) -> dict[str, float | None]:
    """The card's present clock and power, under the names that a row of a record has for them."""
    card = card_of(device)
    return {
        "sm_clock_mhz": card.sm_clock_mhz() if card else None,
        "power_watts": card.power_watts() if card else None,
    }


def environment_of(device: torch.device) -> Environment:
    """The environment of a run on a device, as it is now."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    if device.type != "cuda":
        return Environment(
            timestamp=now,
            device="host",
            architecture="host",
            num_sms=os.cpu_count(),
            versions=versions(),
            git_revision=git_revision(),
            machine=machine(),
            rivals=rival_versions(),
        )
    properties = torch.cuda.get_device_properties(device)
    card = card_of(device)
    return Environment(
        timestamp=now,
        device=properties.name,
        architecture=f"sm{properties.major}{properties.minor}",
        driver=card.driver() if card else "",
        num_sms=properties.multi_processor_count,
        l2_bytes=int(getattr(properties, "L2_cache_size", 0)) or None,
        memory_bytes=properties.total_memory,
        clocks=card.readings() if card else {},
        versions=versions(),
        git_revision=git_revision(),
        machine=machine(),
        rivals=rival_versions(),
    )


def versions() -> dict[str, str]:
    """Versions of Python, ourselves and what we run on."""
    found = {
        "python": platform.python_version(),
        "tk": tk.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "",
        "numpy": _version("numpy"),
        "triton": _version("triton"),
    }
    if torch.cuda.is_available():
        cudnn: Any = torch.backends.cudnn
        found["cudnn"] = str(cudnn.version() or "")
    return {name: version for name, version in found.items() if version}


def machine() -> str:
    """The processor and system in a few words."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def git_revision() -> str:
    """Revision of the checkout that we run in, with "+" when it has changes; empty elsewhere.

    ``TK_GIT_REVISION`` overrides it, for an installed package whose source is elsewhere.
    """
    given = os.environ.get("TK_GIT_REVISION")
    if given is not None:
        return given
    root = Path.cwd()
    try:
        if 'name = "tk-cute"' not in (root / "pyproject.toml").read_text(encoding="utf-8"):
            return ""
        revision = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, UnicodeDecodeError, subprocess.SubprocessError):
        return ""
    return revision + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=10,
    ).stdout.strip()


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
