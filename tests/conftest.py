"""What all tests share: the device they run on, how many examples hypothesis tries, and compilers
that work ahead of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import background
import pytest
import torch
from hypothesis import HealthCheck, register_random, settings

# `python -m pytest` puts the root on the path, where tk/ is source that was not built; what is
# installed is what is tested. Interpreters that tests start leave the folder off, too.
ROOT = Path(__file__).resolve().parent.parent
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT]
os.environ.setdefault("PYTHONSAFEPATH", "1")

# A product on the host architecture is real threads and takes milliseconds; a GPU takes more.
settings.register_profile(
    "ci",
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", parent=settings.get_profile("ci"), max_examples=400)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


class TorchRandom:
    """Torch's random numbers as hypothesis resets them before each example, so that one which
    fails fails again."""

    def seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def getstate(self) -> torch.Tensor:
        return torch.get_rng_state()

    def setstate(self, state: torch.Tensor) -> None:
        torch.set_rng_state(state)


_torch_random = TorchRandom()
register_random(_torch_random)


def has_gpu() -> bool:
    """Whether CUDA tensors can be multiplied here: a Hopper GPU, and kernels for it."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        return False
    from tk import runtime

    return runtime.has_library("cuda")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not has_gpu():
        skip = pytest.mark.skip(reason="needs an NVIDIA Hopper GPU and libtk_cuda.so")
        for item in marked:
            item.add_marker(skip)


def pytest_collection_finish(session: pytest.Session) -> None:
    if not session.config.option.collectonly:
        background.start(session.items)


def pytest_sessionfinish() -> None:
    background.stop()


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """The same test on the host architecture and on a GPU."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20)
