"""Rows of a register tile that lie a page apart: fewer and wider ones, or packed side by side.

All lines of a column of such rows are of one set of L1, which holds fewer than a tile has rows:
each step misses for all of them. A tile of six rows and four registers fits. Where the lanes are
too few for it rows are packed, some steps at a time: of a packed line every step of it hits. BLIS
packs whole panels of that operand (Goto, van de Geijn, "Anatomy of high-performance matrix
multiplication"); here a line of each row is enough, for weights are packed already. But a line is
stored and loaded for each panel: 6 % of a product.
"""

from __future__ import annotations

from dataclasses import replace

from ....device import CpuDevice
from ....kernel_ir.expr import dtype_bytes
from ...facts.padding import bounds_of
from ...facts.products.epilogues import values_of_rows
from ...facts.products.row_packing import packable, row_stride
from ...facts.shapes import SHAPES
from ...plan.kernel_plan import LoopNest, Phase
from .row_blocks import collide, registers_across, rows_of, wide_lanes


def with_rows_apart(group: LoopNest, phase: Phase, device: CpuDevice) -> LoopNest:
    """Return a register tile whose rows do not collide: the same if they don't, or wide, or packed.

    Wide are those of whole strips of twice the lanes, without the borders of an image.
    """
    load = packable(group, phase)
    if load is None:
        return group
    (node,), row, lane = group.nodes, group.dims[group.strip_level - 1], group.dims[-1]
    apart, dtype = row_stride(node.reads[load], row, phase), load.dtype
    if registers_across(row.extent, apart, lane.extent, dtype, device) == SHAPES.wide_registers:
        wide = _wide(group, phase, device)
        if wide is not None:
            return wide
    packs = collide(group.rows, apart * dtype_bytes(dtype), device)
    return replace(group, packed=load) if packs else group


def _wide(group: LoopNest, phase: Phase, device: CpuDevice) -> LoopNest | None:
    """Return a register tile of few and wide rows, None if they fill no strips in a tile."""
    (node,), lane = group.nodes, group.dims[-1]
    lanes = wide_lanes(node.stage.value.dtype, device)
    if phase.inner_extent(lane) % lanes or bounds_of(node) is not None:
        return None
    row, reads = group.dims[group.strip_level - 1], 0
    count = phase.inner_extent(row)
    if group.flattened_outer is not None:
        count *= phase.inner_extent(group.flattened_outer)
    if group.epilogue is not None:
        reads = values_of_rows(group.epilogue, row, lane)
    rows = rows_of(count, device, reads, registers=SHAPES.wide_registers)
    return replace(group, lanes=lanes, rows=rows)
