"""A device as the model sees it: a few numbers with units, from data sheets or fitted to timings.

The catalogue of known devices, with the source of every figure, is `tk.schedulers.catalogue`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True)
class Device:
    """What planning needs to know of a device. Rates are those that a kernel reaches, not peaks.

    The first group describes the hardware, the second its rates, the third holds the constants of
    the time model that have no data sheet: they are fitted to timings (`tk.schedulers.fit`).
    """

    name: str

    # Hardware.
    num_sms: int
    shared_memory_per_block: int  # bytes that one thread block may use
    l2_bytes: int
    clock_hz: float  # highest clock
    max_cluster: int = 8  # thread blocks of a cluster
    l2_partitions: int = 1  # of L2, each next to its share of the multiprocessors
    large_cluster_share: float = 1.0  # of the multiprocessors, those that clusters of 3 or more use

    # Rates.
    peak_flops: Mapping[str, float] = field(default_factory=dict, hash=False)  # FLOP/s by dtype
    dram_bandwidth: float = 0.0  # bytes/s, read and written together
    l2_bandwidth: float = 0.0  # bytes/s from L2 to all multiprocessors
    padding_bandwidth: float = 0.0  # bytes/s that TMA fills beyond operands' edges, all blocks
    sm_bandwidth: float = 0.0  # bytes/s from L2 into one multiprocessor
    shared_bandwidth: float = 0.0  # bytes/s of one multiprocessor's shared memory
    store_bandwidth: float = 0.0  # bytes/s that a consumer warpgroup's epilogue writes by vectors
    element_store_bandwidth: float = 0.0  # bytes/s that it writes one by one
    partial_bandwidth: float = 0.0  # bytes/s of a split's sums that it parks, or reads and adds
    cluster_partial_bandwidth: float = (
        0.0  # bytes/s of sums that come from a cluster's other blocks
    )

    # Power. Work whose energy exceeds the limit runs at a lower clock.
    power_watts: float = 0.0  # the limit less what an idle chip draws; 0: never binds
    joules_per_flop: float = 0.0
    joules_per_l2_byte: float = 0.0  # from L2 into a multiprocessor
    joules_per_dram_byte: float = 0.0
    power_exponent: float = 0.5  # time grows with (energy over limit) to this power
    power_ramp_s: float = 0.0  # work shorter than this runs ahead of the power limit

    # Fitted constants of the time model.
    launch_overhead_s: float = 0.0  # a lone kernel between two events
    cluster_overhead_s: float = 0.0  # what a cluster adds to a launch
    fill_s: float = 0.0  # from the start of a block to its first product
    load_latency_s: float = 0.0  # from asking for a stage to having it from L2, under load
    memory_latency_s: float = 0.0  # what it takes longer from memory
    stage_overhead_s: float = 0.0  # barriers of one K tile, shared by the consumer warpgroups
    epilogue_overhead_s: float = 0.0  # of one output tile, beside its bytes
    split_overhead_s: float = 0.0  # arriving at a split tile: fence, counter, wait for the others
    cluster_split_overhead_s: float = 0.0  # waiting for another split of the tile in a cluster
    l2_usable: float = 1.0  # fraction of l2_bytes that keeps operands between waves
    shared_miss_fraction: float = 0.0  # of loads that another block's load should have served
    wave_drift: float = 0.0  # how far blocks of a wave drift apart, as a fraction of K
    memory_unevenness: float = 0.0  # the last block over the mean where memory bounds, less 1
    gather_fraction: float = 1.0  # of sm_bandwidth that the gather loader reaches
    overlap_exponent: float = 6.0  # p of the p-norm that joins overlapping times
    # Time of an instance's products over that of the rates, by its tile ("256x192x64"); else 1.
    tile_factors: Mapping[str, float] = field(default_factory=dict, hash=False)

    sources: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"device: name is {self.name!r}; needs a text")
        for name in ("num_sms", "shared_memory_per_block", "l2_bytes", *_COUNTS):
            value = getattr(self, name)
            most = _MOST_BYTES if name == "l2_bytes" else _MOST_COUNT
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not 1 <= value <= most:
                raise ValueError(
                    f"device {self.name!r}: {name} is {_short(value)}; needs an int >= 1, at most"
                    f" {most}"
                )
        for name in ("peak_flops", "tile_factors", "sources"):
            if not isinstance(getattr(self, name), Mapping):
                raise ValueError(
                    f"device {self.name!r}: {name} is {_short(getattr(self, name))}; needs a"
                    " mapping"
                )
        for name in _FLOATS:
            value = getattr(self, name)
            if not _is_number(value):
                raise ValueError(
                    f"device {self.name!r}: {name} is {_short(value)}; needs a number >= 0, at most"
                    f" {MOST:g}"
                )
        for name in ("clock_hz", *_POSITIVE_RATES):
            value = getattr(self, name)
            if not value >= _LEAST:
                raise ValueError(f"device {self.name!r}: {name} is {value!r}; needs a number > 0")
        if 0 < self.power_watts < _LEAST:
            raise ValueError(
                f"device {self.name!r}: power_watts is {self.power_watts!r}; needs 0 (no limit) or"
                f" at least {_LEAST:g}"
            )
        if not self.overlap_exponent >= 1:  # less is no norm: more than the sum
            raise ValueError(
                f"device {self.name!r}: overlap_exponent is {self.overlap_exponent!r}; needs >= 1"
            )
        for name in _FRACTIONS:
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"device {self.name!r}: {name} is {value!r}; needs 0 to 1")
        for table in ("tile_factors", "peak_flops"):
            for key, value in getattr(self, table).items():
                if not _is_number(value) or not value >= _LEAST:
                    raise ValueError(
                        f"device {self.name!r}: {table}[{key!r}] is {_short(value)}; needs > 0"
                    )

    @staticmethod
    def named(name: str) -> Device:
        """The catalogue's record of that name, e.g. "h200". ValueError lists the names."""
        from tk.schedulers.catalogue import CATALOGUE

        key = name.lower().replace("_", "-").replace(" ", "-")
        if key not in CATALOGUE:
            raise ValueError(f"unknown device {name!r}; known: {', '.join(CATALOGUE)}")
        return CATALOGUE[key]

    @staticmethod
    def names() -> list[str]:
        """The names that `Device.named` takes."""
        from tk.schedulers.catalogue import CATALOGUE

        return list(CATALOGUE)

    @staticmethod
    def from_properties(
        *,
        name: str,
        num_sms: int,
        shared_memory_per_block: int,
        l2_bytes: int,
        clock_hz: float | None = None,
    ) -> Device:
        """The device that a driver reports, e.g. name "NVIDIA H200".

        The rates are those of the catalogue's device of that name (H100 SXM when none matches),
        scaled by the number of multiprocessors: a MIG slice gets its share. Rates of the tensor
        cores and of L2 also scale with the clock when it is not the catalogue's.
        """
        from tk.schedulers.catalogue import nearest

        return scaled(
            nearest(name),
            name=name,
            num_sms=num_sms,
            shared_memory_per_block=shared_memory_per_block,
            l2_bytes=l2_bytes,
            clock_hz=clock_hz,
        )

    def flops(self, dtype: str) -> float:
        """FLOP/s of the tensor cores for operands of `dtype`. ValueError names the known ones."""
        if dtype not in self.peak_flops:
            known = ", ".join(self.peak_flops)
            raise ValueError(f"device {self.name!r} has no rate for dtype {dtype!r}; has {known}")
        return self.peak_flops[dtype]

    def clusters_at_once(self, cluster_size: int) -> int:
        """Clusters of that many blocks that run at the same time, one block a multiprocessor.

        A cluster lies within one group of multiprocessors; pairs fill every group.
        """
        usable = (
            self.num_sms if cluster_size <= 2 else round(self.num_sms * self.large_cluster_share)
        )
        return usable // cluster_size

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and dicts, for JSON."""
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        record["peak_flops"] = dict(self.peak_flops)
        record["tile_factors"] = dict(self.tile_factors)
        record["sources"] = dict(self.sources)
        return record

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Device:
        """The inverse of `to_dict`. ValueError names a missing or unknown field."""
        known = {f.name for f in fields(Device)}
        unknown = sorted(set(record) - known)
        if unknown:
            raise ValueError(f"device record has unknown fields: {', '.join(unknown)}")
        try:
            return Device(**record)
        except TypeError as error:
            raise ValueError(f"device record is incomplete: {error}") from None


MOST = 1e30
"""More than any rate or time, and far enough from the largest float for products of two."""

_LEAST = 1e-30  # of what is divided by
_MOST_COUNT = (1 << 31) - 1  # ints in the replay
_MOST_BYTES = 1 << 53  # whole in a float


def _is_number(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 <= value <= MOST  # type: ignore[operator]


def _short(value: object) -> str:
    try:
        return repr(value)[:60]
    except ValueError:  # an int of thousands of digits
        return "a number of thousands of digits"


_FLOATS = tuple(f.name for f in fields(Device) if f.type == "float")
_COUNTS = ("max_cluster", "l2_partitions")
_FRACTIONS = ("l2_usable", "wave_drift", "large_cluster_share")
_POSITIVE_RATES = (
    "dram_bandwidth",
    "l2_bandwidth",
    "padding_bandwidth",
    "sm_bandwidth",
    "shared_bandwidth",
    "store_bandwidth",
    "element_store_bandwidth",
    "partial_bandwidth",
    "cluster_partial_bandwidth",
    "overlap_exponent",
    "gather_fraction",
)


def scaled(
    base: Device,
    *,
    name: str,
    num_sms: int | None = None,
    shared_memory_per_block: int | None = None,
    l2_bytes: int | None = None,
    clock_hz: float | None = None,
    **changes: Any,
) -> Device:
    """`base` with other counts; its chip-wide rates follow the multiprocessors and the clock."""
    sms = base.num_sms if num_sms is None else num_sms
    clock = base.clock_hz if clock_hz is None else clock_hz
    share = sms / base.num_sms
    speed = clock / base.clock_hz
    made: dict[str, Any] = {
        "name": name,
        "num_sms": sms,
        "shared_memory_per_block": shared_memory_per_block or base.shared_memory_per_block,
        "l2_bytes": l2_bytes or base.l2_bytes,
        "clock_hz": clock,
        "peak_flops": {d: rate * share * speed for d, rate in base.peak_flops.items()},
        "l2_bandwidth": base.l2_bandwidth * share * speed,
        "padding_bandwidth": base.padding_bandwidth * share * speed,
        "sm_bandwidth": base.sm_bandwidth * speed,
        "shared_bandwidth": base.shared_bandwidth * speed,
        "store_bandwidth": base.store_bandwidth * speed,
        "element_store_bandwidth": base.element_store_bandwidth * speed,
        "partial_bandwidth": base.partial_bandwidth * speed,
        "cluster_partial_bandwidth": base.cluster_partial_bandwidth * speed,
        "dram_bandwidth": base.dram_bandwidth * min(share, 1.0),
        "power_watts": base.power_watts * share,
    }
    made.update(changes)
    return replace(base, **made)
