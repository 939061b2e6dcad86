"""Tuned plans on disk: one small JSON file for each problem, in a folder for each environment.

A file holds the whole key of what it stores (versions, instance table, device, problem), so it can
be read by eye and is never applied where it was not made. One file a problem, because then no
writer has to read what others wrote: processes that tune at once lose nothing and need no lock, a
damaged file costs one plan, and a look-up opens one file. Imports neither torch nor a GPU.
"""

from __future__ import annotations

import contextlib
import datetime
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from tk.schedulers.choose import Choice, family_named
from tk.schedulers.device import Device
from tk.schedulers.files import sweep
from tk.schedulers.kept import digest, put_record, read_record, words
from tk.schedulers.plan import Plan, plan_of_choice

__all__ = [
    "Entry",
    "Measured",
    "PlanStore",
    "StoreWarning",
    "TuningEnvironment",
    "table_digest",
    "warn_once",
]

FORMAT = "tk tuned plan"
VERSION = 1
_SUFFIX = ".json"
Made = TypeVar("Made")


class StoreWarning(UserWarning):
    """Tuned plans cannot be stored, or a file among them cannot be used. Nothing else is wrong."""


@dataclass(frozen=True)
class TuningEnvironment:
    """Everything but the problem that a measured choice is valid for; any change is a miss."""

    library: str  # our version
    instances: str  # digest of the instance table, `table_digest`
    device: str  # the driver's name of it
    num_sms: int
    l2_bytes: int
    shared_memory_per_block: int  # bytes
    driver: str
    cuda: str
    torch: str

    @staticmethod
    def of(
        device: Device,
        instances: Sequence[Any],
        *,
        library: str,
        driver: str,
        cuda: str,
        torch: str,
    ) -> TuningEnvironment:
        """That of a device and an instance table, with versions as the caller found them."""
        return TuningEnvironment(
            library=library,
            instances=table_digest(instances),
            device=device.name,
            num_sms=device.num_sms,
            l2_bytes=device.l2_bytes,
            shared_memory_per_block=device.shared_memory_per_block,
            driver=driver,
            cuda=cuda,
            torch=torch,
        )

    @cached_property
    def folder(self) -> str:
        """Name of its folder: the device in words and a digest of the whole."""
        return f"{words(self.device)}-{digest(asdict(self))}"

    def difference(self, other: TuningEnvironment) -> str:
        """What of `other` is not as here, in words; empty when nothing is."""
        changed = [f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name)]
        return ", ".join(f"{name} {getattr(other, name)}" for name in changed)

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> TuningEnvironment:
        """From its fields as plain values. TypeError when they are others."""
        return _typed(TuningEnvironment(**record))


@dataclass(frozen=True)
class Measured:
    """What was measured when a plan won: median seconds of it and of the model's first choice."""

    seconds: float
    model_seconds: float
    candidates: int  # plans that were measured
    when: str = ""  # ISO 8601, UTC

    @property
    def gain(self) -> float:
        """How much faster than the model's first choice, as a ratio of times; 1 is no gain."""
        return self.model_seconds / self.seconds

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Measured:
        """From its fields as plain values. TypeError or ValueError when they are others."""
        made = _typed(Measured(**record))
        for name in ("seconds", "model_seconds"):
            value = getattr(made, name)
            if not 0 < value < float("inf"):
                raise ValueError(f"its {name} is {value!r}")
        return made

    @staticmethod
    def now(seconds: float, model_seconds: float, candidates: int) -> Measured:
        """A measurement made just now."""
        when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        return Measured(seconds, model_seconds, candidates, when)


@dataclass(frozen=True)
class Entry:
    """A stored winner: its file, the two parts of its key, the choice and its measurement."""

    path: Path
    environment: TuningEnvironment
    problem: Any
    choice: Choice
    measured: Measured


class PlanStore:
    """The winners under one folder, which need not exist.

    Looking up and storing raise for nothing that is or happens on disk. A file that cannot be used
    gives one StoreWarning a process, a folder that cannot be read or written one for all of it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path_of(self, environment: TuningEnvironment, problem: Any) -> Path:
        """The file of a problem's winner."""
        key = {"family": problem.family, "problem": problem.to_dict()}
        return self.root / environment.folder / f"{words(str(problem))}-{digest(key)}{_SUFFIX}"

    def get(
        self,
        environment: TuningEnvironment,
        problem: Any,
        device: Device,
        instances: Sequence[Any],
    ) -> Plan | None:
        """The stored winner as a plan for `device`, whose prediction is made anew; None when there
        is none that can run with these instances."""
        path = self.path_of(environment, problem)
        entry = self._entry(path)
        if entry is None:
            return None
        try:
            return _plan(entry, environment, problem, device, instances)
        except _Unusable as error:
            self._ignored(path, error)
            return None

    def put(
        self, environment: TuningEnvironment, problem: Any, choice: Choice, measured: Measured
    ) -> Path | None:
        """Stores a winner in place of any former one. The file, or None where it cannot be
        written."""
        path = self.path_of(environment, problem)
        record = {
            "format": FORMAT,
            "version": VERSION,
            "environment": asdict(environment),
            "family": problem.family,
            "problem": problem.to_dict(),
            "choice": choice.to_dict(),
            "measured": asdict(measured),
        }
        try:
            put_record(path, record)
        except OSError as error:
            self._failed(error)
            return None
        return path

    def entries(self) -> Iterator[Entry]:
        """All winners of all environments, those of one after the other."""
        for path in self._files():
            entry = self._entry(path)
            if entry is not None:
                yield entry

    def count(self, environment: TuningEnvironment) -> int:
        """How many winners an environment has."""
        return sum(1 for _ in _json_files(self.root / environment.folder))

    def clear(self) -> int:
        """Removes every winner and the folders that are then empty; returns how many there were.

        OSError when one cannot be removed. Files of other kinds stay.
        """
        removed = 0
        for path in self._files():
            with contextlib.suppress(FileNotFoundError):  # by another process
                path.unlink()
                removed += 1
        for folder in _folders(self.root):
            sweep(folder)
            with contextlib.suppress(OSError):  # something else is there
                folder.rmdir()
        with contextlib.suppress(OSError):
            self.root.rmdir()
        return removed

    def _files(self) -> Iterator[Path]:
        for folder in _folders(self.root):
            yield from _json_files(folder)

    def _entry(self, path: Path) -> Entry | None:
        """What a file holds, None when it is not there or of no use."""
        try:
            return _loaded(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._failed(error)
            return None
        except _Unusable as error:
            self._ignored(path, error)
            return None

    def _ignored(self, path: Path, reason: _Unusable) -> None:
        warn_once(str(path), f"the tuned plan {path} is ignored: {reason}")

    def _failed(self, error: OSError) -> None:
        what = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        warn_once(
            "",
            f"tuned plans cannot be kept in {self.root} ({what}); all else works. The environment "
            "variable TK_CACHE_DIR names another folder",
        )


class _Unusable(Exception):
    """Why a file cannot be used."""


def table_digest(instances: Sequence[Any]) -> str:
    """What tells one instance table from another, in 16 hexadecimal digits."""
    return digest([instance.to_dict() for instance in instances])


def _loaded(path: Path) -> Entry:
    """What a file holds. OSError when it cannot be read, _Unusable says what else is wrong."""
    try:
        return _entry(path, read_record(path, "tuned plan", FORMAT, VERSION))
    except KeyError as error:
        raise _Unusable(f"it lacks {error}") from None
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise _Unusable(error) from None


def _entry(path: Path, record: dict[str, Any]) -> Entry:
    """The entry of a file's plain values; any of the errors above when they are none of ours."""
    family = family_named(record["family"])
    return Entry(
        path=path,
        environment=TuningEnvironment.from_dict(record["environment"]),
        problem=family.problem_from_dict(record["problem"]),
        choice=Choice.from_dict(record["choice"], family.instance_from_dict),
        measured=Measured.from_dict(record["measured"]),
    )


_TYPES = {"int": int, "float": float, "str": str}


def _typed(made: Made) -> Made:
    """A dataclass of plain values; TypeError when one is not of its field's type."""
    for each in fields(made):  # type: ignore[arg-type]
        value = getattr(made, each.name)
        if type(value) is not _TYPES[str(each.type)]:
            raise TypeError(f"its {each.name} is {value!r}")
    return made


def _plan(
    entry: Entry,
    environment: TuningEnvironment,
    problem: Any,
    device: Device,
    instances: Sequence[Any],
) -> Plan:
    """The entry as a plan; _Unusable when it is for something else or cannot run."""
    difference = environment.difference(entry.environment)
    if not difference and entry.problem != problem:
        difference = str(entry.problem)
    if difference:
        raise _Unusable(f"it is for {difference}")
    instance = entry.choice.instance
    if instance not in instances:
        raise _Unusable(f"this build has no instance {instance.name} like its")
    try:
        return plan_of_choice(problem, device, entry.choice, measured=entry.measured.seconds)
    except ValueError as error:
        raise _Unusable(error) from None


_warned: set[str] = set()
"""What this process has warned of: files, and "" for a store that cannot be read or
written."""


def warn_once(key: str, text: str) -> None:
    """A StoreWarning, unless this process has had one of that key."""
    if key not in _warned:
        _warned.add(key)
        warnings.warn(text, StoreWarning, stacklevel=2)


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir())
    except OSError:
        return []


def _json_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == _SUFFIX)
    except OSError:
        return []
