"""Which nodes may meet in a phase, and which axes may number its tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...analysis.iteration_space import Node, Space
from ...kernel_ir.expr import Tensor
from ..facts.memory.layout import cross_phase
from ..plan.kernel_plan import Phase


def refuse_phases(phases: Sequence[Phase], space: Space) -> str | None:
    """Return why phases do not make the kernel: order, tiles or the nodes in them, or None."""
    reason = _refuse_order(phases, space)
    if reason is not None:
        return reason
    reasons = _refused_tiles(phases, space)
    return next((reason for reason in reasons if reason is not None), None)


def _refuse_order(phases: Sequence[Phase], space: Space) -> str | None:
    begins: dict[Node, int] = {}
    ends: dict[Node, int] = {}
    nests: dict[Node, int] = {}
    for at, phase in enumerate(phases):
        for node in phase.nodes:
            if node in begins and not phase.combine:
                return f"{node.stage.name} is in two phases"
            begins.setdefault(node, at)
            ends[node] = at
        if phase.combine:
            continue
        grouped = [n for g in phase.groups for n in g.all_nodes()]
        if len(grouped) != len(set(grouped)) or set(grouped) != set(phase.nodes):
            return "the nests of a phase do not have each of its nodes once"
        nests |= {n: at for at, g in enumerate(phase.groups) for n in g.all_nodes()}
    if set(begins) != set(space.nodes):
        return "a node is in no phase"
    for edge in space.edges:
        made, read = ends[edge.producer], begins[edge.consumer]
        if made > read or (made == read and nests[edge.producer] > nests[edge.consumer]):
            return f"{edge.consumer.stage.name} reads {edge.producer.stage.name} before it is made"
    return None


def _refused_tiles(phases: Sequence[Phase], space: Space) -> Iterator[str | None]:
    kept = {*space.kernel.outputs, *cross_phase(space, phases)}
    for phase in phases:
        if not phase.combine:
            yield _refuse_tile(phase)
            yield _refuse_partial(phase, space)
            yield _refuse_unaligned(phase, space)
            yield _refuse_repeated(phase, kept)
            yield _refuse_serial(phase, space)


def _refuse_tile(phase: Phase) -> str | None:
    if len(set(phase.tile)) != len(phase.tile):
        return "an axis numbers tiles twice"
    for atom, size in phase.chunks.items():
        if not 1 <= size <= atom.extent:
            return f"chunks of {size} of an axis of {atom.extent}"
    return None


def _refuse_partial(phase: Phase, space: Space) -> str | None:
    """Return why tiles may not cut the sums that they do, or None."""
    cut = [n for n in phase.nodes if set(phase.tile) & set(n.reduced)]
    if set(cut) != set(phase.partial):
        return "tiles cut sums of nodes that are not partial"
    if not cut:
        return None
    if len(phase.tile) != 1 or phase.serial_tile_axis is not None:
        return "tiles that cut sums are of one axis"
    (atom,) = phase.tile
    if atom not in phase.chunks:
        return "tiles that cut sums are chunks of the axis"
    if any(atom not in n.atoms for n in phase.nodes):
        return "a node has not the axis along which sums are cut"
    if any(e.producer in cut and e.consumer in phase.nodes for e in space.edges):
        return "a partial sum is read before it is added up"
    return None


def _refuse_unaligned(phase: Phase, space: Space) -> str | None:
    for edge in space.edges:
        inside = edge.producer in phase.nodes and edge.consumer in phase.nodes
        if inside and edge.unaligned & set(phase.tile):
            return f"{edge.consumer.stage.name} reads other tiles than its own"
    return None


def _refuse_repeated(phase: Phase, kept: set[Tensor]) -> str | None:
    """Return why a node may not be made anew in each tile along an axis that it has not."""
    for node in phase.nodes:
        apart = [a for a in phase.numbering() if a not in node.atoms]
        if apart and node.stage.out in kept:
            return f"several tiles would write {node.stage.name}"
    return None


def _refuse_serial(phase: Phase, space: Space) -> str | None:
    row = phase.serial_tile_axis
    if row is None:
        return None
    if row not in phase.chunks:
        return "a loop in each tile goes in chunks"
    along = {n for n in phase.nodes if row in n.atoms}
    for group in phase.groups:
        if len({n in along for n in group.all_nodes()}) > 1:
            return "a nest is in part along the loop in a tile"
    for edge in space.edges:
        if edge.producer in along and edge.consumer in phase.nodes and edge.consumer not in along:
            return "what is made once in a tile reads what is made along its loop"
    return None
