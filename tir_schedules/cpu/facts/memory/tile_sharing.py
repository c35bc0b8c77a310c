"""Whether a tile buffer may be written over another: all have read what it takes the place of."""

from __future__ import annotations

from ....analysis.iteration_space import Node, Space
from ...plan.kernel_plan import Phase, buffer_atoms
from .deinterleave import deinterleave_of
from .overwrite import is_same_element, places_in, refuse_nest


def may_overwrite(writer: Node, operand: Node, phase: Phase, space: Space) -> bool:
    """Return whether a result may be written over one made before it in the same tile."""
    there = operand.stage.out
    if not any(a.tensor is there for a in writer.reads.values()):
        return False
    if not _is_alike(writer, operand, phase, space):
        return False
    ((nest, turn),) = places_in(phase, writer)
    if refuse_nest(phase.groups[nest], writer, phase) is not None:
        return False
    for reader in space.nodes:
        for access in (a for a in reader.reads.values() if a.tensor is there):
            ((other, then),) = places_in(phase, reader)
            if (other, then) > (nest, turn):
                return False
            if other == nest and not is_same_element(access, writer.store):
                return False
    return True


def _is_alike(writer: Node, operand: Node, phase: Phase, space: Space) -> bool:
    """Return whether two tile buffers have an element of the same point in the same place."""
    if writer.stage.out.dtype != operand.stage.out.dtype:
        return False
    if deinterleave_of(writer, phase, space) is not None:
        return False  # the operand is not: the writer reads it in order
    return buffer_atoms(writer, phase) == buffer_atoms(operand, phase)
