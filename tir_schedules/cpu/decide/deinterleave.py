"""Tile buffers whose lines are split: every second element in one half, the others in the other.

What a window of stride two reads along its lanes lies apart, and lanes would be loaded one by one.
Split lines are contiguous for it; who makes them splits them in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.iteration_space import Atom, Node, Space
from ...kernel_ir.expr import Axis, Expr, Load
from ...kernel_ir.index import Linear, normalize, to_expr
from ..plan.kernel_plan import LoopGroup, Phase, buffer_atoms

_WAYS = (2, 4)  # powers of two, as the lanes of a register are


@dataclass(frozen=True)
class Split:
    """A buffer's innermost atom: element x of a line is number `x // ways` of part `x % ways`."""

    atom: Atom
    ways: int

    @property
    def part(self) -> int:
        """The elements of a part; the last ones of some parts are unused."""
        return -(-self.atom.extent // self.ways)

    def apart(self, index: Expr) -> tuple[Expr, Expr]:
        """Return an index as `ways * a + b`, `a` without what is between two parts."""
        linear = normalize(index)
        whole = tuple(t for t in linear.terms if t.scale % self.ways == 0)
        rest = tuple(t for t in linear.terms if t.scale % self.ways)
        parts = tuple(t._replace(scale=t.scale // self.ways) for t in whole)
        return to_expr(Linear(0, parts)), to_expr(Linear(linear.const, rest))


def split_of(node: Node, phase: Phase, space: Space) -> Split | None:
    """Return how the lines of a node's tile buffer are split, None if all readers are not alike."""
    atoms, edges = buffer_atoms(node, phase), [e for e in space.edges if e.producer is node]
    if not atoms or not edges or node.reduced or node.store.stride(atoms[-1]) != 1:
        return None
    nests = {id(n): group for group in phase.nests() for n in group.nodes}
    if nests[id(node)].transposed or any(id(e.consumer) not in nests for e in edges):
        return None
    ways = {
        _lane_step(load, e.consumer, nests[id(e.consumer)], node, atoms[-1])
        for e in edges
        for load in e.consumer.reads
        if load.tensor is node.stage.out
    }
    return Split(atoms[-1], ways.pop()) if len(ways) == 1 and ways <= set(_WAYS) else None


def _lane_step(load: Load, reader: Node, group: LoopGroup, home: Node, line: Atom) -> int | None:
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
