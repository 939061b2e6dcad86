"""Pipeline depth against numbers worked out by hand, and devices as records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tk.schedulers import Device, Instance, num_stages_for, pipeline_for
from tk.schedulers.gemm_tiles import stage_seconds
from tk.schedulers.pipeline import stages_that_fit, stages_that_hide


def instance(tile_m: int, tile_n: int, tile_k: int, consumers: int, **changes: object) -> Instance:
    made = Instance(
        index=0,
        name=f"{tile_m}x{tile_n}x{tile_k}",
        dtype="bf16",
        a_major="k",
        b_major="k",
        loader="tma",
        tile_m=tile_m,
        tile_n=tile_n,
        tile_k=tile_k,
        consumer_warpgroups=consumers,
        bytes_per_stage=(tile_m + tile_n) * tile_k * 2,
        fixed_bytes=consumers * 16384 + 2048,
        max_stages=16,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tile", "stages"),
    [
        # (232448 - 34816) / 49152 = 4.02; 57344: 3.4; 32768: 6.03
        ((128, 256, 64, 2), 4),
        ((256, 192, 64, 2), 3),
        ((128, 128, 64, 2), 6),
        # one consumer: (232448 - 18432) / 40960 = 5.2; 49152: 4.4
        ((64, 256, 64, 1), 5),
        ((64, 128, 128, 1), 4),
    ],
)
def test_depth_is_what_shared_memory_holds(tile: tuple[int, int, int, int], stages: int) -> None:
    assert num_stages_for(instance(*tile), Device.named("h200")) == stages


def test_depth_stops_at_the_instance_limit() -> None:
    limited = instance(64, 64, 64, 1, max_stages=8)
    device = Device.named("h200")
    assert stages_that_fit(limited, device) == 13  # (232448 - 18432) / 16384 = 13.06
    assert num_stages_for(limited, device) == 8
    assert pipeline_for(limited, device, 1e-9).binds == "instance"


def test_depth_that_hides_latency_is_littles_law() -> None:
    assert stages_that_hide(1.0e-6, 0.6e-6) == 3  # two in flight cover 1 us; one is computed on
    assert stages_that_hide(1.2e-6, 0.6e-6) == 3
    assert stages_that_hide(1.3e-6, 0.6e-6) == 4


def test_a_pipeline_says_what_binds() -> None:
    device = Device.named("h200")
    large = instance(128, 256, 64, 2)
    slow = pipeline_for(large, device, device.load_latency_s)
    assert (slow.num_stages, slow.hides_latency, slow.binds) == (4, 2, "latency hidden")
    fast = pipeline_for(large, device, device.load_latency_s / 10)
    assert (fast.num_stages, fast.hides_latency, fast.binds) == (4, 11, "shared memory")
    assert fast.bytes_in_flight == 4 * 49152
    assert fast.shared_memory == 4 * 49152 + 34816 <= device.shared_memory_per_block
    assert "4 stages of 48 KiB" in str(fast)


def test_a_tile_too_large_for_shared_memory_is_named() -> None:
    huge = instance(512, 512, 256, 2)
    with pytest.raises(ValueError, match=r"512x512x256: 2 stages of 524288 bytes .* 232448 bytes"):
        num_stages_for(huge, Device.named("h200"))


def test_a_stage_takes_no_less_than_the_tensor_cores_need() -> None:
    device = Device.named("h200")
    for tile in ((128, 256, 64, 2), (256, 192, 64, 2), (128, 128, 64, 2), (64, 128, 128, 1)):
        flops = 2 * tile[0] * tile[1] * tile[2]
        assert stage_seconds(instance(*tile), device) >= flops * 132 / device.flops("bf16")


def test_every_catalogue_device_has_sources_and_survives_json() -> None:
    assert {"h100-sxm", "h100-pcie", "h200", "h800", "gh200", "host"} <= set(Device.names())
    for name in Device.names():
        device = Device.named(name)
        assert device.name == name
        assert device.sources
        assert Device.from_dict(json.loads(json.dumps(device.to_dict()))) == device
        hash(device)


def test_known_figures() -> None:
    h200, pcie = Device.named("H200"), Device.named("h100_pcie")
    assert (h200.num_sms, h200.shared_memory_per_block, h200.l2_bytes) == (132, 232448, 62914560)
    assert (pcie.num_sms, pcie.l2_bytes) == (114, 52428800)
    assert pcie.flops("bf16") < h200.flops("bf16") < 132 * 4096 * h200.clock_hz
    assert pcie.dram_bandwidth < h200.dram_bandwidth < 4.8e12


@pytest.mark.parametrize(
    ("reported", "like"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H800", "h800"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("Some later card", "h100-sxm"),
    ],
)
def test_a_reported_device_takes_the_rates_of_its_kind(reported: str, like: str) -> None:
    known = Device.named(like)
    device = Device.from_properties(
        name=reported,
        num_sms=known.num_sms,
        shared_memory_per_block=known.shared_memory_per_block,
        l2_bytes=known.l2_bytes,
        clock_hz=known.clock_hz,
    )
    assert device.name == reported
    assert replace(device, name=like) == known


def test_a_slice_of_a_device_has_its_share_of_the_rates() -> None:
    whole = Device.named("h200")
    part = Device.from_properties(
        name="NVIDIA H200 MIG 1g.18gb",
        num_sms=16,
        shared_memory_per_block=232448,
        l2_bytes=whole.l2_bytes // 8,
    )
    assert part.num_sms == 16
    assert part.flops("bf16") == pytest.approx(whole.flops("bf16") * 16 / 132)
    assert part.dram_bandwidth == pytest.approx(whole.dram_bandwidth * 16 / 132)
    assert part.sm_bandwidth == whole.sm_bandwidth


def test_wrong_devices_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="unknown device 'b200'; known: h200"):
        Device.named("b200")
    with pytest.raises(ValueError, match="no rate for dtype 'fp64'"):
        Device.named("h200").flops("fp64")
    with pytest.raises(ValueError, match="num_sms is 0"):
        replace(Device.named("h200"), num_sms=0)
    with pytest.raises(ValueError, match="dram_bandwidth is -1"):
        replace(Device.named("h200"), dram_bandwidth=-1)
    with pytest.raises(ValueError, match="unknown fields: warp_speed"):
        Device.from_dict({**Device.named("h200").to_dict(), "warp_speed": 9})
    with pytest.raises(ValueError, match="tile_m is 0"):
        instance(0, 128, 64, 1)
    with pytest.raises(ValueError, match="lacks: index"):
        Instance.from_dict({"name": "x"})
