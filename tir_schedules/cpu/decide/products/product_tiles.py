"""The cache blocks around a register tile: which operand stays in L2, and which streams past it."""

from __future__ import annotations

import math

from ....analysis.iteration_space import Access, Atom
from ....device import CpuDevice
from ....kernel_ir.expr import dtype_bytes
from ...cost.budget import BUDGET
from ...facts.products.register_file import LANE_REGISTERS, most_rows
from ...facts.products.register_tile import RegisterTile, lanes_of
from ...facts.shapes import SHAPES
from .row_blocks import even_chunk, evenest, registers_across, row_chunk, rows_of, sizes_of


def depth_block(depth: int, rows: int, lanes: int, device: CpuDevice) -> int:
    """Return over how much of its depth a product goes at a time: all of it while panels fit L2.

    Panels of up to a quarter of L2 leave room for the next one; blocks of those that are larger are
    a sixteenth. The whole depth if that has no such divisor, or if nothing reads a panel twice.
    """
    line = 4 * lanes
    if rows <= most_rows(device) or depth * line <= device.l2_bytes // BUDGET.panel:
        return depth
    most = device.l2_bytes // BUDGET.panel_block // line
    fitting = (n for n in range(most, most // 3, -1) if depth % n == 0)
    return next(fitting, depth)


def tile_atoms(
    tile: RegisterTile, common: list[Atom], device: CpuDevice
) -> tuple[tuple[Atom, ...], dict[Atom, int]] | None:
    """Return tile atoms and chunks: what stays in L2 outside, what is streamed past it inside.

    A panel stays unless the other operand does not fit and fewer bytes pass the rows of a tile:
    then these stay. If other nodes need all lanes of a row, a tile is some blocks of rows.
    """
    if tile.row not in common:
        return _strips_of_lanes(tile, common, device)
    rows = rows_of(tile.row.extent, device, registers=_registers(tile, device))
    if tile.lane not in common:
        return _whole_lanes(tile, rows, common, device)
    others = math.prod(a.extent for a in common if a not in (tile.row, tile.lane))
    lane_chunk = _lane_chunk(tile, others, device)
    others *= -(-tile.lane.extent // lane_chunk)
    outside = _rows_outside(tile, common, device)
    tall = -(-tile.row.extent // (device.profile.thresholds.row_blocks * rows))
    few = outside or others * tall < 4 * device.threads
    chunk = row_chunk(tile.row.extent, rows, others, few, device)
    wanted = {tile.lane: lane_chunk, tile.row: tile.row.extent if tile.whole_row else chunk}
    chunks = {atom: n for atom, n in wanted.items() if n < atom.extent}

    def tiled(*atoms: Atom) -> list[Atom]:
        return [a for a in common if a in atoms and (a not in wanted or a in chunks)]

    batch = tiled(*tile.batch)
    weight = [*tiled(*tile.panels), *tiled(tile.lane)]
    moving = [*tiled(*tile.pixels), *tiled(tile.row)]
    known = {*tile.batch, *tile.panels, *tile.pixels, tile.lane, tile.row}
    unknown = [a for a in common if a not in known]
    apart = math.prod(a.extent for a in batch)
    past_rows = _passing(tile.weight.tensor.bytes // apart, _count(moving, chunks), device)
    past_lanes = _passing(tile.moving.tensor.bytes // apart, _count(weight, chunks), device)
    rows_stay = outside or past_rows < past_lanes > device.l2_bytes // BUDGET.operand
    alone = moving == [tile.row] and not batch and not unknown
    if rows_stay and alone:
        chunks[tile.row] = even_chunk(tile.row.extent, chunk, _count(weight, chunks), device)
    elif alone and weight == [tile.lane] and _fits(tile.weight, device) and not tile.whole_row:
        lanes = sizes_of(tile.lane.extent, lane_chunk)
        rows_stay, chunks[tile.row] = evenest(tile.row.extent, chunk, rows, lanes, device)
    stays = moving + weight if rows_stay else weight + moving
    return (*unknown, *batch, *stays), chunks


def _fits(operand: Access, device: CpuDevice) -> bool:
    """Return whether an operand stays in L2, whatever streams past it."""
    return operand.tensor.bytes <= device.l2_bytes // BUDGET.operand


def _registers(tile: RegisterTile, device: CpuDevice) -> int:
    if tile.whole_row:
        return LANE_REGISTERS
    apart = abs(tile.moving.stride(tile.row) or 0)
    dtype = tile.moving.tensor.dtype
    return registers_across(tile.row.extent, apart, tile.lane.extent, dtype, device)


def _count(atoms: list[Atom], chunks: dict[Atom, int]) -> int:
    return math.prod(-(-a.extent // chunks.get(a, 1)) for a in atoms)


def _passing(nbytes: int, tiles: int, device: CpuDevice) -> int:
    """Return the bytes that come to a core if each of so many tiles reads an operand whole."""
    return nbytes if nbytes <= device.l2_bytes // BUDGET.operand else nbytes * tiles


def _rows_outside(tile: RegisterTile, common: list[Atom], device: CpuDevice) -> bool:
    """Return whether threads share out the rows: of the larger operand, all weights in L2."""
    apart = math.prod(a.extent for a in common if a in tile.batch)
    moving, weight = (a.tensor.bytes // apart for a in (tile.moving, tile.weight))
    return moving > weight and weight <= device.l2_bytes // BUDGET.operand


def _lane_chunk(tile: RegisterTile, others: int, device: CpuDevice) -> int:
    """Return some strips of lanes, the last ones no fewer than a strip.

    Of panels they are few, for one stays in L1. An operand as it came has lines to read and to
    write: as many strips as an eighth of L2 holds, if `others` times that leaves tiles enough.
    """
    dtype = tile.moving.tensor.dtype
    lanes = lanes_of(device, tile.lane.extent, dtype)
    strips = SHAPES.lane_strips
    if all((tile.weight.stride(a) or 0) > lanes for a in tile.depth):
        line = math.prod(a.extent for a in tile.depth) * dtype_bytes(dtype)
        wanted = others * tile.lane.extent // device.profile.thresholds.least_tiles
        strips = max(strips, min(device.l2_bytes // BUDGET.strips // line, wanted) // lanes)
    sizes = [n * lanes for n in range(strips, 2 * strips + 1)]
    rests = ((size, tile.lane.extent % size) for size in sizes)
    return next((size for size, rest in rests if rest == 0 or rest >= lanes), sizes[0])


def _strips_of_lanes(
    tile: RegisterTile, common: list[Atom], device: CpuDevice
) -> tuple[tuple[Atom, ...], dict[Atom, int]] | None:
    """Return tiles of some strips of lanes, where other nodes make the operand along them."""
    if tile.lane not in common:
        return None
    others = [a for a in common if a is not tile.lane]
    count = math.prod(a.extent for a in others)
    pieces = -(-tile.lane.extent // _lane_chunk(tile, count, device))
    if count >= device.profile.thresholds.least_tiles or pieces == 1:
        return tuple(others), {}
    lanes = lanes_of(device, tile.lane.extent, tile.moving.tensor.dtype)
    return (*others, tile.lane), {tile.lane: -(-tile.lane.extent // (pieces * lanes)) * lanes}


def _whole_lanes(
    tile: RegisterTile, rows: int, common: list[Atom], device: CpuDevice
) -> tuple[tuple[Atom, ...], dict[Atom, int]]:
    """Return tiles of about `few_row_blocks` blocks, fewer if more tiles or smaller ones help."""
    others = [a for a in common if a is not tile.row]
    count = math.prod(a.extent for a in others)
    blocks = -(-tile.row.extent // rows)
    line = tile.lane.extent * dtype_bytes(tile.moving.tensor.dtype)
    turns = device.profile.thresholds
    least = max(
        -(-turns.least_tiles // count), blocks * rows * line * BUDGET.lines // device.l2_bytes
    )
    tiles = min(blocks, max(1, least, round(blocks / turns.few_row_blocks)))
    if tiles == 1 or tile.whole_row:
        return tuple(others), {}
    return (*others, tile.row), {tile.row: -(-blocks // tiles) * rows}
