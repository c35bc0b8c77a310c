"""What rows of a register tile read that can be copied side by side first."""

from __future__ import annotations

from ....analysis.iteration_space import Access, Atom
from ....device import LINE_BYTES
from ....kernel_ir.expr import Load, dtype_bytes
from ...plan.kernel_plan import LoopNest, Phase, buffer_atoms, buffer_stride


def packable(group: LoopNest, phase: Phase) -> Load | None:
    """Return what a register tile reads row by row, some lines of each, None if it can't be packed.

    Whole lines are read: all of them must be elements of the tensor, along the whole depth.
    """
    if not group.is_product or group.strip_level > len(group.dims) - 2:
        return None
    (node,), depth, lane = group.nodes, group.dims[-2], group.dims[-1]
    row = group.dims[group.strip_level - 1]
    if depth in phase.chunks:
        return None
    for load, access in node.reads.items():
        steps = (access.stride(a) for a in (depth, lane, row))
        if next(steps) == 1 and next(steps) == 0 and next(steps) and node.stays_inside(access):
            whole = depth.extent * dtype_bytes(load.dtype) >= 2 * LINE_BYTES
            return load if whole and load.dtype in ("float32", "float64") else None
    return None


def row_stride(access: Access, row: Atom, phase: Phase) -> int:
    """Return how many elements two rows are apart, in the tile buffer of what is made here."""
    home = next((n for n in phase.nodes if n.stage.out is access.tensor), None)
    if home is None or row not in buffer_atoms(home, phase):
        return abs(access.stride(row))
    return buffer_stride(home, row, phase)
