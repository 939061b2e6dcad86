"""Compiles the C++ checks of the host architecture (tests/cpp/host_*.cpp), plain and under
sanitizers, each once a session and in the background, and runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path

import background
import pytest

ROOT = Path(__file__).resolve().parents[1]

_WARNINGS = ("-Wall", "-Wextra")
FLAVOURS: Mapping[str, tuple[str, ...]] = {
    "plain": ("-O2",),
    "thread": ("-O1", "-g1", "-fsanitize=thread"),
    # For conversions of special values: CUTLASS's of half overflows an int, which is harmless.
    "address_only": ("-O1", "-g1", "-fsanitize=address"),
    # What is left out doubles the time to compile, and AddressSanitizer sees it as well.
    "address": (
        "-O1",
        "-g1",
        "-fsanitize=address,undefined",
        "-fno-sanitize=null,vptr,object-size",
        "-fno-sanitize-recover=undefined",
    ),
}
_OPTIONS = {
    "TSAN_OPTIONS": "halt_on_error=0 exitcode=66",
    "ASAN_OPTIONS": "detect_leaks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}

_builds: dict[tuple[str, str], background.Task[Path]] = {}


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tk-host-")  # goes with the session


@cache
def _compiler() -> str:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    return compiler


@cache
def _include_flags() -> tuple[str, ...]:
    found = subprocess.run(
        [sys.executable, str(ROOT / "build_backend" / "toolchain.py"), "--flags"],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        pytest.skip(f"needs CUTLASS and the CUDA headers: {found.stderr.strip()}")
    return (f"-I{ROOT / 'cpp' / 'include'}", f"-I{ROOT / 'cpp'}", *found.stdout.split())


@cache
def _has_runtime(flavour: str) -> bool:
    """Whether the compiler comes with the library of a sanitizer."""
    source = Path(_folder().name) / f"empty_{flavour}.cpp"
    source.write_text("int main() { return 0; }\n")
    command = [_compiler(), *FLAVOURS[flavour], str(source), "-o", str(source.with_suffix(""))]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _compile(name: str, flavour: str, command: list[str]) -> Path:
    program = Path(_folder().name) / f"{name.replace('/', '_')}_{flavour}"
    done = background.run([*command, "-o", str(program)])
    if done.returncode != 0 or done.stderr:
        raise RuntimeError(f"{name} ({flavour}) does not compile cleanly:\n{done.stderr[:4000]}")
    return program


@cache
def _syntax_check(text: str) -> background.Task[str]:
    command = [_compiler(), "-std=c++20", "-DTK_ARCH_HOST", "-fsyntax-only", *_WARNINGS]
    command += [*_include_flags(), "-x", "c++", "-"]
    return background.Task(lambda: background.run(command, input=text).stderr)


def start_syntax_checks(texts: Iterable[str]) -> None:
    """Starts what `syntax_errors` will be asked for."""
    for text in texts:
        _syntax_check(text)


def syntax_errors(text: str) -> str:
    """What the compiler says of the text of a program, for the host architecture; "" if it is in
    order."""
    return _syntax_check(text).result()


def start_builds(wanted: Iterable[tuple[str, str]]) -> None:
    """Starts to compile (program, flavour) pairs in the background, in this order."""
    for name, flavour in wanted:
        if (name, flavour) in _builds or not _has_runtime(flavour):
            continue
        source = ROOT / "tests" / "cpp" / f"{name}.cpp"
        command = [
            *(_compiler(), "-std=c++20", "-DTK_ARCH_HOST", *_WARNINGS, *FLAVOURS[flavour]),
            *(*_include_flags(), str(source), "-pthread"),
        ]
        _builds[name, flavour] = background.Task(partial(_compile, name, flavour, command))


@cache
def _launcher() -> tuple[str, ...]:
    """ThreadSanitizer of older compilers fails at random where addresses are very random."""
    command = ("setarch", "-R")
    if shutil.which("setarch") is None:
        return ()
    works = subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    return command if works else ()


def run(
    name: str,
    flavour: str,
    *arguments: str,
    timeout: float = 120.0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program with the arguments, compiling it first if need be. Raises TimeoutExpired after
    `timeout` seconds: no launch of the host architecture may hang."""
    start_builds([(name, flavour)])
    if (name, flavour) not in _builds:
        pytest.skip(f"g++ has no library for {' '.join(FLAVOURS[flavour])}")
    program = _builds[name, flavour].result()
    launcher = _launcher() if flavour == "thread" else ()
    return subprocess.run(
        [*launcher, str(program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env={**os.environ, **_OPTIONS, **(environment or {})},
    )
