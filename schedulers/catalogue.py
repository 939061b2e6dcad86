"""The known devices, each figure with its source.

Sources: [H100] NVIDIA H100 Tensor Core GPU Architecture white paper (2022) and data sheet; [H200]
NVIDIA H200 data sheet; [GH200] NVIDIA GH200 data sheet; [props] what the CUDA driver reports;
[fit] fitted to, or measured in, timings of this library's kernels on an H200 (700 W); [scaled] the
H200's fit, scaled by multiprocessors, clock, memory bandwidth or power limit.
"""

from __future__ import annotations

from tk.schedulers.device import Device, scaled

_MIB = 1 << 20
_HOPPER_BLOCK = 232448  # bytes; CUDA C++ Programming Guide, compute capability 9.0: 227 KiB

H200 = Device(
    name="h200",
    num_sms=132,
    shared_memory_per_block=_HOPPER_BLOCK,
    l2_bytes=60 * _MIB,
    clock_hz=1.98e9,
    max_cluster=8,
    l2_partitions=2,
    large_cluster_share=120 / 132,
    peak_flops={"bf16": 1010e12, "fp16": 1010e12},
    dram_bandwidth=4.26e12,
    l2_bandwidth=1.56e13,
    padding_bandwidth=2.38e12,
    sm_bandwidth=1.07e11,
    shared_bandwidth=300e9,
    store_bandwidth=6.28e10,
    element_store_bandwidth=3.71e9,
    partial_bandwidth=3.3e10,
    cluster_partial_bandwidth=4.39e10,
    power_watts=580.0,
    joules_per_flop=7.13e-13,
    joules_per_l2_byte=9.53e-12,
    joules_per_dram_byte=5.12e-11,
    power_exponent=0.95,
    power_ramp_s=376e-6,
    launch_overhead_s=4.3e-6,
    cluster_overhead_s=1e-8,
    fill_s=2.1e-6,
    load_latency_s=5.1e-7,
    memory_latency_s=5.4e-7,
    stage_overhead_s=1.1e-7,
    epilogue_overhead_s=2.75e-8,
    split_overhead_s=1.81e-6,
    cluster_split_overhead_s=4.12e-7,
    l2_usable=0.8,
    wave_drift=0.04,
    memory_unevenness=0.02,
    gather_fraction=0.2,
    overlap_exponent=3.0,
    tile_factors={
        "256x192x64": 1.141,
        "128x64x128": 1.003,
        "256x128x64": 1.025,
        "128x128x64": 0.96,
    },
    sources={
        "num_sms": "[H200], [props]",
        "shared_memory_per_block": "CUDA C++ Programming Guide, compute capability 9.0",
        "l2_bytes": "[props]",
        "l2_partitions": "[H100] figure of the full chip; hit rates counted on an H200 need two",
        "large_cluster_share": "[props] clusters of four at once, cudaOccupancyMaxActiveClusters",
        "clock_hz": "[props] highest SM clock",
        "peak_flops": "[fit] at the highest clock; 4096 FLOP a clock and SM are 1070e12",
        "dram_bandwidth": "[fit] copy, 89% of the data sheet's 4.8e12",
        "power_watts": "[fit] 700 W of the data sheet less what an idle chip and memory draw",
        "others": "[fit]",
    },
)


def _hopper(
    name: str,
    *,
    num_sms: int = 132,
    l2_mib: int = 50,
    clock_hz: float = 1.98e9,
    data_sheet_bandwidth: float,
    power_limit_watts: float = 700.0,
    sources: dict[str, str],
) -> Device:
    """An H200 with the data-sheet figures of another Hopper card."""
    reached = H200.dram_bandwidth / 4.8e12
    return scaled(
        H200,
        name=name,
        num_sms=num_sms,
        l2_bytes=l2_mib * _MIB,
        clock_hz=clock_hz,
        dram_bandwidth=reached * data_sheet_bandwidth,
        power_watts=power_limit_watts - (700.0 - H200.power_watts),
        sources={**sources, "others": "[scaled]"},
    )


H100_SXM = _hopper(
    "h100-sxm",
    data_sheet_bandwidth=3.35e12,
    sources={
        "num_sms": "[H100]",
        "l2_bytes": "[H100] 50 MB",
        "clock_hz": "[props] highest SM clock",
        "dram_bandwidth": "[H100] 3.35e12, and the H200's 89% of it",
        "power_watts": "[H100] 700 W",
    },
)

H100_PCIE = _hopper(
    "h100-pcie",
    num_sms=114,
    clock_hz=1.755e9,
    data_sheet_bandwidth=2.0e12,
    power_limit_watts=350.0,
    sources={
        "num_sms": "[H100]",
        "l2_bytes": "[H100] 50 MB",
        "clock_hz": "[H100] boost clock",
        "dram_bandwidth": "[H100] 2.0e12, and the H200's 89% of it",
        "power_watts": "[H100] 300-350 W",
    },
)

H800 = _hopper(
    "h800",
    data_sheet_bandwidth=3.35e12,
    sources={
        "num_sms": "H800 SXM data sheet: an H100 SXM with less NVLink and FP64",
        "l2_bytes": "as H100 SXM",
        "clock_hz": "as H100 SXM",
        "dram_bandwidth": "as H100 SXM",
        "power_watts": "as H100 SXM",
    },
)

GH200 = _hopper(
    "gh200",
    l2_mib=60,
    data_sheet_bandwidth=4.0e12,
    sources={
        "num_sms": "[GH200]",
        "l2_bytes": "[props], as H200",
        "clock_hz": "[props] highest SM clock",
        "dram_bandwidth": "[GH200] 4.0e12 with 96 GB of HBM3 (4.9e12 with HBM3e), and 89% of it",
        "power_watts": "700 W of the module's 450-1000 W, shared with its CPU",
    },
)

HOST = Device(
    # The host architecture on a CPU: it executes every padded element one by one, so its plan is
    # the one with the least work. A few blocks run at a time; two clusters at least.
    name="host",
    num_sms=4,
    shared_memory_per_block=_HOPPER_BLOCK,
    l2_bytes=32 * _MIB,
    clock_hz=3e9,
    max_cluster=8,
    peak_flops={"bf16": 2e9, "fp16": 2e9},
    dram_bandwidth=1e10,
    l2_bandwidth=1e10,
    padding_bandwidth=1e10,
    sm_bandwidth=2.5e9,
    shared_bandwidth=1e10,
    store_bandwidth=1.25e8,
    element_store_bandwidth=1.25e8,
    partial_bandwidth=1.25e8,
    cluster_partial_bandwidth=1.25e8,
    launch_overhead_s=200e-6,
    cluster_overhead_s=200e-6,
    load_latency_s=20e-6,
    stage_overhead_s=20e-6,
    epilogue_overhead_s=50e-6,
    split_overhead_s=50e-6,
    cluster_split_overhead_s=250e-6,
    gather_fraction=0.5,
    sources={
        "shared_memory_per_block": "Hopper's, so that the same plans are legal",
        "others": "orders of magnitude; a plan for the host is about work, not about time",
    },
)

CATALOGUE: dict[str, Device] = {
    device.name: device for device in (H200, H100_SXM, H100_PCIE, H800, GH200, HOST)
}


def nearest(name: str) -> Device:
    """The catalogue's device for a driver's name such as "NVIDIA H100 PCIe"; else H100 SXM."""
    upper = name.upper()
    if "GH200" in upper:
        return GH200
    if "H200" in upper:
        return H200
    if "H800" in upper:
        return H800
    if "H100" in upper and "PCIE" in upper:
        return H100_PCIE
    return HOST if upper == "HOST" else H100_SXM
