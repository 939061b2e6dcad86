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
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from tk.schedulers.files import replace_file

T = TypeVar("T")

SCHEMA_VERSION = 2
READABLE_VERSIONS = (1, 2)  # 1 lacked rivals, figures, planned_rows and resumed

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
        if mine.timing.median <= 0 or theirs.timing.median <= 0:
            return None  # no time that a clock gives
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
    rivals: dict[str, str | None] = field(default_factory=dict)  # versions; None: not installed


@dataclass(frozen=True)
class Figure:
    """A number that is no time of a product: one cell of an experiment."""

    experiment: str
    name: str
    value: float
    unit: str
    source: str = ""  # how it was got: "counted on the host", "the model's bytes"


@dataclass(frozen=True)
class Record:
    """A whole run of one suite."""

    suite: str  # "gemm", "gemm-tune", "paper"
    environment: Environment
    settings: dict[str, Any]
    rows: list[Row]
    predicted_for: str = ""  # the device that PREDICTED results are for
    host_call_seconds: dict[str, float] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    planned_rows: int | None = None  # how many were to be measured, where a run can be resumed
    resumed: list[str] = field(default_factory=list)  # when, ISO 8601, after an interruption
    schema: int = SCHEMA_VERSION

    @property
    def missing_rows(self) -> int:
        """How many rows an interrupted run left unmeasured."""
        measured = sum(
            1 for row in self.rows if any(result.status != PREDICTED for result in row.results)
        )
        return 0 if self.planned_rows is None else max(self.planned_rows - measured, 0)

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
        schema = _schema_of(data)
        if schema not in READABLE_VERSIONS:
            newer = schema > SCHEMA_VERSION
            advice = f": {_writer(data)} wrote it, upgrade tk-cute" if newer else ""
            raise RecordError(
                f"the record has schema version {schema}, this program reads "
                f"{' and '.join(map(str, READABLE_VERSIONS))}{advice}"
            )
        try:
            made = {
                "rows": [_row(row) for row in _listed(data, "rows")],
                "figures": [_made(Figure, figure) for figure in data.get("figures", [])],
                "environment": _made(Environment, data["environment"]),
                "schema": SCHEMA_VERSION,
            }
            return _made(cls, {**data, **made})
        except KeyError as error:
            raise RecordError(f"the record is damaged: it lacks {error}") from error
        except (TypeError, AttributeError, ValueError, RecursionError) as error:
            raise RecordError(f"the record is damaged: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the record as JSON; a file appears whole or not at all. Links are followed, and
        what is no file (a pipe, /dev/null) is written to."""
        text = json.dumps(_finite(self.to_dict()), indent=1, allow_nan=False)
        replace_file(Path(path), text + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """Reads a saved record. Raises OSError, or RecordError with the file's name."""
        data = _read_json(path)
        try:
            return cls.from_dict(data)
        except RecordError as error:
            raise RecordError(f"{path}: {error}") from error


def _read_json(path: str | os.PathLike[str]) -> Any:
    """The JSON of a file; RecordError says what is wrong with one that has none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"{path} is no JSON: it is not text ({error.reason})") from error
    if not text.strip():
        raise RecordError(f"{path} is no JSON: it is empty")
    try:
        return json.loads(text, parse_float=_finite_float, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        # Cut off: the fault is in the last word, or a string that never ends.
        last_word = re.fullmatch(r"[^\s\"{}\[\],:]{0,6}", text[error.pos :].rstrip())
        if (last_word or error.msg.startswith("Unterminated string")) and text.lstrip()[0] in "{[":
            lines = text.count("\n") + 1
            raise RecordError(
                f"{path} is no JSON: it is cut off in line {lines} ({len(text)} characters)"
            ) from error
        raise RecordError(f"{path} is no JSON: {error}") from error
    except (ValueError, RecursionError) as error:  # a number too long, brackets too deep
        raise RecordError(f"{path} is no JSON that can be read: {error}") from error


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is out of range")
    return value


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _schema_of(data: Any) -> int:
    """The schema version; RecordError says what the data are when they are no record."""
    if not isinstance(data, Mapping):
        kind = {list: "a list", str: "a text", type(None): "null"}.get(type(data), "a number")
        raise RecordError(f"not a record of tk bench: {kind}, and so no schema version")
    schema = data.get("schema")
    if isinstance(schema, int) and not isinstance(schema, bool):
        return schema
    if isinstance(data.get("measurements"), list) and "instances" in data:
        raise RecordError(
            "not a record of tk bench, but measurements of tk tune --measurements, which "
            "tk.schedulers.fit reads (no schema version)"
        )
    raise RecordError("not a record of tk bench: it has no schema version")


def _writer(data: Mapping[str, Any]) -> str:
    """What wrote a record that cannot be read, as far as it can be told."""
    environment = data.get("environment")
    versions = environment.get("versions") if isinstance(environment, Mapping) else None
    version = versions.get("tk") if isinstance(versions, Mapping) else None
    return f"tk-cute {version[:20]}" if isinstance(version, str) else "a newer version"


def _listed(data: Mapping[str, Any], name: str) -> list[Any]:
    value = data[name]
    if not isinstance(value, list):
        raise TypeError(f"{name} is {value!r}"[:100])
    return value


def _row(data: Mapping[str, Any]) -> Row:
    fields = _fields_of(data, "a row")
    fields["results"] = [_result(result) for result in _listed(data, "results")]
    return _made(Row, fields)


def _result(data: Mapping[str, Any]) -> Result:
    fields = _fields_of(data, "a result")
    if fields.get("timing") is not None:
        timing = fields["timing"] = _made(Timing, fields["timing"])
        if min(timing.median, timing.q1, timing.q3) < 0:
            raise ValueError(f"a time is negative: {timing}")
    return _made(Result, fields)


def _fields_of(data: Any, what: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise TypeError(f"{what} is {data!r}"[:100])
    return dict(data)


def _made(cls: type[T], data: Any) -> T:
    """A dataclass of these fields; TypeError names one that is unknown or not of its type."""
    hints = get_type_hints(cls)
    values = _fields_of(data, cls.__name__.lower())
    for name, value in values.items():
        if name not in hints:
            raise TypeError(f"{cls.__name__.lower()} has an unknown field {name!r}"[:100])
        if not _fits(value, hints[name]):
            raise TypeError(f"{name} is {value!r}"[:100])
    for each in dataclasses.fields(cls):  # type: ignore[arg-type]
        no_default = each.default is MISSING and each.default_factory is MISSING
        if no_default and each.name not in values:
            raise TypeError(f"{cls.__name__.lower()} lacks {each.name!r}")
    return cls(**values)


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
        return isinstance(value, float) or (_is_whole(value) and abs(value) < 2**1000)
    return _is_whole(value) if hint is int else isinstance(value, hint)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
