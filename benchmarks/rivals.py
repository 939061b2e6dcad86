"""The libraries that kernels are measured against: which are installed, and in which version.

They are found by their metadata and never imported for it: some take seconds, some need a GPU.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

UNKNOWN_VERSION = "version unknown"


@dataclass(frozen=True)
class Rival:
    """A library: how it is called in records, by what it is found, and what it can compute.

    ``modules`` and ``distributions`` are the names that any of its builds has. ``special`` finds
    one that comes with torch; it returns the version, or None when it is not there.
    """

    name: str
    title: str
    families: tuple[str, ...]
    modules: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    install: str = ""
    special: Callable[[], str | None] | None = None


@dataclass(frozen=True)
class Found:
    """A rival and its version, None when it is not installed."""

    rival: Rival
    version: str | None

    @property
    def present(self) -> bool:
        """Whether it is installed."""
        return self.version is not None


def _cublas() -> str | None:
    import torch

    if torch.version.cuda is None:
        return None
    names = ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12")
    return _version(names) or f"of CUDA {torch.version.cuda}"


def _cudnn() -> str | None:
    import torch

    if torch.version.cuda is None:
        return None
    return _version(("nvidia-cudnn-cu13", "nvidia-cudnn-cu12")) or UNKNOWN_VERSION


def _torch_cuda() -> str | None:
    import torch

    return None if torch.version.cuda is None else torch.__version__


def _compile() -> str | None:
    import torch

    # On a GPU its back end writes Triton.
    return torch.__version__ if _has_module("triton") else None


RIVALS: tuple[Rival, ...] = (
    Rival("torch", "cuBLAS", ("gemm",), install="a build of torch with CUDA", special=_cublas),
    Rival(
        "triton",
        "Triton",
        ("gemm",),
        ("triton",),
        ("triton", "pytorch-triton"),
        "pip install triton",
    ),
    Rival(
        "compile",
        "torch.compile",
        ("gemm", "rotary"),
        install="pip install triton",
        special=_compile,
    ),
    Rival(
        "eager",
        "torch eager",
        ("rotary",),
        install="a build of torch with CUDA",
        special=_torch_cuda,
    ),
    Rival("cudnn", "cuDNN", ("attention",), install="a build of torch with CUDA", special=_cudnn),
    Rival(
        "sdpa-flash",
        "torch's flash attention",
        ("attention",),
        install="a build of torch with CUDA",
        special=_torch_cuda,
    ),
    Rival(
        "flash-attention-2",
        "FlashAttention-2",
        ("attention",),
        ("flash_attn",),
        ("flash-attn", "flash_attn"),
        "pip install flash-attn",
    ),
    Rival(
        "flash-attention-3",
        "FlashAttention-3",
        ("attention",),
        ("flash_attn_interface", "flash_attn_3"),
        ("flash-attn-3", "flash_attn_3"),
        "from the hopper folder of github.com/Dao-AILab/flash-attention",
    ),
    Rival(
        "flash-linear-attention",
        "flash-linear-attention",
        ("linear attention", "state space"),
        ("fla",),
        ("flash-linear-attention",),
        "pip install flash-linear-attention",
    ),
    Rival(
        "mamba-ssm",
        "mamba-ssm",
        ("state space",),
        ("mamba_ssm",),
        ("mamba-ssm",),
        "pip install mamba-ssm",
    ),
    Rival(
        "liger",
        "Liger",
        ("norm", "rotary"),
        ("liger_kernel",),
        ("liger-kernel", "liger-kernel-nightly"),
        "pip install liger-kernel",
    ),
)


RIVAL_NAMES = frozenset(rival.name for rival in RIVALS)
"""The candidates of records that are not ours."""


def find_rivals() -> list[Found]:
    """All of them, with their versions where they are installed."""
    return [Found(rival, _find(rival)) for rival in RIVALS]


def rival_versions() -> dict[str, str | None]:
    """The same by title, as a record keeps it."""
    return {found.rival.title: found.version for found in find_rivals()}


def for_family(family: str, found: list[Found] | None = None) -> Mapping[str, Found]:
    """The rivals that compute a family, by name, whether installed or not."""
    every = find_rivals() if found is None else found
    return {each.rival.name: each for each in every if family in each.rival.families}


def choose(
    family: str, text: str | None, device: torch.device, calls: Collection[str]
) -> list[str]:
    """The names in a text such as "eager,compile", or those that are installed, of the rivals of a
    family that can be called; ValueError says why one cannot be measured. On a CPU there is none.
    """
    if device.type != "cuda":
        if text is not None:
            raise ValueError(f"rivals {text}: none is measured without a GPU")
        return []
    known = for_family(family)
    if text is None or text == "all":
        return [name for name in known if known[name].present and name in calls]
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in known or name not in calls:
            raise ValueError(f"'{name}' is no rival of {family}; there are {', '.join(calls)}")
        if not known[name].present:
            raise ValueError(f"{known[name].rival.title} is absent: {known[name].rival.install}")
    return names


def _find(rival: Rival) -> str | None:
    if rival.special is not None:
        return rival.special()
    if not any(_has_module(module) for module in rival.modules):
        return None
    return _version(rival.distributions) or UNKNOWN_VERSION


def _has_module(name: str) -> bool:
    """Whether a top-level module can be imported; nothing is imported to find out."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # a module that replaced itself by something odd
        return False


def _version(distributions: tuple[str, ...]) -> str | None:
    """The version of the first distribution that is installed."""
    return next(filter(None, map(_version_of, distributions)), None)


def _version_of(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
