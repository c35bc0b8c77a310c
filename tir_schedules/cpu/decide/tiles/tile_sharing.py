"""Tile buffers that are written over others: where each element is read for the last time.

The exps of a softmax take the place of its scores: lines that are in L1 already, and half of what a
tile of attention keeps in L2.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....analysis.iteration_space import Node, Space
from ....kernel_ir.expr import Tensor
from ...facts.memory.tile_sharing import may_overwrite
from ...plan.kernel_plan import Phase


def shared_tiles(phase: Phase, space: Space, crossing: Sequence[Tensor]) -> dict[Node, Node]:
    """Return each node of a tile whose buffer is another's, and that node, which has its own.

    `crossing` are the tensors of other phases too.
    """
    found: dict[Node, Node] = {}
    kept = phase.buffered(space, crossing)
    for writer in kept:
        over = next((n for n in kept if may_overwrite(writer, n, phase, space)), None)
        if over is not None:
            found[writer] = found.get(over, over)
    return found
