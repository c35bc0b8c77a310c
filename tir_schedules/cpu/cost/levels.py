"""Which level of a CPU's memory holds a tensor, and what a byte of it costs to read."""

from __future__ import annotations

from ...device import CpuDevice
from ...device.profile import Profile

_LEVELS = ("L1", "L2", "L3", "memory")
_SHARED = ("L3", "memory")


def level_of(size: int, device: CpuDevice) -> str:
    """Return the smallest level that holds `size` bytes."""
    limits = (device.l1_bytes, device.l2_bytes, device.l3_bytes)
    levels = zip(_LEVELS, limits, strict=False)
    return next((name for name, limit in levels if size <= limit), _LEVELS[-1])


def read_ns_per_byte(level: str, threads: int, profile: Profile) -> float:
    """Return what reading a byte takes each of `threads` threads that share the level."""
    row = profile.bandwidth(level, threads)
    return (row.threads if level in _SHARED else 1) / row.read
