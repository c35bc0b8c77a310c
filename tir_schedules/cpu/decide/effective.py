"""What a nest's knobs can change: of one that changes nothing no other candidate is tried."""

from __future__ import annotations

from ...analysis.iteration_space import Atom
from ...kernel_ir.expr import Op, walk
from ..facts.division import BY_RECIPROCAL
from ..plan.kernel_plan import LoopNest


def may_shuffle(nest: LoopNest, lanes: Atom | None) -> bool:
    """Return whether lanes along an atom read or store apart what shuffles may bring together."""
    if lanes is None or nest.transposed:  # which has shuffles of its own
        return False
    accesses = (each for node in nest.nodes for each in (node.store, *node.reads.values()))
    return any(each.stride(lanes) not in (0, 1) for each in accesses)


def may_divide(nest: LoopNest, lanes: Atom | None) -> bool:
    """Return whether lanes divide numbers of a type that reciprocals are made of."""
    if lanes is None:
        return False
    values = (each for node in nest.nodes for each in walk(node.stage.value))
    return any(isinstance(e, Op) and e.name == "Div" and e.dtype in BY_RECIPROCAL for e in values)
