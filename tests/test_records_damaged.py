"""Files that are no record, or no whole one: one clear line each, and never another exception."""

from __future__ import annotations

import contextlib
import copy
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from sample_records import make_record, make_row

from tk import cli
from tk.benchmarks.record import (
    FAILED,
    OK,
    PREDICTED,
    SCHEMA_VERSION,
    WRONG,
    Environment,
    Figure,
    Record,
    RecordError,
    Result,
    Row,
    Timing,
)
from tk.reports.chart import PLOTS, chart_of
from tk.reports.compare import compare, render
from tk.reports.export import TEXT_KINDS, export
from tk.reports.show import render as show
from tk.reports.terminal import render as plot

SAMPLE = make_record([make_row(14e-6, 15e-6), make_row(1e-5, 2e-5, k=128)])

# Name, what is in the file (None: there is none; "/": it is a folder), words of the complaint.
KINDS: list[tuple[str, str | bytes | None, str]] = [
    ("missing", None, "No such file"),
    ("folder", "/", "Is a directory"),
    ("empty", "", "it is empty"),
    ("blank", " \n\n", "it is empty"),
    ("words", "not json at all", "no JSON"),
    ("binary", b"\x89PNG\r\n\x1a\n\xff\xfe", "it is not text"),
    ("cut off in a word", json.dumps(SAMPLE.to_dict())[:300], "it is cut off"),
    ("cut off in a list", json.dumps(SAMPLE.to_dict())[:-2], "it is cut off"),
    ("list", "[1, 2]", "a list"),
    ("text", '"a record"', "a text"),
    ("null", "null", "null"),
    ("number", "3", "a number"),
    ("foreign", '{"name": "left-pad", "version": "1.0"}', "no schema version"),
    ("a schema of another kind", '{"schema": "https://json-schema.org"}', "no schema version"),
    ("a schema that is no number", '{"schema": true}', "no schema version"),
    ("measurements", '{"device": "x", "instances": [], "measurements": []}', "tk.schedulers.fit"),
    (
        "newer",
        json.dumps(
            {**SAMPLE.to_dict(), "schema": 99, "environment": {"versions": {"tk": "7.1.0"}}}
        ),
        "schema version 99, this program reads 1 and 2: tk-cute 7.1.0 wrote it, upgrade tk-cute",
    ),
    ("older than any", '{"schema": 0}', "schema version 0, this program reads 1 and 2"),
    ("newer without a writer", '{"schema": 3}', "a newer version wrote it"),
    ("nothing but a schema", '{"schema": 2}', "it lacks 'rows'"),
    ("rows of another kind", '{"schema": 2, "rows": 7}', "rows is 7"),
    ("a row of another kind", '{"schema": 2, "rows": [7]}', "a row is 7"),
    ("NaN", '{"schema": NaN}', "NaN is no number"),
    ("a number out of range", '{"schema": 1e999}', "out of range"),
    ("a number too long", '{"schema": ' + "9" * 5000 + "}", "no JSON that can be read"),
    ("brackets too deep", "[" * 200000, "no JSON"),
]


def written(folder: Path, content: str | bytes | None) -> Path:
    path = folder / "record.json"
    if content == "/":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("action", ["show", "first", "second", "export", "picture", "plot"])
@pytest.mark.parametrize(
    ("content", "words"), [kind[1:] for kind in KINDS], ids=[k[0] for k in KINDS]
)
def test_a_file_that_is_no_record_gets_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    action: str,
    content: str | bytes | None,
    words: str,
) -> None:
    path, good = str(written(tmp_path, content)), str(tmp_path / "good.json")
    SAMPLE.save(good)
    arguments = {
        "show": ["show", path],
        "first": ["compare", path, good],
        "second": ["compare", good, path],
        "export": ["export", path, "--to", "csv"],
        "picture": ["export", path, "-o", str(tmp_path / "picture.png")],
        "plot": ["plot", path],
    }[action]
    assert cli.main(["report", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and words in captured.err and path in captured.err
    assert not (tmp_path / "picture.png").exists()


def test_a_record_of_the_first_version_is_still_read() -> None:
    data = SAMPLE.to_dict()
    for name in ("figures", "planned_rows", "resumed"):
        del data[name]
    del data["environment"]["rivals"]
    data["schema"] = 1
    assert Record.from_dict(data) == SAMPLE
    folder = Path(__file__).resolve().parents[1] / "reports" / "records"
    assert len(Record.load(folder / "2026-12-02-h200-gemm-read.json").rows) == 84


# --- Properties ---

# Among them what a table or a page could read as its own.
WORDS = st.text(max_size=12) | st.sampled_from(["[/x]", "[red]", "<b>", "a|b", "\ud800", "\x1b[2J"])
NUMBERS = st.floats(0, 1e9, allow_nan=False)
SIZES = st.integers(0, 2**40)
TIMINGS = st.builds(Timing, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 500))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
RESULTS = st.builds(
    Result,
    st.sampled_from(["tk", "torch", "plan 1", "model", "triton"]),
    st.sampled_from([OK, WRONG, FAILED, PREDICTED]),
    timing=st.none() | TIMINGS,
    error=st.none() | NUMBERS,
    largest_error=st.none() | NUMBERS,
    plan=st.none() | st.dictionaries(WORDS, JSON, max_size=2),
    plan_text=WORDS,
    reason=WORDS,
)
ROWS = st.builds(
    Row,
    *(SIZES, SIZES, SIZES, WORDS | st.just("nt"), WORDS | st.just("bf16"), NUMBERS, NUMBERS),
    st.none() | NUMBERS,
    st.lists(RESULTS, max_size=4),
    batch=st.integers(1, 5),
    in_mean=st.booleans(),
    group=WORDS,
    sm_clock_mhz=st.none() | NUMBERS,
)
ENVIRONMENTS = st.builds(
    Environment,
    *(WORDS, WORDS, st.sampled_from(["sm90", "host"])),
    num_sms=st.none() | SIZES,
    clocks=st.dictionaries(WORDS, NUMBERS, max_size=3),
    versions=st.dictionaries(WORDS, WORDS, max_size=3),
    rivals=st.dictionaries(WORDS, st.none() | WORDS, max_size=3),
)
RECORDS = st.builds(
    Record,
    st.sampled_from(["gemm", "gemm-tune"]),
    ENVIRONMENTS,
    st.dictionaries(WORDS, JSON, max_size=3),
    st.lists(ROWS, max_size=3),
    predicted_for=WORDS,
    host_call_seconds=st.dictionaries(WORDS, NUMBERS, max_size=2),
    figures=st.lists(st.builds(Figure, WORDS, WORDS, NUMBERS, WORDS), max_size=2),
    planned_rows=st.none() | st.integers(0, 9),
)


def drawn(record: Record, draw: Callable[[Record, Console], Any] = show) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=120, color_system=None)
    console.print(draw(record, console))
    return stream.getvalue()


@given(RECORDS)
def test_what_is_saved_is_what_is_read_and_can_be_drawn(
    tmp_path_factory: pytest.TempPathFactory, record: Record
) -> None:
    path = tmp_path_factory.mktemp("records") / "record.json"
    record.save(path)
    assert Record.load(path) == record
    draw_or_refuse(lambda: record)


@given(st.integers(0, 10**9))
def test_a_record_cut_off_anywhere_is_no_record(
    tmp_path_factory: pytest.TempPathFactory, where: int
) -> None:
    path = tmp_path_factory.mktemp("records") / "record.json"
    SAMPLE.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: where % (len(content.rstrip()))])
    with pytest.raises(RecordError, match=r"cut off|it is empty"):
        Record.load(path)


@given(st.data())
def test_a_record_with_any_byte_changed_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("records") / "record.json"
    SAMPLE.save(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    draw_or_refuse(lambda: Record.load(path))


@given(st.data())
def test_a_record_with_any_part_replaced_is_read_and_drawn_or_refused(data: st.DataObject) -> None:
    changed: Any = copy.deepcopy(replace(SAMPLE, planned_rows=3).to_dict())
    place = changed
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
            break
        place = inner
    if isinstance(place, dict) and data.draw(st.booleans()):
        del place[key]
    else:
        place[key] = data.draw(JSON)
    draw_or_refuse(lambda: Record.from_dict(changed))


def draw_or_refuse(load: Callable[[], Record]) -> None:
    """RecordError is the only exception that loading or drawing may raise."""
    try:
        record = load()
        drawn(record)
        drawn(record, lambda r, console: render(compare(r, SAMPLE), console))
        drawn(record, lambda r, console: render(compare(SAMPLE, r), console))
    except RecordError:
        pass
    else:
        for kind in TEXT_KINDS:
            assert export(record, kind).endswith(b"\n")
        drawn_plots(record)


def drawn_plots(record: Record) -> None:
    with contextlib.suppress(RecordError):
        drawn(record, lambda r, console: plot(chart_of(r), console, PLOTS))


def test_the_schema_written_is_the_newest() -> None:
    assert SAMPLE.to_dict()["schema"] == SCHEMA_VERSION == Record.from_dict(SAMPLE.to_dict()).schema
