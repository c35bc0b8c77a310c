"""Tile buffers whose lines may be split: every second element in one half, the others in the other.

What a window of stride two reads along its lanes lies apart, and lanes would be loaded one by one.
Split lines are contiguous for it; who makes them splits them in registers.
"""

from __future__ import annotations

from ....analysis.iteration_space import Atom, Node, Space
from ....kernel_ir.expr import Axis, Load
from ....kernel_ir.index import normalize
from ...plan.kernel_plan import LoopNest, Phase, buffer_atoms
from ...plan.memory import Deinterleave

_WAYS = (2, 4)  # powers of two, as the lanes of a register are


def deinterleave_of(node: Node, phase: Phase, space: Space) -> Deinterleave | None:
    """Return how the lines of a node's tile buffer are split, None if all readers are not alike."""
    atoms, edges = buffer_atoms(node, phase), [e for e in space.edges if e.producer is node]
    if not atoms or not edges or node.reduced or node.store.stride(atoms[-1]) != 1:
        return None
    nests = {n: group for group in phase.nests() for n in group.nodes}
    if nests[node].transposed or any(e.consumer not in nests for e in edges):
        return None
    ways = {
        _lane_step(load, e.consumer, nests[e.consumer], node, atoms[-1])
        for e in edges
        for load in e.consumer.reads
        if load.tensor is node.stage.out
    }
    return Deinterleave(atoms[-1], ways.pop()) if len(ways) == 1 and ways <= set(_WAYS) else None


def _lane_step(load: Load, reader: Node, group: LoopNest, home: Node, line: Atom) -> int | None:
    """Return how far apart on its line the lanes of a reader are, None if not only there."""
    last = load.index[-1]
    base = normalize(home.stage.out_index[-1]).terms
    if group.lanes == 1 or not base or home.digits[base[0].base] != ((line, 1),):
        return None
    lane, steps = group.dims[-1], []
    for index in load.index:
        for term in normalize(index).terms:
            if not isinstance(term.base, Axis):
                return None
            if any(a is lane for a, _ in reader.digits[term.base]):
                steps.append((index is last, term))
    if len(steps) != 1:
        return None
    ((inside, term),) = steps
    whole = term.low == 1 and reader.digits[term.base] == ((lane, 1),)
    return term.scale if inside and whole else None
