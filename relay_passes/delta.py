"""The delta-evaluator: what one kernel instead of several gains, from tensors' bytes alone.

Source of the method: FusionStitching, section 5.4: saved memory access through measured bandwidths,
plus saved calls. It reads no plan of a kernel; `tir_schedules.cpu.latency` does, once a plan is
chosen.
"""

from __future__ import annotations

from tir_schedules.analysis.expr import Tensor
from tir_schedules.analysis.stage import Kernel
from tir_schedules.cpu.latency import stage_ns
from tir_schedules.device import Device
from tir_schedules.profile import Profile

# Loads run ahead of arithmetic as far as the reorder buffer reaches: a quarter stays apart.
_APART = 0.25
_LEVELS = ("L1", "L2", "L3", "memory")


class Delta:
    """Times, in ns on one thread, that sum over the parts of a kernel."""

    def __init__(self, device: Device, profile: Profile) -> None:
        self._device, self._profile = device, profile
        self._ns_per_byte = {level: _one_thread_ns(level, device, profile) for level in _LEVELS}
        self._work: dict[int, float] = {}

    def crossing_ns(self, tensor: Tensor) -> float:
        """Return the time to write a tensor or to read it, in the cache that would hold it.

        Between two kernels there is time to read as much again: half of a cache counts.
        """
        size, device = 2 * tensor.bytes, self._device
        limits = (device.l1_bytes, device.l2_bytes, device.l3_bytes)
        levels = zip(_LEVELS, limits, strict=False)
        level = next((name for name, limit in levels if size <= limit), "memory")
        return tensor.bytes * self._ns_per_byte[level]

    def work_ns(self, kernel: Kernel) -> float:
        """Return the arithmetic of an op."""
        if id(kernel) not in self._work:
            lanes = self._device.vector_bytes // 4
            self._work[id(kernel)] = sum(
                stage_ns(stage, self._profile) * stage.domain / lanes for stage in kernel.stages
            )
        return self._work[id(kernel)]

    def kernel_ns(self, work: float, traffic: float) -> float:
        """Return the time of a kernel of that much arithmetic and traffic, threads and call."""
        alone = max(work, traffic) + _APART * min(work, traffic)
        region = self._profile.region(self._device.threads)
        spread = alone / self._device.threads + region
        return self._profile.call_ns + (spread if region and spread < alone else alone)


def _one_thread_ns(level: str, device: Device, profile: Profile) -> float:
    """Return ns a byte takes each of `device.threads` threads that share the level's bandwidth."""
    row = profile.bandwidth(level, device.threads)
    shared = row.threads if level in ("L3", "memory") else 1
    return shared / row.read
