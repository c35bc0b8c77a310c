"""The register tile of a matrix product or convolution, and the cache blocks around it.

One operand runs along the lanes, the other is a scalar a row: rows x lanes accumulators stay in
registers over the whole reduction. `relay_passes.rewrites.pack_weights` lays weights out for it; operands
that come unpacked are read as they are.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

from ...analysis.coalesce import uses_value
from ...analysis.iteration_space import Access, Atom, Node
from ...analysis.kernel_facts import is_contraction
from ...device import Device
from ...kernel_ir.expr import dtype_bytes
from ..decide.row_blocks import (
    FEW_ROW_BLOCKS,
    LANE_REGISTERS,
    MOST_ROWS,
    ROW_BLOCKS,
    even_chunk,
    most_rows,
    registers_across,
    row_chunk,
    rows_of,
)
from ..plan.kernel_plan import Phase, buffer_atoms
from .padding import bounds_of
from .vectors import own_vector, vector_atom

LEAST_LANES = 8
_LANE_STRIPS = 2
_LINE_SHARE = 8  # of L2, what the operand along the lanes may take of it as it came
_LINES = 6  # of half of L2, what one of the buffers of a tile of whole lines may take: a third


@dataclass(frozen=True)
class RegisterTile:
    """The atoms of a contraction's output by the operands that move along them.

    `lane` runs along the lanes of one operand, the weight; the other, `moving`, is a scalar for
    each `row`. Along `panels` the weight alone moves too, along `pixels` the other operand alone,
    along `batch` both.
    """

    lane: Atom
    row: Atom
    panels: tuple[Atom, ...]
    pixels: tuple[Atom, ...]
    batch: tuple[Atom, ...]
    depth: tuple[Atom, ...]
    moving: Access
    weight: Access
    whole_row: bool  # a line of a padded image, whose borders are known only in one piece


@functools.lru_cache(maxsize=1 << 10)
def register_tile(node: Node) -> RegisterTile | None:
    """Return the register tile of a contraction, None if its operands do not allow one."""
    if not is_contraction(node.stage):
        return None
    lane = vector_atom(node, node.spatial)
    if lane is None or (lane.extent < LEAST_LANES and lane is not own_vector(node)):
        return None
    along = [a for a in node.reads.values() if a.stride(lane) == 1]
    across = [a for a in node.reads.values() if a.stride(lane) == 0 and _moves(a, node)]
    if not along or not across:
        return None
    rest = [a for a in node.spatial if a is not lane]
    still = [a for a in rest if all(w.stride(a) == 0 for w in along)]
    rows = [a for a in still if any(x.stride(a) not in (0, None) for x in across)]
    if not rows:
        return None
    # Of those that fill a register tile the one whose rows lie closest: pixels, not lines.
    row = max(
        rows,
        key=lambda a: (
            min(_run(a, rows, node), MOST_ROWS),
            -min(abs(x.stride(a) or 0) for x in across),
        ),
    )
    panels = tuple(a for a in rest if all(x.stride(a) == 0 for x in across))
    return RegisterTile(
        lane,
        row,
        panels,
        pixels=tuple(a for a in still if a is not row and a not in panels),
        batch=tuple(a for a in rest if a not in still and a not in panels),
        depth=node.reduced,
        moving=max(across, key=lambda x: x.tensor.bytes),
        weight=max(along, key=lambda x: x.tensor.bytes),
        whole_row=any(row in b.atoms for b in bounds_of(node) or ()),
    )


def runs_on(node: Node, outer: Atom, row: Atom, phase: Phase) -> bool:
    """Return whether a step of `outer` is the one behind the last of `row`, in tile buffers too."""
    if not _steps_behind(node, outer, row):
        return False
    layouts = {id(n.stage.out): buffer_atoms(n, phase) for n in phase.nodes}
    own = [layouts.get(id(a.tensor), ()) for a in (*node.reads.values(), node.store)]
    return all(row not in o or (outer, row) in itertools.pairwise(o) for o in own)


def _run(row: Atom, rows: list[Atom], node: Node) -> int:
    """Return the extent of a row and of what it may run on over."""
    beside = next((a for a in rows if _steps_behind(node, a, row)), None)
    if beside is None:
        return row.extent
    return row.extent * _run(beside, rows, node)


def _steps_behind(node: Node, outer: Atom, row: Atom) -> bool:
    """Return whether a step of `outer` is the one behind the last of `row` in all tensors."""
    if outer is row or uses_value(node, outer) or uses_value(node, row):
        return False
    for access in (*node.reads.values(), node.store):
        step = access.stride(row)
        if step is None or access.stride(outer) != step * row.extent:
            return False
    return any(access.stride(row) for access in node.reads.values())


def _moves(access: Access, node: Node) -> bool:
    return any(access.stride(a) not in (0, None) for a in node.reduced)


def lanes_of(device: Device, extent: int, dtype: str) -> int:
    """Return the lanes of a register tile: two registers, fewer on a short axis."""
    lanes = device.vector_bytes // dtype_bytes(dtype) * LANE_REGISTERS
    while lanes > extent:
        lanes //= 2
    return max(1, lanes)


def panel_lanes(columns: int, dtype: str, device: Device) -> int | None:
    """Return the columns of a panel, None if there are no whole ones of half a register."""
    lanes = lanes_of(device, columns, dtype)
    while columns % lanes:
        lanes //= 2
    return lanes if 2 * lanes * dtype_bytes(dtype) >= device.vector_bytes else None


def depth_block(depth: int, rows: int, lanes: int, device: Device) -> int:
    """Return over how much of its depth a product goes at a time: all of it while panels fit L2.

    Panels of up to a quarter of L2 leave room for the next one; blocks of those that are larger are
    a sixteenth. The whole depth if that has no such divisor, or if nothing reads a panel twice.
    """
    line = 4 * lanes
    if rows <= most_rows(device) or depth * line <= device.l2_bytes // 4:
        return depth
    most = device.l2_bytes // 16 // line
    fitting = (n for n in range(most, most // 3, -1) if depth % n == 0)
    return next(fitting, depth)


def tile_atoms(
    tile: RegisterTile, common: list[Atom], device: Device
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
    few = outside or others * -(-tile.row.extent // (ROW_BLOCKS * rows)) < 4 * device.threads
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
    rows_stay = outside or past_rows < past_lanes > device.l2_bytes // 2
    if rows_stay and moving == [tile.row] and not batch and not unknown:
        chunks[tile.row] = even_chunk(tile.row.extent, chunk, _count(weight, chunks), device)
    stays = moving + weight if rows_stay else weight + moving
    return (*unknown, *batch, *stays), chunks


def _registers(tile: RegisterTile, device: Device) -> int:
    if tile.whole_row:
        return LANE_REGISTERS
    apart = abs(tile.moving.stride(tile.row) or 0)
    dtype = tile.moving.tensor.dtype
    return registers_across(tile.row.extent, apart, tile.lane.extent, dtype, device)


def _count(atoms: list[Atom], chunks: dict[Atom, int]) -> int:
    return math.prod(-(-a.extent // chunks.get(a, 1)) for a in atoms)


def _passing(nbytes: int, tiles: int, device: Device) -> int:
    """Return the bytes that come to a core if each of so many tiles reads an operand whole."""
    return nbytes if nbytes <= device.l2_bytes // 2 else nbytes * tiles


def _rows_outside(tile: RegisterTile, common: list[Atom], device: Device) -> bool:
    """Return whether threads share out the rows: of the larger operand, all weights in L2."""
    apart = math.prod(a.extent for a in common if a in tile.batch)
    moving, weight = (a.tensor.bytes // apart for a in (tile.moving, tile.weight))
    return moving > weight and weight <= device.l2_bytes // 2


def _lane_chunk(tile: RegisterTile, others: int, device: Device) -> int:
    """Return some strips of lanes, the last ones no fewer than a strip.

    Of panels they are few, for one stays in L1. An operand as it came has lines to read and to
    write: as many strips as an eighth of L2 holds, if `others` times that leaves tiles enough.
    """
    dtype = tile.moving.tensor.dtype
    lanes = lanes_of(device, tile.lane.extent, dtype)
    strips = _LANE_STRIPS
    if all((tile.weight.stride(a) or 0) > lanes for a in tile.depth):
        line = math.prod(a.extent for a in tile.depth) * dtype_bytes(dtype)
        wanted = others * tile.lane.extent // device.profile.thresholds.least_tiles
        strips = max(strips, min(device.l2_bytes // _LINE_SHARE // line, wanted) // lanes)
    sizes = [n * lanes for n in range(strips, 2 * strips + 1)]
    rests = ((size, tile.lane.extent % size) for size in sizes)
    return next((size for size, rest in rests if rest == 0 or rest >= lanes), sizes[0])


def _strips_of_lanes(
    tile: RegisterTile, common: list[Atom], device: Device
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
    tile: RegisterTile, rows: int, common: list[Atom], device: Device
) -> tuple[tuple[Atom, ...], dict[Atom, int]]:
    """Return tiles of about `FEW_ROW_BLOCKS` blocks, fewer if more tiles or smaller ones help."""
    others = [a for a in common if a is not tile.row]
    count = math.prod(a.extent for a in others)
    blocks = -(-tile.row.extent // rows)
    line = tile.lane.extent * dtype_bytes(tile.moving.tensor.dtype)
    wanted = device.profile.thresholds.least_tiles
    least = max(-(-wanted // count), blocks * rows * line * _LINES // device.l2_bytes)
    tiles = min(blocks, max(1, least, round(blocks / FEW_ROW_BLOCKS)))
    if tiles == 1 or tile.whole_row:
        return tuple(others), {}
    return (*others, tile.row), {tile.row: -(-blocks // tiles) * rows}
