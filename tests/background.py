"""Compilations that tests wait for. They start before the session's first test, in the order of the
tests that want them, as many at a time as there are cores, and give way to what the tests run: most
tests need one core, so that the others compile meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import Generic, TypeVar

import pytest

Value = TypeVar("Value")

_executor = ThreadPoolExecutor(max_workers=os.cpu_count())
_NICE = ("nice", "-n", "5") if shutil.which("nice") else ()


class Task(Generic[Value]):
    """A call that is made in the background, or at the latest when its value is asked for."""

    def __init__(self, function: Callable[[], Value]) -> None:
        self._function = function
        self._begun = Lock()
        self._value: Future[Value] = Future()
        _executor.submit(self._run)

    def _run(self) -> None:
        """Makes the call, unless another thread has begun it."""
        if self._begun.acquire(blocking=False):
            try:
                self._value.set_result(self._function())
            except BaseException as error:
                self._value.set_exception(error)

    def result(self) -> Value:
        """The value; not behind what else is still in the queue."""
        self._run()
        return self._value.result()


def run(
    command: list[str], input: str | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a compiler below the priority of what the tests run, with more variables if wanted."""
    return subprocess.run(
        [*_NICE, *command],
        input=input,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def start(items: list[pytest.Item]) -> None:
    """Calls what the marks `prepare` of the tests name, once for each mark: prepare(function,
    *arguments) on a test or a module starts the tasks that it will ask for."""
    seen: set[int] = set()
    for item in items:
        if item.get_closest_marker("skip"):
            continue
        for mark in item.iter_markers("prepare"):
            if id(mark) not in seen:
                seen.add(id(mark))
                function, *arguments = mark.args
                with suppress(pytest.skip.Exception):  # the test says the same of itself
                    function(*arguments)


def stop() -> None:
    """Forgets what has not begun."""
    _executor.shutdown(wait=False, cancel_futures=True)
