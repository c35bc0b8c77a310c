"""What nodes that share a nest ask of its loops, and of each other: decided by, and checked by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...analysis.iteration_space import Atom, Edge, Node


class Accumulation(NamedTuple):
    """Where a sum is kept in a nest: `level` is inside how many loops it begins and ends.

    `streamed` are the loops inside the first reduced one over what it stores, for which it is added
    to where its result is; without any it stays in registers.
    """

    level: int
    streamed: tuple[Atom, ...]


def accumulation(node: Node, dims: Sequence[Atom], strip: int) -> Accumulation:
    """Return where a sum over some of `dims` is kept; strips stand inside `strip` of them."""
    level = next(at for at, d in enumerate(dims) if d in node.reduced)
    after = tuple(d for d in dims[level:] if d not in node.reduced)
    in_strip = strip < len(dims) - 1 and after == (dims[-1],)
    return Accumulation(level, () if in_strip else after)


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
