"""How threads share out a sort, by what its rows are predicted to take."""

from __future__ import annotations

from dataclasses import dataclass

from ...device import CpuDevice
from ...kernel_ir.expr import dtype_bytes
from ...sorting import Sort
from .keys import key_dtype
from .policy import SORTS
from .select import groups


@dataclass(frozen=True)
class Cut:
    """Into how many parts each row goes, and whether threads share out rows and parts."""

    parts: int
    parallel: bool


def cut(sort: Sort, device: CpuDevice) -> Cut:
    """Return what is predicted to take the least time."""
    threads, region = device.threads, device.profile.region(device.threads)
    row = row_ns(sort, sort.length)
    ways = {Cut(1, False): sort.rows * row}
    if threads > 1:
        ways[Cut(1, True)] = -(-sort.rows // threads) * row + region
    parts = -(-threads // sort.rows)
    longest = -(-sort.length // parts)
    shortest = sort.length - (parts - 1) * longest
    if parts > 1 and shortest >= max(sort.count, groups(longest, sort.count)):
        part = row_ns(sort, longest) + 2 * region
        ways[Cut(parts, True)] = part + _sorted_ns(sort, parts * sort.count)
    return min(ways, key=ways.__getitem__)


def row_ns(sort: Sort, length: int) -> float:
    """Return what the first of one row of that length take."""
    found = groups(length, sort.count)
    if not found:
        return _sorted_ns(sort, length)
    kept = sort.count * SORTS.found_ns + _sorted_ns(sort, sort.count)
    return length * SORTS.passed_ns + _sorted_ns(sort, found) + kept


def _sorted_ns(sort: Sort, count: int) -> float:
    if count <= SORTS.counted:
        return count * count * SORTS.counted_ns
    return count * dtype_bytes(key_dtype(sort.dtype)) * SORTS.byte_ns
