"""Records: what is saved is what is read, and what is no record is refused in words."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_records import make_record, make_row

from tk.benchmarks.record import SCHEMA_VERSION, WRONG, Record, RecordError, Result


def test_a_saved_record_is_read_back_equal(tmp_path: Path) -> None:
    record = make_record([make_row(14e-6, 15e-6)], host_call_seconds={"tk.matmul": 6e-6})
    path = tmp_path / "record.json"
    record.save(path)
    assert Record.load(path) == record
    assert json.loads(path.read_text())["schema"] == SCHEMA_VERSION
    assert list(tmp_path.iterdir()) == [path]


def test_saving_replaces_a_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("something else")
    make_record([]).save(path)
    assert Record.load(path).rows == []


@pytest.mark.parametrize("replaced", [False, True])
def test_an_interruption_of_saving_leaves_a_whole_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    path = tmp_path / "record.json"
    make_record([]).save(path)
    replace_file = os.replace

    def interrupted(source: str, target: Path) -> None:
        if replaced:
            replace_file(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_record([make_row(1e-5, 1e-5)]).save(path)
    assert len(Record.load(path).rows) == int(replaced)
    assert list(tmp_path.iterdir()) == [path]


def test_a_number_that_json_lacks_is_read_back_as_missing(tmp_path: Path) -> None:
    row = make_row(14e-6, 15e-6)
    wrong = Result("tk", WRONG, error=math.inf, reason="3 of 9 elements are NaN")
    record = make_record([replace(row, results=[row.results[0], wrong])])
    record.save(tmp_path / "record.json")
    assert Record.load(tmp_path / "record.json").rows[0].results[1].error is None


def test_the_geometric_mean_is_over_the_rows_that_count() -> None:
    rows = [
        make_row(10e-6, 20e-6),
        make_row(20e-6, 10e-6),
        make_row(10e-6, 1000e-6, in_mean=False),
    ]
    assert make_record(rows).geometric_mean() == pytest.approx(1.0)
    assert make_record(rows[:1]).geometric_mean() == pytest.approx(2.0)
    assert make_record(rows[2:]).geometric_mean() is None


def test_a_wrong_result_has_no_ratio_and_is_listed() -> None:
    row = make_row(10e-6, 20e-6)
    row = replace(row, results=[row.results[0], Result("tk", WRONG, error=0.5, reason="half")])
    record = make_record([row])
    assert row.ratio("tk", "torch") is None
    assert record.geometric_mean() is None
    assert record.wrong_rows() == [row]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", "no JSON"),
        ("[]", "no schema version"),
        ("{}", "no schema version"),
        ('{"schema": 99}', "schema version 99"),
        ('{"schema": 1, "rows": [{}]}', "damaged"),
        ('{"schema": 1, "rows": [], "environment": {"colour": 1}}', "damaged"),
    ],
)
def test_what_is_no_record_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=words) as caught:
        Record.load(path)
    assert str(path) in str(caught.value)


def test_a_record_is_written_through_links_and_into_what_is_no_file(tmp_path: Path) -> None:
    import threading

    record = make_record([make_row(14e-6, 15e-6)])
    link, pipe = tmp_path / "link.json", tmp_path / "pipe"
    link.symlink_to(tmp_path / "real.json")
    record.save(link)
    assert link.is_symlink()
    assert Record.load(tmp_path / "real.json") == record
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    record.save(pipe)
    reader.join()
    assert pipe.is_fifo()
    assert '"suite"' in read[0]
    ends = os.pipe()
    record.save(f"/dev/fd/{ends[1]}")
    os.close(ends[1])
    with os.fdopen(ends[0]) as file:
        assert '"suite"' in file.read()


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda d: d["rows"][0].update(roof_seconds="x"), "roof_seconds is 'x'"),
        (lambda d: d["environment"].update(versions=None), "versions is None"),
        (lambda d: d["rows"][0]["results"][0]["timing"].update(median=None), "median is None"),
        (lambda d: d["rows"][0].update(m=True), "m is True"),
        (lambda d: d.update(host_call_seconds={"tk": []}), "host_call_seconds is"),
    ],
)
def test_a_field_of_another_type_is_damage(damage: Callable[[Any], None], text: str) -> None:
    data = make_record([make_row(14e-6, 15e-6)]).to_dict()
    assert Record.from_dict(data) == make_record([make_row(14e-6, 15e-6)])
    damage(data)
    with pytest.raises(RecordError, match=f"the record is damaged: {text}"):
        Record.from_dict(data)
