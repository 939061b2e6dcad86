"""What a benchmark leaves behind: plain dataclasses, and their JSON with a schema version.

Nothing here needs torch or a GPU, so a record can be read and drawn anywhere. Times are in
seconds, sizes in bytes, rates per second; clocks are in MHz and power in watts, as drivers
report them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

SCHEMA_VERSION = 1

OK = "ok"
WRONG = "wrong"  # ran, and its output was not the product: it has no time
FAILED = "failed"  # raised
PREDICTED = "predicted"  # never ran: the model's figure for a device that is not here


class RecordError(ValueError):
    """A file that is no record of ours, or of a version this program does not read."""


@dataclass(frozen=True)
class Timing:
    """The time of one call in seconds: median and quartiles over ``repetitions`` calls."""

    median: float
    q1: float
    q3: float
    repetitions: int


@dataclass(frozen=True)
class Result:
    """One candidate on one shape.

    ``error`` is the relative Frobenius error against the reference, ``largest_error`` the
    largest absolute one in units of the reference's root mean square.
    """

    candidate: str
    status: str
    timing: Timing | None = None
    error: float | None = None
    largest_error: float | None = None
    plan: dict[str, Any] | None = None
    plan_text: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """One shape with everything that ran on it; the ratio of two rows' times means nothing."""

    m: int
    n: int
    k: int
    layout: str  # "nt": a @ w.t(); "nn": a @ b; "tn", "tt"
    dtype: str
    floating_point_operations: float
    necessary_bytes: float  # each operand read once, the output written once
    roof_seconds: float | None  # no faster than this on the device, from its peak rates
    results: list[Result]
    batch: int = 1
    in_mean: bool = True
    group: str = ""
    sm_clock_mhz: float | None = None
    power_watts: float | None = None

    def result(self, candidate: str) -> Result | None:
        """The first result of the named candidate, or None."""
        return next((r for r in self.results if r.candidate == candidate), None)

    def ratio(self, candidate: str, rival: str) -> float | None:
        """Time of ``rival`` over time of ``candidate`` (above 1: the candidate is faster)."""
        mine, theirs = self.result(candidate), self.result(rival)
        if mine is None or theirs is None or mine.timing is None or theirs.timing is None:
            return None
        return theirs.timing.median / mine.timing.median


@dataclass(frozen=True)
class Environment:
    """Where and with what a record was made."""

    timestamp: str  # ISO 8601, UTC
    device: str
    architecture: str  # "sm90" or "host"
    driver: str = ""
    num_sms: int | None = None
    l2_bytes: int | None = None
    memory_bytes: int | None = None
    clocks: dict[str, float] = field(default_factory=dict)  # MHz, watts; see nvml.py
    versions: dict[str, str] = field(default_factory=dict)
    git_revision: str = ""
    machine: str = ""


@dataclass(frozen=True)
class Record:
    """A whole run of one suite."""

    suite: str  # "gemm", "gemm-tune"
    environment: Environment
    settings: dict[str, Any]
    rows: list[Row]
    predicted_for: str = ""  # the device that PREDICTED results are for
    host_call_seconds: dict[str, float] = field(default_factory=dict)
    schema: int = SCHEMA_VERSION

    def geometric_mean(self, candidate: str = "tk", rival: str = "torch") -> float | None:
        """Geometric mean of the ratios of the rows that count, None when there is none."""
        ratios = [row.ratio(candidate, rival) for row in self.rows if row.in_mean]
        known = [ratio for ratio in ratios if ratio is not None]
        if not known:
            return None
        return math.exp(sum(map(math.log, known)) / len(known))

    def wrong_rows(self, candidate: str = "tk") -> list[Row]:
        """The rows where the candidate ran and was wrong, or failed."""
        found = []
        for row in self.rows:
            result = row.result(candidate)
            if result is not None and result.status in (WRONG, FAILED):
                found.append(row)
        return found

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """The inverse of :meth:`to_dict`; :class:`RecordError` says what does not fit."""
        schema = data.get("schema") if isinstance(data, Mapping) else None
        if not isinstance(schema, int):
            raise RecordError("not a record of tk bench: it has no schema version")
        if schema != SCHEMA_VERSION:
            raise RecordError(
                f"the record has schema version {schema}, this program reads {SCHEMA_VERSION}"
            )
        try:
            rows = [_row(row) for row in data["rows"]]
            environment = _made(Environment, data["environment"])
            rest = {k: v for k, v in data.items() if k not in ("rows", "environment")}
            return _made(cls, {**rest, "environment": environment, "rows": rows})
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(f"the record is damaged: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the record as JSON; a file appears whole or not at all. Links are followed, and
        what is no file (a pipe, /dev/null) is written to."""
        given = Path(path)
        text = json.dumps(_finite(self.to_dict()), indent=1, allow_nan=False)
        if given.exists() and not given.is_file():
            given.write_text(text + "\n", encoding="utf-8")
            return
        target = given.resolve()
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """Reads a saved record. Raises OSError, or RecordError with the file's name."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise RecordError(f"{path} is no JSON: {error}") from error
        try:
            return cls.from_dict(data)
        except RecordError as error:
            raise RecordError(f"{path}: {error}") from error


def _row(data: Mapping[str, Any]) -> Row:
    fields = dict(data)
    fields["results"] = [_result(result) for result in data["results"]]
    return _made(Row, fields)


def _result(data: Mapping[str, Any]) -> Result:
    fields = dict(data)
    if fields.get("timing") is not None:
        fields["timing"] = _made(Timing, fields["timing"])
    return _made(Result, fields)


def _made(cls: type[T], fields: Mapping[str, Any]) -> T:
    """A dataclass of these fields; TypeError names one that is not of its type."""
    hints = get_type_hints(cls)
    for name, value in fields.items():
        if name in hints and not _fits(value, hints[name]):
            raise TypeError(f"{name} is {value!r}"[:100])
    return cls(**fields)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type as it stands in the dataclasses above."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is list:
        return isinstance(value, list) and all(_fits(each, arguments[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            _fits(key, arguments[0]) and _fits(each, arguments[1]) for key, each in value.items()
        )
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
