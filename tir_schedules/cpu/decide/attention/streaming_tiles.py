"""Choose the tiles of attention in its streaming form, where it has one."""

from __future__ import annotations

import math

from ....device import CpuDevice
from ....kernel_ir.expr import dtype_bytes
from ....patterns.attention_masks import why_none_hidden
from ....patterns.match_attention import Attention
from ...cost.budget import BUDGET
from ...facts.products.register_file import most_rows
from ...facts.products.register_tile import lanes_of
from ...facts.shapes import SHAPES
from ...facts.streaming import are_transposed, refuse_streaming
from ...plan.streaming_attention import StreamingAttention
from ..products.row_blocks import block_cost


def streaming_tiles(at: Attention, device: CpuDevice) -> StreamingAttention | str:
    """Return the tiles of an attention, or why the streaming form does not compute it well."""
    if at.row.extent < SHAPES.waiting_rows:
        return "too few rows for a register tile"
    if (reason := refuse_streaming(at)) is not None:
        return reason
    lanes = lanes_of(device, at.key.extent, at.dtype)
    wide = device.vector_bytes // dtype_bytes(at.dtype)
    rows, blocks = _rows(at, device)
    most = device.l1_bytes // BUDGET.scores // (rows * dtype_bytes(at.dtype))
    masked = why_none_hidden(at) is None
    block_keys = max(lanes, min(most, at.key.extent) // lanes * lanes)
    columns = lanes_of(device, at.column.extent, at.dtype)
    form = StreamingAttention(
        at, rows, blocks, block_keys, lanes, columns, wide, are_transposed(at), masked
    )
    if form.tile_bytes > device.l2_bytes // BUDGET.tile:
        return f"a tile needs {form.tile_bytes} bytes, more than half of L2"
    return form


def _rows(at: Attention, device: CpuDevice) -> tuple[int, int]:
    """Return the rows of a register tile and the blocks of these in a tile.

    Rows that two tiles have in common are computed twice, keys are packed for each tile. A tile is
    no larger than leaves tiles enough.
    """
    extent, batch = at.row.extent, math.prod(a.extent for a in at.batch)
    turns = device.profile.thresholds
    wanted = min(extent, -(-turns.least_tiles // batch))

    def cost(rows: int, blocks: int) -> tuple[float, int]:
        tiles = -(-extent // (rows * blocks))
        spent = tiles * (blocks * block_cost(rows) + turns.packing_rows)
        return spent * (1 + max(0, wanted - tiles)), -rows

    most = min(most_rows(device), extent)
    sizes = ((r, b) for r in range(most, 0, -1) for b in range(1, turns.key_blocks + 1))
    return min((pair for pair in sizes if math.prod(pair) <= extent), key=lambda p: cost(*p))
