"""The build backend: scikit-build-core's, plus the compiler as a build requirement.

When CUDA is wanted and the system has no nvcc that is new enough, NVIDIA's compiler wheels are
added to what pip installs for the build; a host-only build adds the CUDA headers alone, and one
that takes its libraries as already built (TK_PREBUILT_DIR) adds nothing.
"""

from __future__ import annotations

import os
import re

import toolchain
from scikit_build_core import build as _backend
from scikit_build_core.build import *  # noqa: F403  (every hook that is not replaced below)

_Settings = dict[str, "list[str] | str"] | None


def _definition(name: str, settings: _Settings) -> str:
    """A CMake definition as given to pip: -C cmake.define.NAME=…, -C cmake.args=-DNAME=…, or one
    of the environment variables that scikit-build-core reads."""
    given = [os.environ.get(key, "") for key in ("SKBUILD_CMAKE_DEFINE", "SKBUILD_CMAKE_ARGS")]
    given.append(os.environ.get("CMAKE_ARGS", ""))
    for key, value in (settings or {}).items():
        values = [value] if isinstance(value, str) else value
        if key.endswith("cmake.args"):
            given += values
        elif key.endswith(f"cmake.define.{name}"):
            given += [f"{name}={one}" for one in values]
    found = re.findall(rf"(?:\b|-D){name}(?::\w+)?=([^\s;]*)", " ".join(given))
    return found[-1] if found else ""


def _requirements(settings: _Settings) -> list[str]:
    if _definition("TK_PREBUILT_DIR", settings):
        return []
    cuda = _definition("TK_CUDA", settings).upper() not in ("OFF", "0", "NO", "FALSE", "N")
    return toolchain.required_wheels(cuda)


def get_requires_for_build_wheel(config_settings: _Settings = None) -> list[str]:
    return [
        *_backend.get_requires_for_build_wheel(config_settings),
        *_requirements(config_settings),
    ]


def get_requires_for_build_editable(config_settings: _Settings = None) -> list[str]:
    return [
        *_backend.get_requires_for_build_editable(config_settings),
        *_requirements(config_settings),
    ]
