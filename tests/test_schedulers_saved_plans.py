"""Plans in files and as text: saved and read again, and records that were damaged or edited."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from instance_table import matmul_instances

from tk.schedulers import Device, GemmProblem, Plan, plan_gemm

INSTANCES = matmul_instances()
H200 = Device.named("h200")


def plan(m: int, n: int, k: int) -> Plan:
    return plan_gemm(GemmProblem(m, n, k), H200, INSTANCES)


def test_a_plan_is_saved_and_loaded(tmp_path: Path) -> None:
    one, path = plan(4096, 4096, 4096), tmp_path / "plan.json"
    for each in (one, one.replace(splits=2)):
        each.save(path)  # and once more, over the first
        loaded = Plan.load(path)
        assert loaded == each and loaded.text == each.text
        assert list(loaded.alternatives) == list(each.alternatives)
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


def test_a_plan_is_saved_into_a_pipe() -> None:
    one = plan_gemm(GemmProblem(512, 512, 512), H200, INSTANCES, keep=1)
    one = replace(one, alternatives=(), rejected=())  # a pipe takes 64 KiB before it is read
    reader, writer = os.pipe()
    one.save(f"/dev/fd/{writer}")
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as read:
        assert Plan.from_dict(json.loads(read.read())) == one


def test_the_text_of_a_plan_is_its_record() -> None:
    one = plan(512, 4096, 4096)
    record = json.loads(one.text)
    shown = json.loads(json.dumps(one.to_dict()))
    del shown["measured"]
    assert record == {**shown, "alternatives": [], "rejected": []}
    assert Plan.from_dict(record) == one


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no JSON, or was cut off"),
        (b'{"version": 1, "family": "ge', "is no JSON, or was cut off"),
        (b"\xff\xfe", "is no JSON, or was cut off"),
        (b"[" * 100_000, "is no JSON, or was cut off"),
        (b"[1, 2]", "no plan record"),
        (b'{"schema": 1, "rows": []}', "no plan record"),
        (b'{"version": 2}', "has version 2; this library reads 1"),
        (b'{"version": 1}', "lacks 'family'"),
        (b'{"version": 1, "family": "gemm", "problem": 3}', "malformed"),
    ],
)
def test_a_file_that_is_no_plan_gives_one_line_that_names_it(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        Plan.load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_plan_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(OSError, match=str(path)):
            Plan.load(path)
    with pytest.raises(OSError, match="no folder"):
        plan(1, 1, 1).save(tmp_path / "no folder" / "plan.json")


def test_a_plan_is_written_into_what_is_no_file(tmp_path: Path) -> None:
    """Renaming onto it would take a device such as /dev/null away from the whole machine."""
    one = plan(4096, 4096, 4096)
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)
        one.save(path)
        with os.fdopen(reader) as file:
            assert Plan.from_dict(json.load(file)) == one
    assert pipe.is_fifo() and link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("choice", "swapped"), "false"),  # a text that is true
        (("choice", "dynamic"), 0),
        (("choice", "splits_in_cluster"), None),
        (("choice", "splits"), 1.5),
        (("choice", "splits"), "1"),
        (("choice", "grid"), 132.0),
        (("choice", "num_stages"), "4"),
        (("choice", "cluster"), ["2", "1"]),
        (("choice", "cluster"), [1.5, 1]),
        (("choice", "instance", "index"), 1.0),
        (("choice", "instance", "index"), "1"),
        (("choice", "instance", "fixed_bytes"), None),
        (("choice", "instance", "fixed_bytes"), -1),
        (("choice", "instance", "bytes_per_part"), "0"),
        (("choice", "instance", "tile_m"), 128.0),
        (("choice", "instance", "tile_m"), 10**400),
        (("device", "name"), []),
        (("device", "num_sms"), 10**400),
        (("device", "num_sms"), True),
        (("device", "l2_bytes"), 1 << 64),
        (("device", "l2_partitions"), 1 << 31),
        (("device", "power_watts"), "1"),
        (("device", "power_watts"), -1.0),
        (("device", "dram_bandwidth"), float("inf")),
        (("device", "launch_overhead_s"), float("nan")),
        (("device", "overlap_exponent"), 1e-308),
        (("device", "gather_fraction"), 0),
        (("device", "sources"), []),
        (("prediction", "seconds"), 0),
        (("prediction", "seconds"), 10**400),
        (("prediction", "busy"), {}),
        (("prediction", "parts"), []),
        (("measured",), 10**400),
        (("measured",), float("nan")),
        (("version",), True),
        (("alternatives",), ""),
        (("rejected",), {}),
        (("rejected",), [{"what": None, "reason": "x"}]),
        (("device", "power_watts"), 5e-324),
    ],
    ids=str,
)
def test_nothing_of_a_record_edited_by_hand_is_guessed_or_converted(
    path: tuple[str, ...], value: object
) -> None:
    record = json.loads(json.dumps(plan(4096, 4096, 4096).to_dict()))
    inner = record
    for name in path[:-1]:
        inner = inner[name]
    assert path[-1] in inner
    inner[path[-1]] = value
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        Plan.from_dict(record)
