"""The plain schedule of a matrix product or convolution: a register tile, no packing.

One operand runs along the lanes, the other is a scalar a row: rows x lanes accumulators stay in
registers over the whole reduction. It is the fallback until a packed template takes these kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..analysis.atoms import Access, Atom, Node
from ..analysis.summary import is_contraction
from ..device import Device
from .vectors import own_vector

_LANE_REGISTERS = 2
_ROWS = {64: 12, 32: 6, 16: 6}  # accumulators: 24 of 32 registers (AVX-512), 12 of 16 otherwise
_WINDOW_ROWS = 8
_ROW_BLOCKS = 11  # row blocks of a tile: the operand along the lanes comes from L2 that often
_FEW_ROW_BLOCKS = 4
_LANE_STRIPS = 2


@dataclass(frozen=True)
class RegisterTile:
    """`row` and `lane` are atoms of the output; a tile takes `row_chunk` x `lane_chunk` of them."""

    row: Atom
    lane: Atom
    row_chunk: int
    lane_chunk: int


def register_tile(node: Node, device: Device) -> RegisterTile | None:
    """Return the register tile of a contraction, None if its operands do not allow one."""
    if not is_contraction(node.stage):
        return None
    lane = own_vector(node)
    if lane is None or lane not in node.spatial:
        return None
    along = [a for a in node.reads.values() if a.stride(lane) == 1]
    across = [a for a in node.reads.values() if a.stride(lane) == 0 and _moves(a, node)]
    rows = [
        atom
        for atom in node.spatial
        if atom is not lane
        and all(a.stride(atom) == 0 for a in along)
        and any(a.stride(atom) not in (0, None) for a in across)
    ]
    if not along or not rows:
        return None
    row = max(rows, key=lambda a: a.extent)
    lane_chunk = min(lane.extent, device.vector_bytes // 4 * _LANE_REGISTERS * _LANE_STRIPS)
    row_chunk = _ROW_BLOCKS * rows_of(node, device)
    others = math.prod(a.extent for a in node.spatial if a not in (row, lane))
    tiles = others * -(-row.extent // row_chunk) * -(-lane.extent // lane_chunk)
    if tiles < 4 * device.threads:
        row_chunk = _FEW_ROW_BLOCKS * rows_of(node, device)
    return RegisterTile(row, lane, min(row.extent, row_chunk), lane_chunk)


def rows_of(node: Node, device: Device) -> int:
    """Return the rows of a register tile, fewer where windows make the reduction several loops.

    On Zen 5, 12 rows by 2 registers in tiles of 132 x 64 reach 216-241 GFLOP/s a core on unpacked
    products of 128 x 768 x 768 to 128 x 768 x 3072; 8 rows fall to 160 where rows are 12 KiB
    apart. A 3 x 3 convolution of 28 x 28 runs at 74 with 8 rows, at 20 with 12.
    """
    rows = _ROWS[device.vector_bytes]
    return rows if len(node.reduced) < 2 else min(rows, _WINDOW_ROWS)


def _moves(access: Access, node: Node) -> bool:
    return any(access.stride(a) not in (0, None) for a in node.reduced)


def lanes_of(device: Device, extent: int) -> int:
    """Return the lanes of a register tile: two registers, fewer on a short axis."""
    lanes = device.vector_bytes // 4 * _LANE_REGISTERS
    while lanes > extent:
        lanes //= 2
    return max(1, lanes)


def tile_atoms(
    tile: RegisterTile, common: list[Atom]
) -> tuple[tuple[Atom, ...], dict[Atom, int]] | None:
    """Return tile atoms and chunks, lanes outside rows: one operand's strip stays in L2."""
    if tile.row not in common or tile.lane not in common:
        return None
    chunks = {}
    rest = [a for a in common if a not in (tile.row, tile.lane)]
    order = list(rest)
    for atom, chunk in ((tile.lane, tile.lane_chunk), (tile.row, tile.row_chunk)):
        if chunk < atom.extent:
            chunks[atom] = chunk
            order.append(atom)
    return tuple(order), chunks
