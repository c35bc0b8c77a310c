"""Choose the tile of a phase: which atoms number the tiles, and which are split to make more."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ....analysis.iteration_space import Atom, Edge, Node, Space
from ....device import CpuDevice
from ....kernel_ir.expr import dtype_bytes
from ...cost.budget import BUDGET
from ...facts.products.register_tile import register_tile
from ...facts.shapes import SHAPES
from ...facts.transposed import lanes_across, sides
from ...facts.vectors import own_vector
from ...facts.windows import window_of
from ...plan.forms import USUAL, Form
from ..products.product_tiles import tile_atoms
from ..products.row_chains import even_rows
from .serial_rows import serial_rows
from .store_queue import tiles_at_once
from .whole_rows import whole_rows


@dataclass(frozen=True)
class Tiling:
    """Atoms that number tiles, the sizes of split ones, and nodes left with partial results.

    The last atom is a loop inside each tile if it is `serial_tile_axis`.
    """

    tile: tuple[Atom, ...]
    chunks: dict[Atom, int]
    partial: tuple[Node, ...] = ()
    serial_tile_axis: Atom | None = None

    def tiles(self) -> int:
        return math.prod(
            -(-a.extent // self.chunks[a]) if a in self.chunks else a.extent
            for a in self.numbering()
        )

    def numbering(self) -> tuple[Atom, ...]:
        """Return the atoms that tell tiles apart, without the one that a tile walks."""
        return tuple(a for a in self.tile if a is not self.serial_tile_axis)


def choose_tiling(nodes: list[Node], space: Space, device: CpuDevice, form: Form = USUAL) -> Tiling:
    """Return the tiling of a phase of these nodes; it may have a single tile."""
    tiling = _apart(nodes, space, device, form)
    found = None
    if form.serial_axis and not tiling.partial:
        found = serial_rows(nodes, tiling.tile, space, device)
    if found is None:
        return tiling
    row, rows = found
    return replace(
        tiling, tile=(*tiling.tile, row), chunks={**tiling.chunks, row: rows}, serial_tile_axis=row
    )


def _apart(nodes: list[Node], space: Space, device: CpuDevice, form: Form) -> Tiling:
    mine = set(nodes)
    into = (e for n in nodes for e in space.incoming.get(n, ()))
    inner_edges = [e for e in into if e.producer in mine]
    unaligned = {a for e in inner_edges for a in e.unaligned}
    lead = max(nodes, key=lambda n: n.stage.domain)
    common = [a for a in lead.spatial if all(a in n.spatial for n in nodes) and a not in unaligned]
    even = even_rows(nodes, common, device) if form.register_tiles else None
    if even is not None:
        return Tiling(*even)
    product = register_tile(lead) if form.register_tiles else None
    placed = tile_atoms(product, common, device) if product is not None else None
    if placed is not None:
        return Tiling(*placed)
    if product is not None and len(nodes) > 1 and product.row not in common:
        whole = whole_rows(lead, product, common, nodes, space, device)
        if whole is not None:
            return Tiling(*whole)
    tiling = _spatial_tiling(nodes, common, lead, device)
    wanted = device.profile.thresholds.tiles
    if tiling.tiles() >= wanted:
        return _past_the_store_queue(tiling, inner_edges, device)
    split = None
    if form.partial_sums:
        split = _reduction_tiling(nodes, inner_edges, common, lead, unaligned, wanted)
    if split is not None and split.tiles() >= 4 * tiling.tiles():
        return split
    return tiling


def _spatial_tiling(nodes: list[Node], common: list[Atom], lead: Node, device: CpuDevice) -> Tiling:
    vector_atoms = {own_vector(n) for n in nodes if n.stage.domain * 4 >= lead.stage.domain}
    chunks: dict[Atom, int] = {}
    read = None
    if len(nodes) == 1 and (found := sides(lead, device.vector_bytes)) is not None:
        stored, read = found
        vector_atoms = {stored}
        chunk = min(read.extent, SHAPES.transposed_blocks * lanes_across(lead, device.vector_bytes))
        if chunk < read.extent:
            chunks[read] = chunk
    rows = _window_rows(lead, common, device)
    tile = [
        a
        for a in common
        if a not in vector_atoms and a is not rows and (a is not read or a in chunks)
    ]
    for atom in (a for a in common if a in vector_atoms):
        others = math.prod(-(-a.extent // chunks.get(a, 1)) for a in tile)
        if rows is None:
            chunk = _lane_chunk(atom, others, nodes, tile, device)
        else:
            chunk = _window_chunk(atom, others, lead, device)
        if chunk < atom.extent:
            chunks[atom] = chunk
            tile.append(atom)
    return Tiling(tuple(tile), chunks)


def _past_the_store_queue(tiling: Tiling, inner_edges: list[Edge], device: CpuDevice) -> Tiling:
    """Return the tiling with several tiles as one if loads would wait for the stores of theirs."""
    if not tiling.tile or tiling.tile[-1] in tiling.chunks:
        return tiling
    *outer, last = tiling.tile
    turns = device.profile.thresholds
    most = tiling.tiles() // turns.tiles
    count = tiles_at_once(inner_edges, tiling.tile, most, turns.queued_bytes)
    if count == last.extent > 1:
        return _past_the_store_queue(replace(tiling, tile=tuple(outer)), inner_edges, device)
    return replace(tiling, chunks=tiling.chunks | {last: count}) if count > 1 else tiling


def _window_rows(lead: Node, common: list[Atom], device: CpuDevice) -> Atom | None:
    """Return the atom whose positions share what they read, if there are tiles enough without.

    Of a 3x3 window a line serves 1.8 points with stride 1, 1.3 with stride 2: there 112 x 112
    pixels of 96 channels took 2 % longer than pixel by pixel, where each is read whole.
    """
    lane, turns = own_vector(lead), device.profile.thresholds
    window = window_of(lead, lane) if lane in common else None
    if window is None or window.row not in common or window.serves() < turns.window_serves:
        return None
    others = math.prod(a.extent for a in common if a is not window.row)
    return window.row if others // SHAPES.lane_chunk >= turns.least_tiles else None


def _window_chunk(atom: Atom, others: int, lead: Node, device: CpuDevice) -> int:
    """Return lanes whose taps of the other operand stay in L1 along a line.

    As few pieces of a line as that: in strips of 512 bytes of 2,304 a 3x3 took 1.2 times as long.
    """
    line = math.prod(a.extent for a in lead.reduced) * dtype_bytes(lead.stage.value.dtype)
    fitting = -(-atom.extent * line * BUDGET.taps // device.l1_bytes)
    pieces = max(fitting, -(-device.profile.thresholds.least_tiles // others))
    return -(-atom.extent // (pieces * SHAPES.lane_chunk)) * SHAPES.lane_chunk


def _lane_chunk(
    atom: Atom, others: int, nodes: list[Node], tile: list[Atom], device: CpuDevice
) -> int:
    """Return how much of a contiguous atom stays inside a tile."""
    chunk = atom.extent
    wanted = device.profile.thresholds.tiles
    if others < wanted:
        chunk = min(chunk, -(-atom.extent // -(-wanted // others)))
    # Of a single tile lines are better tiles: of 1000 x 64 its columns' softmax was two kernels.
    alone = others == 1 and atom.extent <= SHAPES.lane_chunk and len(nodes) > 1
    least = SHAPES.line_chunk if alone else SHAPES.lane_chunk
    chunk = max(least, -(-chunk // least) * least)
    most = (
        device.l2_bytes * BUDGET.chunk_eighths // 8 // max(_bytes_per_element(nodes, tile, atom), 1)
    )
    if chunk > most:
        chunk = max(SHAPES.line_chunk, 1 << max(0, most.bit_length() - 1))
    return chunk


def _bytes_per_element(nodes: list[Node], tile: list[Atom], atom: Atom) -> int:
    """Return the bytes a tile holds for each element of `atom`: its nodes' own points."""
    if len(nodes) == 1 or all(not n.reduced for n in nodes):
        return 0
    total = 0
    for node in nodes:
        points = math.prod(a.extent for a in node.atoms if a not in tile and a is not atom)
        total = max(total, points * dtype_bytes(node.stage.out.dtype))
    return total


def _reduction_tiling(
    nodes: list[Node],
    inner_edges: list[Edge],
    common: list[Atom],
    lead: Node,
    unaligned: set[Atom],
    wanted: int,
) -> Tiling | None:
    """Split one reduced atom among tiles: rfactor, with the partial results combined later."""
    candidates = [a for a in lead.atoms if a.extent > 1 and a not in unaligned and a not in common]
    candidates = [a for a in candidates if all(a in n.atoms for n in nodes)]
    candidates.sort(key=lambda a: -_largest_stride(lead, a))
    wide = [a for a in candidates if a.extent >= wanted] or candidates
    for atom in wide:
        partial = [n for n in nodes if atom in n.reduced]
        if not partial or any(any(e.producer is p for p in partial) for e in inner_edges):
            continue
        chunk = -(-atom.extent // wanted)
        large = (n for n in nodes if n.stage.domain * 4 >= lead.stage.domain)
        if any(own_vector(n) is atom for n in large):
            chunk = -(-chunk // SHAPES.lane_chunk) * SHAPES.lane_chunk
        if chunk >= atom.extent:
            continue
        return Tiling((atom,), {atom: chunk}, tuple(partial))
    return None


def _largest_stride(node: Node, atom: Atom) -> int:
    return max((abs(a.stride(atom) or 0) for a in node.reads.values()), default=0)
