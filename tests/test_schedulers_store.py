"""The store of tuned plans: what makes a stored plan valid, files that cannot be used, and many
processes at once, some of which die."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from instance_table import matmul_instances
from plan_store_processes import ENVIRONMENT as SCRIPT_ENVIRONMENT
from rich.console import Console

from tk.schedulers import Device, GemmProblem, Plan, files, plan_gemm, store
from tk.schedulers.files import UNFINISHED, replace_file, sweep
from tk.schedulers.store import Measured, PlanStore, StoreWarning, TuningEnvironment

INSTANCES = matmul_instances()
H200 = Device.named("h200")
PROBLEM = GemmProblem(512, 4096, 4096)
VERSIONS = {"library": "1.0", "driver": "580.65.06", "cuda": "13.0", "torch": "2.9.0"}
HERE = TuningEnvironment.of(H200, INSTANCES, **VERSIONS)
MEASURED = Measured.now(1.0e-4, 1.2e-4, 24)
SCRIPT = Path(__file__).with_name("plan_store_processes.py")


@pytest.fixture(autouse=True)
def nothing_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_warned", set())


@pytest.fixture
def kept(tmp_path: Path) -> PlanStore:
    return PlanStore(tmp_path / "plans")


def model_plan(problem: GemmProblem = PROBLEM, device: Device = H200) -> Plan:
    return plan_gemm(problem, device, INSTANCES)


def tuned_plan() -> Plan:
    """A plan that the model does not choose."""
    plan = model_plan()
    return plan.replace(splits=2 if plan.splits == 1 else 1)


def put(kept: PlanStore, environment: TuningEnvironment = HERE) -> Path:
    path = kept.put(environment, PROBLEM, tuned_plan().choice, MEASURED)
    assert path is not None
    return path


def get(kept: PlanStore, environment: TuningEnvironment = HERE) -> Plan | None:
    return kept.get(environment, PROBLEM, H200, INSTANCES)


def names_under(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*") if path.is_file())


def test_a_stored_winner_is_read_back_with_its_time(kept: PlanStore) -> None:
    assert get(kept) is None
    put(kept)
    found = get(kept)
    assert found is not None
    assert found == tuned_plan() and found.choice != model_plan().choice
    assert found.measured == MEASURED.seconds and "tuned, measured 100.0 us" in str(found)
    console = Console(width=250, file=StringIO())
    console.print(found.explain())
    assert "tuned: the fastest" in console.file.getvalue()  # type: ignore[attr-defined]
    (entry,) = kept.entries()
    assert entry.measured.gain == pytest.approx(1.2)
    assert kept.count(HERE) == 1


def test_the_parts_of_the_key_can_be_read_in_the_file(kept: PlanStore) -> None:
    record = json.loads(put(kept).read_text())
    assert record["environment"] == asdict(HERE)
    assert record["environment"]["driver"] == "580.65.06"
    assert record["problem"] == PROBLEM.to_dict()
    assert record["family"] == "gemm" and record["version"] == store.VERSION
    assert record["measured"]["seconds"] == 1e-4


ENVIRONMENT_CHANGES: dict[str, object] = {
    "library": "1.0.1",
    "instances": "0123456789abcdef",
    "torch": "2.9.1",
    "cuda": "12.8",
    "driver": "590.0",
    "device": "NVIDIA H100 80GB HBM3",
    "num_sms": 131,
    "l2_bytes": 50 << 20,
    "shared_memory_per_block": 200_000,
}


@pytest.mark.parametrize("field", ENVIRONMENT_CHANGES)
def test_a_change_of_the_environment_is_a_miss(kept: PlanStore, field: str) -> None:
    put(kept)
    changed = replace(HERE, **{field: ENVIRONMENT_CHANGES[field]})  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert get(kept, changed) is None
        assert get(kept) == tuned_plan()


def test_every_field_of_the_environment_is_tried() -> None:
    assert set(ENVIRONMENT_CHANGES) == set(asdict(HERE))


@pytest.mark.parametrize(
    "change",
    [
        {"m": 513},
        {"n": 4088},
        {"k": 4104},
        {"batch": 2},
        {"dtype": "fp16"},
        {"a_major": "m"},
        {"b_major": "n"},
        {"loader": "gather"},
        {"out_dtype": "fp32"},
        {"store": "elements"},
    ],
    ids=str,
)
def test_a_change_of_the_problem_is_a_miss(kept: PlanStore, change: dict[str, Any]) -> None:
    put(kept)
    assert kept.get(HERE, replace(PROBLEM, **change), H200, INSTANCES) is None


def test_a_changed_instance_table_is_a_miss(kept: PlanStore) -> None:
    put(kept)
    for table in (
        INSTANCES[:-1],
        INSTANCES[::-1],
        [replace(INSTANCES[0], fixed_bytes=INSTANCES[0].fixed_bytes + 16), *INSTANCES[1:]],
    ):
        environment = TuningEnvironment.of(H200, table, **VERSIONS)
        assert environment.instances != HERE.instances
        assert kept.get(environment, PROBLEM, H200, table) is None


def test_two_devices_in_one_process_have_winners_of_their_own(kept: PlanStore) -> None:
    h100 = Device.named("h100-pcie")
    there = TuningEnvironment.of(h100, INSTANCES, **VERSIONS)
    put(kept)
    assert kept.get(there, PROBLEM, h100, INSTANCES) is None
    other = model_plan(device=h100)
    kept.put(there, PROBLEM, other.choice, MEASURED)
    assert kept.get(there, PROBLEM, h100, INSTANCES) == other
    assert get(kept) == tuned_plan()
    assert (kept.count(HERE), kept.count(there)) == (1, 1)


def test_a_plan_is_never_applied_to_a_table_it_was_not_made_for(kept: PlanStore) -> None:
    """Not even when a file comes to lie where another key's would: here, under the right name."""
    put(kept)
    shifted = [replace(INSTANCES[-1], index=0), *(replace(i, index=i.index + 1) for i in INSTANCES)]
    with pytest.warns(StoreWarning, match="no instance"):
        assert kept.get(HERE, PROBLEM, H200, shifted) is None
    other = replace(HERE, driver="1.2")
    copy = kept.path_of(other, PROBLEM)
    copy.parent.mkdir()
    shutil.copy(kept.path_of(HERE, PROBLEM), copy)
    with pytest.warns(StoreWarning, match=r"it is for driver 580.65.06"):
        assert get(kept, other) is None


def test_a_choice_that_cannot_run_is_a_miss(kept: PlanStore) -> None:
    path = put(kept)
    record = json.loads(path.read_text())
    record["choice"]["splits"] = 10_000
    path.write_text(json.dumps(record))
    with pytest.warns(StoreWarning, match="splits is 10000"):
        assert get(kept) is None


def change_of(name: str, value: object) -> Callable[[str], str]:
    return lambda text: json.dumps({**json.loads(text), name: value})


UNUSABLE: dict[str, tuple[Callable[[str], str | bytes], str]] = {
    "empty": (lambda _: "", "cut off"),
    "truncated": (lambda text: text[: len(text) // 2], "cut off"),
    "no text": (lambda _: b"\xff\xfe\x00", "no text"),
    "foreign": (lambda _: '{"a": 1}', "no tuned plan"),
    "a list": (lambda _: "[]", "no tuned plan"),
    "nested": (lambda _: "[" * 100_000, "nested too deeply|cut off"),
    "long": (lambda _: " " * (2 << 20), "too long"),
    "newer": (change_of("version", 2), "a newer tk wrote it"),
    "another version": (change_of("version", "x"), "format version 'x'"),
    "no choice": (change_of("choice", None), "malformed|NoneType"),
    "a choice of text": (change_of("choice", {"instance": "x"}), "lacks"),
    "an unknown family": (change_of("family", "origami"), "unknown kernel family"),
    "a wrong environment": (change_of("environment", {"device": 3}), "missing"),
    "no measurement": (change_of("measured", {}), "missing"),
    "an index of text": (
        change_of(
            "choice",
            {**tuned_plan().choice.to_dict(), "instance": {**INSTANCES[0].to_dict(), "index": "0"}},
        ),
        "index is '0'",
    ),
    "a moment that is no text": (change_of("measured", {**asdict(MEASURED), "when": 3}), "when"),
    "a time below 0": (change_of("measured", {**asdict(MEASURED), "seconds": -1.0}), "seconds"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_file_that_cannot_be_used_is_ignored_with_one_warning(kept: PlanStore, case: str) -> None:
    change, reason = UNUSABLE[case]
    path = put(kept)
    changed = change(path.read_text())
    path.write_bytes(changed if isinstance(changed, bytes) else changed.encode())
    with pytest.warns(StoreWarning, match=reason) as caught:
        for _ in range(3):
            assert get(kept) is None
            assert list(kept.entries()) == []
    assert len(caught) == 1 and str(path) in str(caught[0].message)
    put(kept)
    assert get(kept) == tuned_plan(), "and the next winner replaces it"


def test_a_missing_folder_is_made_and_clearing_removes_it(kept: PlanStore) -> None:
    assert list(kept.entries()) == [] and kept.count(HERE) == 0 and kept.clear() == 0
    put(kept)
    put(kept, replace(HERE, driver="1.2"))
    assert kept.clear() == 2
    assert not kept.root.exists()


def test_clearing_leaves_what_is_not_ours(kept: PlanStore) -> None:
    note = put(kept).with_name("note.txt")
    note.write_text("mine")
    assert kept.clear() == 1
    assert note.read_text() == "mine"


def test_a_folder_that_is_a_file_is_said_once(kept: PlanStore) -> None:
    kept.root.write_text("in the way")
    with pytest.warns(StoreWarning, match="cannot be kept") as caught:
        for _ in range(5):
            assert get(kept) is None
            assert kept.put(HERE, PROBLEM, tuned_plan().choice, MEASURED) is None
    assert len(caught) == 1 and "TK_CACHE_DIR" in str(caught[0].message)


@pytest.mark.parametrize("function", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_former_winner_and_nothing_else(
    kept: PlanStore, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    path = put(kept)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, function, full)
    with pytest.warns(StoreWarning, match="No space left") as caught:
        for _ in range(3):
            assert kept.put(HERE, PROBLEM, model_plan().choice, MEASURED) is None
    monkeypatch.undo()
    assert len(caught) == 1
    assert get(kept) == tuned_plan()
    assert names_under(kept.root) == [path.name]


def test_files_of_dead_writers_are_swept_and_those_in_the_making_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = tmp_path / f".plan.json.0{UNFINISHED}"
    dead.write_text("half a pl")
    seen = []

    def sweep_and_replace(source: str, target: str) -> None:
        seen.append((sweep(tmp_path), os.path.exists(source)))
        os.rename(source, target)

    monkeypatch.setattr(files.os, "replace", sweep_and_replace)
    replace_file(tmp_path / "plan.json", "whole")
    assert seen == [(1, True)]
    assert names_under(tmp_path) == ["plan.json"]


def test_a_file_swept_before_its_writer_could_lock_it_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = files._lock, []

    def late(handle: int, how: int) -> bool:
        if not calls:
            calls.append(handle)
            assert sweep(tmp_path) == 1
        return real(handle, how)

    def sweeping(handle: int, how: int) -> bool:
        return late(handle, how)

    monkeypatch.setattr(files, "_lock", sweeping)
    replace_file(tmp_path / "plan.json", "whole")
    assert (tmp_path / "plan.json").read_text() == "whole"
    assert names_under(tmp_path) == ["plan.json"]


@pytest.fixture
def full_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk with no byte free, where one may be mounted."""
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=777", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode
    except OSError:
        done = 1
    if done != 0:
        pytest.skip("no file system can be mounted")
    try:
        with pytest.raises(OSError), (folder / "filling").open("wb", buffering=0) as file:
            while file.write(b"x" * 512):
                pass
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def eight_processes(root: Path, trouble: str, seed: int) -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPT), str(root), trouble, str(seed)],
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def put_by_script(kept: PlanStore) -> Path | None:
    """One more winner in the processes' environment: what the killed one left is swept then."""
    return kept.put(SCRIPT_ENVIRONMENT, PROBLEM, tuned_plan().choice, MEASURED)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("exists", [True, False])
def test_eight_processes_on_an_empty_cache_of_which_one_is_killed(
    tmp_path: Path, seed: int, exists: bool
) -> None:
    """deepseek-ai/DeepGEMM #301: files were read half-written, and went missing."""
    root = tmp_path / "a" / "plans"
    if exists:
        root.mkdir(parents=True)
    eight_processes(root, "", seed)
    kept = PlanStore(root)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = list(kept.entries())
    assert len(found) in (8, 9), "each has stored its own, but the killed one maybe"
    put_by_script(kept)
    assert all(name.endswith(".json") for name in names_under(root))


def test_eight_processes_that_may_not_write_say_so_once_each() -> None:
    folder = Path(tempfile.mkdtemp())  # which another user may enter
    try:
        folder.chmod(0o555)
        eight_processes(folder / "plans", "read-only", 2)
        assert not any(folder.iterdir())
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_eight_processes_whose_writes_end_midway_say_so_once_each(tmp_path: Path) -> None:
    eight_processes(tmp_path / "plans", "limited", 3)
    path = put_by_script(PlanStore(tmp_path / "plans"))
    assert path is not None and names_under(tmp_path) == [path.name]


def test_eight_processes_on_a_full_disk_say_so_once_each(full_folder: Path) -> None:
    eight_processes(full_folder / "plans", "full", 4)
    with pytest.warns(StoreWarning, match="No space left"):
        assert put_by_script(PlanStore(full_folder / "plans")) is None
    assert names_under(full_folder) == ["filling"]
