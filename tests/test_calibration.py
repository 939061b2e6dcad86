"""Calibration: constants fitted to measurements, their file, and the command."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import instance_table
import pytest
import torch

from tk import cli_calibrate, runtime
from tk.cli import main
from tk.schedulers import Device, Order
from tk.schedulers.calibration import (
    Calibration,
    calibrated,
    calibration_file,
    load_calibration,
)
from tk.schedulers.fit import FITTED, Measurement, check_fit, predict
from tk.schedulers.gemm import plan_gemm
from tk.schedulers.problem import GemmProblem
from tk.schedulers.store import StoreWarning

H200 = Device.named("h200")
VERSION = "1.2.3"


def calibration_of(device: Device, **changes: Any) -> Calibration:
    fields = {"library": VERSION, "when": "2026-01-01T00:00:00+00:00", "spread": 1.1}
    return Calibration.of(device, **{**fields, "regret": 1.02, "problems": 3, **changes})


def test_a_kept_calibration_changes_the_fitted_constants_alone(tmp_path: Path) -> None:
    fitted = replace(H200, fill_s=3e-6, l2_bandwidth=1e13, num_sms=H200.num_sms)
    calibration_of(fitted).save(calibration_file(tmp_path, H200))
    found = calibrated(H200, tmp_path, VERSION)
    assert (found.fill_s, found.l2_bandwidth) == (3e-6, 1e13)
    changed = {name for name in vars(found) if getattr(found, name) != getattr(H200, name)}
    assert changed == {"fill_s", "l2_bandwidth", "sources"}
    assert found.sources["others"].startswith("[calibrated]")
    assert changed - {"sources"} <= set(FITTED)


def test_without_a_file_the_device_is_as_it_was(tmp_path: Path) -> None:
    assert calibrated(H200, tmp_path / "not there", VERSION) is H200


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[: len(text) // 2], "no JSON, or was cut off"),
        (lambda text: "[]", "no calibration"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "a newer tk wrote it"),
        (lambda text: text.replace(VERSION, "0.0.1"), "version 0.0.1 of the library made it"),
        (lambda text: text.replace('"num_sms": 132', '"num_sms": 114'), "whose num_sms is 114"),
        (lambda text: text.replace('"fill_s"', '"fills"'), "constants: fill_s, fills"),
        (lambda text: text.replace('"fill_s": ', '"fill_s": -'), "its fill_s is -"),
        (lambda text: text.replace('"fill_s": ', '"fill_s": NaN, "x": '), "constants: x"),
        (lambda text: text.replace('"when"', '"then"'), "malformed"),
        (lambda text: "\xff", "no JSON"),
        (lambda text: " " * (2 << 20), "too long"),
    ],
)
def test_a_file_that_is_of_no_use_is_ignored_with_one_warning(
    tmp_path: Path, damage: Any, reason: str
) -> None:
    path = calibration_file(tmp_path, H200)
    calibration_of(H200).save(path)
    path.write_text(damage(path.read_text()), encoding="latin-1")
    with pytest.warns(StoreWarning, match=reason) as caught:
        assert calibrated(H200, tmp_path, VERSION) is H200
    assert str(path) in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert calibrated(H200, tmp_path, VERSION) is H200


def test_two_devices_have_two_files(tmp_path: Path) -> None:
    slice_ = Device.from_properties(
        name="h200", num_sms=16, shared_memory_per_block=232448, l2_bytes=8 << 20
    )
    assert calibration_file(tmp_path, slice_) != calibration_file(tmp_path, H200)


def sample_measurements(truth: Device) -> list[Measurement]:
    """What a device with these constants would measure of some plans."""
    instances = instance_table.matmul_instances()
    found = []
    for m, n, k in ((4096, 4096, 4096), (16, 4096, 4096), (512, 4096, 4096), (8192, 8192, 512)):
        problem = GemmProblem(m, n, k)
        plan = plan_gemm(problem, H200, instances)
        for choice in [plan.choice, *(each.choice for each in plan.alternatives)]:
            drawn = Measurement(problem, choice, 1.0)
            found.append(replace(drawn, seconds=predict(drawn, truth).seconds))
    return found


def misses(measured: list[Measurement], device: Device) -> float:
    """How far predictions are from the times, on average, as the logarithm of a factor."""
    return sum(abs(log(r)) for r in check_fit(measured, device).ratios) / len(measured)


def write_measurements(path: Path, measured: list[Measurement]) -> None:
    instances = {m.choice.instance.name: m.choice.instance.to_dict() for m in measured}
    entries = []
    for m in measured:
        choice = m.choice.to_dict()
        order: Order = m.choice.order
        entries.append(
            {
                **m.problem.to_dict(),
                **choice,
                "instance": m.choice.instance.name,
                "order": order.kind,
                "order_param": order.param,
                "seconds": m.seconds,
            }
        )
    record = {"device": "x", "instances": list(instances.values()), "measurements": entries}
    path.write_text(json.dumps(record))


def test_the_command_fits_to_a_file_and_keeps_nothing_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path / "cache"))
    truth = replace(H200, launch_overhead_s=2 * H200.launch_overhead_s)
    measurements, out = tmp_path / "m.json", tmp_path / "device.json"
    measured = sample_measurements(truth)
    write_measurements(measurements, measured)
    arguments = ["--measurements", str(measurements), "--device", "h200", "--json", str(out)]
    assert main(["calibrate", *arguments, "--rounds", "2"]) == 0
    printed = capsys.readouterr().out
    assert "launch_overhead_s" in printed
    assert printed.index("as it was: ") < printed.index("fitted: ")
    fitted = Device.from_dict(json.loads(out.read_text()))
    assert misses(measured, fitted) < 0.5 * misses(measured, H200)
    assert not (tmp_path / "cache").exists()


def test_what_is_measured_on_a_gpu_is_kept_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TK_CACHE_DIR", str(tmp_path))
    truth = replace(H200, launch_overhead_s=2 * H200.launch_overhead_s)
    measured = sample_measurements(truth)
    cuda = torch.device("cuda", 0)
    properties = SimpleNamespace(
        major=9,
        minor=0,
        name="h200",
        multi_processor_count=H200.num_sms,
        shared_memory_per_block_optin=H200.shared_memory_per_block,
        L2_cache_size=H200.l2_bytes,
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda where: properties)
    monkeypatch.setattr(cli_calibrate, "measuring_device", lambda name, console: cuda)
    monkeypatch.setattr(cli_calibrate, "_measurements", lambda *arguments: measured)
    before = runtime.device(cuda)
    assert main(["calibrate", "--no-store", "--rounds", "1"]) == 0
    assert runtime.device(cuda) == before
    assert main(["calibrate", "--rounds", "2"]) == 0
    assert "kept in" in "".join(capsys.readouterr().out)
    after = runtime.device(cuda)
    assert misses(measured, after) < 0.5 * misses(measured, before)
    assert runtime.device(cuda, calibrated=False) == before
    kept = load_calibration(calibration_file(tmp_path / "devices", after))
    assert (kept.problems, kept.library) == (4, runtime.library_version())
    assert main(["calibrate", "--rounds", "1"]) == 0, "again, from the catalogue's constants"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--device", "h200"], 2, "a device that is not here needs measurements"),
        (["--measurements", "no.json", "--device", "h200"], 1, "no.json: No such file"),
        (["--measurements", "no.json", "--device", "h20"], 2, "unknown device 'h20'"),
        (["--rounds", "0"], 2, "no whole number above 0"),
        (["--json", "no/such/file"], 2, "cannot write no/such/file"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    arguments: list[str],
    code: int,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["calibrate", *arguments]) == code
    said = capsys.readouterr().err
    assert text in said
    assert said.count("\n") == 1
