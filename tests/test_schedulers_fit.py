"""The model against measurements: ratios, regret, and constants fitted to timings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from instance_table import matmul_instances

from tk.schedulers import Device, GemmProblem, plan_gemm
from tk.schedulers.fit import Measurement, check_fit, fit_constants, load_measurements, predict

INSTANCES = matmul_instances()
H200 = Device.named("h200")
SHAPES = ((4096, 4096, 4096), (4096, 4096, 128), (16, 4096, 14336), (512, 4096, 4096))


def measurements(truth: Device) -> list[Measurement]:
    """What a device with those constants would measure, for some candidates of each shape."""
    made = []
    for shape in SHAPES:
        problem = GemmProblem(*shape)
        plan = plan_gemm(problem, H200, INSTANCES)
        for choice in (plan.choice, *(candidate.choice for candidate in plan.alternatives)):
            blank = Measurement(problem, choice, 1.0)
            predicted = predict(blank, truth)
            read = predicted.bytes["a"] + predicted.bytes["b"]
            made.append(replace(blank, seconds=predicted.seconds, dram_read_bytes=read))
    return made


def test_a_perfect_model_has_no_error_and_no_regret() -> None:
    fit = check_fit(measurements(H200), H200)
    assert fit.mean_ratio == pytest.approx(1)
    assert fit.spread == pytest.approx(1)
    assert fit.worst_regret == 1
    assert set(fit.byte_ratios) == {1.0}
    assert len(fit.regrets) == len(SHAPES)
    assert "predicted/measured 1.000" in str(fit)


def test_regret_is_the_price_of_the_models_first_choice() -> None:
    first, *_, last = sorted(measurements(H200)[:8], key=lambda one: one.seconds)
    slow_first = [replace(first, seconds=1.5 * last.seconds), last]
    assert check_fit(slow_first, H200).worst_regret == pytest.approx(1.5)
    assert check_fit([first, last], H200).worst_regret == 1


def test_fitted_constants_agree_better() -> None:
    truth = replace(H200, epilogue_overhead_s=1.2e-6, fill_s=3e-6, l2_bandwidth=6e12)
    made = measurements(truth)
    fitted = fit_constants(made, H200, ("epilogue_overhead_s", "fill_s", "l2_bandwidth"), rounds=2)
    before, after = check_fit(made, H200), check_fit(made, fitted)
    assert abs(after.mean_ratio - 1) < abs(before.mean_ratio - 1)
    assert after.spread < before.spread
    assert fitted.l2_bandwidth < H200.l2_bandwidth
    assert fitted.fill_s > H200.fill_s


def record() -> dict[str, object]:
    return {
        "instances": [instance.to_dict() for instance in INSTANCES],
        "measurements": [
            {
                "m": 4096,
                "n": 4096,
                "k": 4096,
                "instance": "bf16_kk_tma_128x256x64",
                "num_stages": 4,
                "cluster": [2, 1],
                "order": "grouped_m",
                "order_param": 4,
                "splits": 1,
                "grid": 132,
                "seconds": 1.8e-4,
            }
        ],
    }


def test_measurements_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    path.write_text(json.dumps(record()))
    (one,) = load_measurements(path)
    assert one.problem == GemmProblem(4096, 4096, 4096)
    assert one.choice.instance.tile_n == 256
    assert check_fit([one], H200).mean_ratio == pytest.approx(1, rel=0.2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "measured.json"),
        ("{}", "lacks 'instances'"),
        ('{"instances": [], "measurements": [{"m": 1}]}', "lacks"),
        ('{"instances": [{"name": "x"}], "measurements": []}', "instance record lacks"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "measured.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_measurements(path)
    with pytest.raises(ValueError, match="no measurements"):
        check_fit([], H200)
