"""What a plan may take of a machine: cache, tasks, and what parallel regions cost."""

from __future__ import annotations

from ...device import Device
from .budget import BUDGET

_UNMEASURED_NS = 1_000.0  # a region of a profile made with one CPU
_MAX_TASKS = 64


def tile_limit(device: Device) -> int:
    """Return the bytes of buffers a tile may hold: half of L2, the rest is for what streams by."""
    return device.l2_bytes // BUDGET.tile


def region_ns(device: Device) -> float:
    return device.profile.region(2) or _UNMEASURED_NS


def most_tasks(device: Device) -> int:
    """Return how many tasks a parallel loop has at most."""
    return max(_MAX_TASKS, 4 * device.threads)
