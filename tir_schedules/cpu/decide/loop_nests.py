"""Group the nodes of a phase into loop nests: thread composition, as registers of one vector loop.

Nodes over the same inner atoms share a nest if no value crosses from a finished reduction; a value
made and read at the same point of one nest never touches memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...analysis.iteration_space import Atom, Node, Space
from ...device import CpuDevice
from ..facts import guards
from ..facts.nest_order import is_at_same_point, keeps_accumulators
from ..facts.padding import padding_of
from ..facts.products.epilogues import is_of_product
from ..facts.products.register_tile import lanes_of, register_tile, runs_on
from ..facts.shapes import SHAPES
from ..facts.transposed import lanes_across, sides
from ..facts.vectors import lanes_for, vector_atom
from ..facts.windows import window_of
from ..legal.nests import refuse_register_tile, refuse_sums, refuse_transposed, refuse_window
from ..plan.forms import USUAL, Form
from ..plan.kernel_plan import LoopNest, Phase
from .products.epilogues import with_epilogues
from .products.row_blocks import rows_of
from .products.row_packing import with_rows_apart
from .products.short_sums import with_short_sums
from .products.window_rows import window_rows


class _Nest:
    def __init__(self, node: Node, dims: tuple[Atom, ...], vector: Atom | None) -> None:
        self.nodes, self.dims, self.vector = [node], dims, vector


def group_loops(
    nodes: tuple[Node, ...], space: Space, phase: Phase, device: CpuDevice, form: Form = USUAL
) -> tuple[LoopNest, ...]:
    """Return loop nests in execution order."""
    nests: list[_Nest] = []
    home: dict[Node, int] = {}
    for node in nodes:
        inside = phase.inside(node.atoms)
        vector = vector_atom(node, inside)
        first = _earliest(node, space, home, inside)
        for position in range(first, len(nests)):
            if _is_crowded(nests[position], node, space):
                continue
            if set(node.reduced) & set(inside) and is_of_product(nests[position].nodes, space):
                continue  # accumulators are made into it: a reduction would keep it from them
            if not form.products_meet and _have_tiles([*nests[position].nodes, node]):
                continue
            if _join(nests[position], node, inside, vector):
                break
        else:
            position = len(nests)
            nests.append(_Nest(node, _order(node, inside, vector), vector))
        home[node] = position
    groups = tuple(_finish(nest, phase, device, form) for nest in nests)
    if form.epilogues:
        groups = with_epilogues(groups, space, phase, device)
    if form.flattened:
        groups = tuple(_with_long_rows(group, phase, device) for group in groups)
    groups = tuple(with_rows_apart(group, phase, device) for group in groups)
    if sum(group.is_product for group in groups) > 1:
        return groups  # others keep the store queue from filling
    return tuple(with_short_sums(group, space, phase, device) for group in groups)


def _is_crowded(nest: _Nest, node: Node, space: Space) -> bool:
    """Return whether `node` adds one more stream of stores and shares no value with the nest."""
    outputs = set(space.kernel.outputs)
    streams = [n for n in nest.nodes if n.stage.out in outputs]
    if len(streams) < SHAPES.streams or node.stage.out not in outputs:
        return False
    members = set(nest.nodes)
    return not any(e.producer in members for e in space.incoming.get(node, ()))


def _have_tiles(nodes: Iterable[Node]) -> bool:
    """Return whether one of several is a product with a register tile, which holds no other."""
    return any(register_tile(node) is not None for node in nodes)


def _earliest(node: Node, space: Space, home: dict[Node, int], inside: tuple[Atom, ...]) -> int:
    first = 0
    for edge in space.incoming.get(node, ()):
        if edge.producer not in home:
            continue
        same_point = is_at_same_point(edge, inside)
        first = max(first, home[edge.producer] + (0 if same_point else 1))
    return first


def _order(node: Node, inside: tuple[Atom, ...], vector: Atom | None) -> tuple[Atom, ...]:
    """Return loop order: large strides outside, the vector atom last.

    Where the last one is reduced, spatial dimensions come first: an accumulator lives in registers.
    Positions that are told apart share what they load: they follow each other.
    """
    apart = guards.select_unrolled(node)
    rest = sorted((a for a in inside if a is not vector), key=lambda a: a in apart)
    if vector is not None and vector in node.reduced:
        spatial = [a for a in rest if a in node.spatial]
        reduced = sorted((a for a in rest if a in node.reduced), key=lambda a: -_walk(node, a))
        rest = spatial + reduced
    elif node.reduced:
        rest.sort(key=lambda a: -_walk(node, a))
        if vector is None and rest and rest[-1] in node.reduced:
            rest.sort(key=lambda a: a in node.reduced)
    return (*rest, vector) if vector is not None else tuple(rest)


def _walk(node: Node, atom: Atom) -> int:
    return max((abs(a.stride(atom) or 0) for a in node.reads.values()), default=0)


def _join(nest: _Nest, node: Node, inside: tuple[Atom, ...], vector: Atom | None) -> bool:
    if set(nest.dims) != set(inside):
        return False
    if nest.vector is not vector and vector is not None and nest.vector is not None:
        return False
    members = [*nest.nodes, node]
    lead_vector = nest.vector or vector
    if _sums_over(members, lead_vector) and any(guards.select_unrolled(n) for n in members):
        return False  # positions told apart are emitted inside the strip, sums over lanes around it
    orders = [nest.dims, _order(node, inside, lead_vector)]
    for dims in orders:
        if lead_vector is not None and dims[-1] is not lead_vector:
            continue
        if all(keeps_accumulators(n, dims) for n in members):
            nest.nodes, nest.dims, nest.vector = members, dims, lead_vector
            return True
    return False


def _sums_over(nodes: Iterable[Node], atom: Atom | None) -> bool:
    return any(atom in n.reduced for n in nodes)


def _finish(nest: _Nest, phase: Phase, device: CpuDevice, form: Form) -> LoopNest:
    nodes, dims = tuple(nest.nodes), nest.dims
    if len(nodes) == 1:
        ways = ((form.register_tiles, _register_tile), (form.transposed, _transposed))
        for able, way in (*ways, (form.windows, _window)):
            found = way(nodes[0], dims, phase, device) if able else None
            if found is not None:
                return found
    last = max(0, len(dims) - 1)
    if len(nodes) == 1 and dims and dims[-1] in nodes[0].reduced:
        apart = guards.select_unrolled(nodes[0])
        if apart:  # no sum over lanes stands around positions told apart
            ranks = {d: 2 if d in apart else int(d in nodes[0].reduced) for d in dims}
            return LoopNest(nodes, tuple(sorted(dims, key=ranks.get)), 1, last)
    if nest.vector is None:
        return LoopNest(nodes, dims, 1, last)
    lanes = lanes_for(nest.nodes, phase.inner_extent(nest.vector), device)
    if any(guards.cuts(n, nest.vector) is None for n in nodes):
        lanes = 1
    if any(guards.cuts(n, nest.vector) for n in nodes) and nest.vector in phase.chunks:
        lanes = 1
    level = last
    if lanes > 1:
        level = _strip_level(nest, phase)
    apart = [d for d in phase.whole(dims) if any(d in guards.select_unrolled(n) for n in nodes)]
    beside = dims[-1 - len(apart) : -1] == tuple(apart) and not _sums_over(nodes, nest.vector)
    if lanes > 1 and apart and level == last and beside:
        closer = LoopNest(nodes, dims, lanes, last - len(apart))
        level = last if refuse_sums(closer, phase) else closer.strip_level
    if level < last and not any(n.reduced for n in nodes):
        lanes = min(lanes, device.vector_bytes // 4)
    return LoopNest(nodes, dims, lanes, level)


def _register_tile(
    node: Node, dims: tuple[Atom, ...], phase: Phase, device: CpuDevice
) -> LoopNest | None:
    """Order a contraction's loops as rows, strip, reduction, lanes."""
    tile = register_tile(node)
    if tile is None or tile.lane not in dims or tile.row not in dims:
        return None
    outer = [d for d in dims if d in node.spatial and d not in (tile.row, tile.lane)]
    reduced = [d for d in dims if d in node.reduced]
    order = (*outer, tile.row, *reduced, tile.lane)
    lanes = lanes_of(device, phase.inner_extent(tile.lane), node.stage.value.dtype)
    rows, chunk = rows_of(tile.row.extent, device), phase.inner_extent(tile.row)
    if chunk % rows:
        rows = rows_of(chunk, device)
    group = LoopNest((node,), order, lanes, len(outer) + 1, rows)
    if refuse_register_tile(group, phase) is not None:
        return None
    padding = padding_of(group, phase)
    if padding is None or padding.line is None:
        return group
    return replace(group, rows=rows_of(chunk, device, spans=padding.spans()))


def _transposed(
    node: Node, dims: tuple[Atom, ...], phase: Phase, device: CpuDevice
) -> LoopNest | None:
    """Order a transposing nest's loops: others, what it is stored along, what it is read along."""
    found = sides(node, device.vector_bytes)
    if found is None or not set(found) <= set(dims):
        return None
    stored, read = found
    order = (*(d for d in dims if d not in (read, stored)), stored, read)
    lanes = lanes_across(node, device.vector_bytes)
    group = LoopNest((node,), order, lanes, len(dims) - 1, transposed=True)
    return group if refuse_transposed(group, phase, device.vector_bytes) is None else None


def _window(node: Node, dims: tuple[Atom, ...], phase: Phase, device: CpuDevice) -> LoopNest | None:
    """Order the loops of a reduction over overlapping windows as rows, strip, taps, lanes."""
    lane = next((d for d in dims if node.store.stride(d) == 1), None)
    if lane is None:
        return None
    window = window_of(node, lane)
    if window is None or not {window.row, window.tap} <= set(dims):
        return None
    lanes = lanes_of(device, phase.inner_extent(lane), node.stage.value.dtype)
    rows = window_rows(node, window, lane, lanes, phase.inner_extent(window.row), device)
    if rows == 1:
        return None
    outer = [d for d in dims if d in node.spatial and d not in (window.row, lane)]
    reduced = [d for d in dims if d in node.reduced and d is not window.tap]
    order = (*outer, window.row, *reduced, window.tap, lane)
    group = LoopNest((node,), order, lanes, len(outer) + 1, rows, window=window)
    return group if refuse_window(group, phase) is None else None


def _with_long_rows(group: LoopNest, phase: Phase, device: CpuDevice) -> LoopNest:
    """Let the rows of a register tile run on over the atom outside them where all addresses do."""
    if not group.is_product or group.epilogue is not None or group.strip_level < 2:
        return group
    (node,), row = group.nodes, group.dims[group.strip_level - 1]
    outer = group.dims[: group.strip_level - 1]
    along = next((d for d in outer if runs_on(node, d, row, phase)), None)
    if along is None or row in phase.chunks:
        return group
    rows = rows_of(phase.inner_extent(along) * row.extent, device)
    dims = tuple(d for d in group.dims if d is not along)
    level = group.strip_level - 1
    return replace(group, dims=dims, strip_level=level, rows=rows, flattened_outer=along)


def _strip_level(nest: _Nest, phase: Phase) -> int:
    """Return inside how many loops the strip loop stands."""
    last = len(nest.dims) - 1
    first = [i for i, d in enumerate(nest.dims) if any(d in n.reduced for n in nest.nodes)]
    if not first:
        return _transposed_level(nest, phase)
    level = first[0]
    if level == last or any(nest.vector in n.reduced for n in nest.nodes):
        return last
    if not all(set(nest.dims[level:last]) <= set(n.reduced) for n in nest.nodes):
        return last
    return level


def _transposed_level(nest: _Nest, phase: Phase) -> int:
    """Return the level of the loop along which some read is contiguous though the lanes are not."""
    last = len(nest.dims) - 1
    for node in nest.nodes:
        for access in node.reads.values():
            if access.stride(nest.vector) in (0, 1, None):
                continue
            for level, dim in enumerate(nest.dims[:last]):
                if access.stride(dim) == 1 and phase.inner_extent(dim) >= SHAPES.blocked:
                    return level
    return last
