"""Which nodes read along one atom and store along another, and in blocks of what side.

A transposed read gathers a lane at a time. Read where they are contiguous, blocks of lanes x lanes
are transposed in registers instead (`emit.transposed`).
"""

from __future__ import annotations

from ...analysis.iteration_space import Atom, Node
from ...kernel_ir.expr import dtype_bytes
from . import guards

_DTYPES = frozenset(("float32", "float64", "int32", "int64"))


def lanes_across(node: Node, vector_bytes: int) -> int:
    """Return the side of a node's blocks: what one register holds."""
    return vector_bytes // dtype_bytes(node.stage.out.dtype)


def sides(node: Node, vector_bytes: int) -> tuple[Atom, Atom] | None:
    """Return the atoms that a node is stored and read along, None if it is not transposed.

    Everything it reads must be contiguous along the second, or the same; no condition may depend on
    either.
    """
    stage, reads = node.stage, node.reads.values()
    if stage.reduction is not None or stage.out.dtype not in _DTYPES:
        return None
    if any(access.tensor.dtype != stage.out.dtype for access in reads):
        return None
    large = [a for a in node.spatial if a.extent >= lanes_across(node, vector_bytes)]
    stored = next((a for a in large if node.store.stride(a) == 1), None)
    crossed = [a for a in reads if stored is not None and a.stride(stored) not in (0, 1)]
    for atom in large if crossed else ():
        if any(a.opaque or a.stride(atom) not in (0, 1) for a in reads):
            continue
        if all(a.stride(atom) == 1 for a in crossed):
            free = all(guards.cuts(node, each) == [] for each in (stored, atom))
            return (stored, atom) if free else None
    return None
