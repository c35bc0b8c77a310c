"""What attention in one pass over its keys asks of operands, and what follows from its sizes."""

from __future__ import annotations

from ...analysis.iteration_space import Atom, Node
from ...analysis.limits import LIMITS
from ...kernel_ir.cost import EXPENSIVE
from ...kernel_ir.expr import Load, Op, loads, walk
from ...patterns.match_attention import Attention


def refuse_streaming(at: Attention) -> str | None:
    """Return why one pass over blocks of keys does not compute an attention, or None."""
    if at.key.extent < LIMITS.least_lanes:
        return "too few keys for a register tile"
    if any(n.name in EXPENSIVE for e in (at.query, at.keys) for n in walk(e) if isinstance(n, Op)):
        return "queries or keys are expensive to compute"
    if at.values.reads[at.value].stride(at.column) != 1:
        return "values are not contiguous along the columns"
    if at.result.store.stride(at.column) != 1:
        return "the result is not contiguous along the columns"
    if not are_transposed(at) and _steps(at, at.key) - {0} != {1}:
        return "keys are contiguous along neither axis"
    return None


def are_transposed(at: Attention) -> bool:
    """Return whether keys come contiguous along the depth and not from key to key."""
    return 1 not in _steps(at, at.key) and 1 in _steps(at, at.depth)


def _steps(at: Attention, atom: Atom) -> set[int | None]:
    return {_stride(load, at.scores, atom) for load in loads(at.keys)}


def _stride(load: Load, node: Node, atom: Atom) -> int | None:
    return node.reads[load].stride(atom)
