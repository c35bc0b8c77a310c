"""Rows of a register tile that lie a page apart: packed side by side, some steps at a time.

All lines of a column of such rows are of one set of L1, which holds fewer than a tile has rows:
each step misses for all of them. Of a packed line every step of it hits. BLIS packs whole panels
of that operand for it (Goto, van de Geijn, "Anatomy of high-performance matrix multiplication");
here a line of each row is enough, for weights are packed already.
"""

from __future__ import annotations

import math

from ..analysis.atoms import Access, Atom
from ..analysis.expr import Load, dtype_bytes
from ..device import LINE_BYTES, Device
from .plan import LoopGroup, Phase, buffer_atoms, buffer_stride

_PAGE_BYTES = 4096  # a way of L1: its sets are picked by what an address is within a page


def packed_rows(group: LoopGroup, phase: Phase, device: Device) -> Load | None:
    """Return what a register tile reads row by row if packing its rows first takes less time."""
    if device.profile.aliasing_ns <= 0:
        return None
    load = packable(group, phase)
    if load is None:
        return None
    (node,) = group.nodes
    apart = _row_stride(node.reads[load], group.dims[group.strip_level - 1], phase)
    places = _PAGE_BYTES // math.gcd(apart * dtype_bytes(load.dtype), _PAGE_BYTES)
    return load if -(-group.rows // places) > device.l1_bytes // _PAGE_BYTES else None


def packable(group: LoopGroup, phase: Phase) -> Load | None:
    """Return what a register tile reads row by row, some lines of each, None if it can't be packed.

    Whole lines are read: all of them must be elements of the tensor, along the whole depth.
    """
    if not group.is_product or group.strip_level > len(group.dims) - 2:
        return None
    (node,), depth, lane = group.nodes, group.dims[-2], group.dims[-1]
    row = group.dims[group.strip_level - 1]
    if depth in phase.chunks:
        return None
    for load, access in node.reads.items():
        steps = (access.stride(a) for a in (depth, lane, row))
        if next(steps) == 1 and next(steps) == 0 and next(steps) and node.stays_inside(access):
            whole = depth.extent * dtype_bytes(load.dtype) >= 2 * LINE_BYTES
            return load if whole and load.dtype in ("float32", "float64") else None
    return None


def _row_stride(access: Access, row: Atom, phase: Phase) -> int:
    """Return how many elements two rows are apart, in the tile buffer of what is made here."""
    home = next((n for n in phase.nodes if n.stage.out is access.tensor), None)
    if home is None or row not in buffer_atoms(home, phase):
        return abs(access.stride(row))
    return buffer_stride(home, row, phase)
