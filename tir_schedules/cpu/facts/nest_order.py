"""What nodes that share a nest ask of its loops, and of each other: decided by, and checked by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...analysis.iteration_space import Atom, Edge, Node


def keeps_accumulators(node: Node, dims: Sequence[Atom]) -> bool:
    """Return whether reduced lanes leave a register accumulator: spatial before reduced."""
    if not dims or dims[-1] not in node.reduced:
        return True
    roles = [d in node.reduced for d in dims]
    return roles == sorted(roles)


def is_at_same_point(edge: Edge, inside: Iterable[Atom]) -> bool:
    """Return whether a consumer reads what is made at the same point of loops over `inside`."""
    made = edge.producer
    return not made.reduced and not edge.unaligned and set(made.atoms) >= set(inside)
