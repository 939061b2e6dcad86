"""How deep the ring of input stages should be, and what decides it.

Two bounds: the deepest ring that fits in a block's shared memory beside everything else, and the
shallowest that hides the latency of a load. By Little's law the latter is the latency over the time
a stage is computed on, and one more stage for the one being computed on. A deeper ring than needed
costs nothing, so the depth taken is the deepest that fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tk.schedulers.device import Device
from tk.schedulers.instance import Instance

FEWEST_STAGES = 2
"""Products in flight read one stage, and give it back when those of the next are issued."""


@dataclass(frozen=True)
class Pipeline:
    """A ring's depth with the bounds that led to it."""

    num_stages: int
    fits: int  # the deepest that shared memory holds
    table_limit: int  # the deepest that the instance was compiled for
    hides_latency: int  # the shallowest that hides a load's latency
    bytes_per_stage: int
    shared_memory: int  # bytes of the block at this depth

    @property
    def bytes_in_flight(self) -> int:
        """Bytes of one block that can be on their way at any time."""
        return self.num_stages * self.bytes_per_stage

    @property
    def binds(self) -> str:
        """What limits the kernel: "latency hidden", "shared memory" or "instance"."""
        if self.num_stages >= self.hides_latency:
            return "latency hidden"
        return "instance" if self.table_limit < self.fits else "shared memory"

    def __str__(self) -> str:
        return (
            f"{self.num_stages} stages of {self.bytes_per_stage / 1024:.0f} KiB"
            f" ({self.shared_memory / 1024:.0f} KiB a block; {self.fits} fit,"
            f" {self.hides_latency} hide the latency: {self.binds})"
        )


def stages_that_fit(instance: Instance, device: Device, parts: int = 0) -> int:
    """The deepest ring that a block's shared memory holds; 0 when not even one stage fits.

    `parts`: of how many other splits a block receives its part of the tile.
    """
    room = device.shared_memory_per_block - instance.fixed_bytes - parts * instance.bytes_per_part
    return max(room // instance.bytes_per_stage, 0)


def stages_that_hide(latency_s: float, stage_s: float) -> int:
    """Little's law: stages in flight = latency / time a stage, and the one being computed on."""
    return ceil(latency_s / stage_s) + 1


def num_stages_for(instance: Instance, device: Device, parts: int = 0) -> int:
    """The depth to use. ValueError when not even two stages fit in shared memory."""
    fits = stages_that_fit(instance, device, parts)
    if fits < FEWEST_STAGES:
        fixed = instance.fixed_bytes + parts * instance.bytes_per_part
        raise ValueError(
            f"instance {instance.name}: {FEWEST_STAGES} stages of {instance.bytes_per_stage} bytes"
            f" and {fixed} fixed bytes exceed the"
            f" {device.shared_memory_per_block} bytes of shared memory of {device.name}"
        )
    return min(fits, instance.max_stages)


def pipeline_for(
    instance: Instance,
    device: Device,
    stage_s: float,
    num_stages: int | None = None,
    parts: int = 0,
) -> Pipeline:
    """The ring of `num_stages` (default: the deepest) when a stage is computed on for `stage_s`.

    `parts` are those of `stages_that_fit`.
    """
    depth = num_stages_for(instance, device, parts) if num_stages is None else num_stages
    fixed_bytes = instance.fixed_bytes + parts * instance.bytes_per_part
    return Pipeline(
        num_stages=depth,
        fits=stages_that_fit(instance, device, parts),
        table_limit=instance.max_stages,
        hides_latency=stages_that_hide(device.load_latency_s, stage_s),
        bytes_per_stage=instance.bytes_per_stage,
        shared_memory=depth * instance.bytes_per_stage + fixed_bytes,
    )
