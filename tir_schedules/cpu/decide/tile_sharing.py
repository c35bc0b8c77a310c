"""Tile buffers that are written over others: where each element is read for the last time.

The exps of a softmax take the place of its scores: lines that are in L1 already, and half of what a
tile of attention keeps in L2.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.iteration_space import Node, Space
from ...kernel_ir.expr import Tensor
from ..facts.overwrite import is_same_element, places_in, refuse_nest
from ..plan.kernel_plan import Phase, buffer_atoms
from .deinterleave import split_of


def shared_tiles(phase: Phase, space: Space, crossing: Sequence[Tensor]) -> dict[int, Tensor]:
    """Return, by its id, each tensor of a tile that is in the buffer of another, and that other.

    A tensor named as the other has a buffer of its own. `crossing` are those of other phases too.
    """
    found: dict[int, Tensor] = {}
    kept = phase.buffered(space, crossing)
    for writer in kept:
        over = next((n.stage.out for n in kept if _is_over(writer, n, phase, space)), None)
        if over is not None:
            found[id(writer.stage.out)] = found.get(id(over), over)
    return found


def _is_over(writer: Node, operand: Node, phase: Phase, space: Space) -> bool:
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
    if split_of(writer, phase, space) is not None:
        return False  # the operand is not: the writer reads it in order
    return buffer_atoms(writer, phase) == buffer_atoms(operand, phase)
