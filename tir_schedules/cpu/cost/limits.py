"""What a plan may take of a machine: cache, tasks, and what parallel regions cost."""

from __future__ import annotations

from ...device import CpuDevice
from .budget import BUDGET
from .overlap import OVERLAP


def tile_limit(device: CpuDevice) -> int:
    """Return the bytes of buffers a tile may hold: half of L2, the rest is for what streams by."""
    return device.l2_bytes // BUDGET.tile


def region_ns(device: CpuDevice) -> float:
    return device.profile.region(2) or OVERLAP.region_ns


def most_tasks(device: CpuDevice, parallel: bool, sums: bool = False) -> int:
    """Return how many tasks a loop over tiles has at most; `sums` if its tiles cut them.

    One a thread: who runs a task is settled before it begins, so that more balance nothing, and
    each takes its buffers anew. Of 64, rows that stay in the cache took 2 to 9 % longer. But a loop
    over tiles in a task took 7 % longer where they cut sums (Zen 4).
    """
    if sums:
        return max(device.profile.thresholds.summing_tasks, 4 * device.threads)
    return device.threads if parallel else 1


def tiles_of_thread(tiles: int, tasks: int, threads: int) -> int:
    """Return the tiles that the busiest thread runs of a loop in so many tasks at most."""
    each = -(-tiles // max(1, min(tiles, tasks)))
    return min(tiles, -(-tiles // each // threads) * each)
