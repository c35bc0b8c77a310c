"""The last lanes of a register tile, where they fill little of a register.

A register of one lane takes as many multiply-adds as a full one. Of rows that lie along the depth
such a lane can be summed with the depth in its lanes instead, a sixteenth of them: what the lanes
read, each element a row of the weight apart, is gathered for all rows at once, and each row's lanes
are added up at the end. With one thread of Emerald Rapids, with and without in turn, 4096 x n x 512
took 0.75 of the time for n of 17, 0.72 for 19, 0.80 for 20; where more instructions are counted
than a register takes, for 21 and 22, nearly the same.
"""

from __future__ import annotations

import math

from ....analysis.iteration_space import Access
from ....kernel_ir.expr import dtype_bytes
from ...plan.kernel_plan import LoopNest, Phase
from .. import guards
from ..padding import bounds_of


def register_lanes(group: LoopNest, vector_bytes: int) -> int:
    """Return how many sums of a register tile fill a register."""
    return vector_bytes // max(4, dtype_bytes(group.nodes[0].stage.value.dtype))


def lanes_along_depth(left: int, group: LoopNest, phase: Phase, vector_bytes: int) -> int:
    """Return how many of the `left` lanes behind whole strips are summed along the depth."""
    behind = left % register_lanes(group, vector_bytes)
    share = share_of_strip(behind, group, phase, vector_bytes)
    return behind if share < 1.0 else 0


def share_of_strip(lanes: int, group: LoopNest, phase: Phase, vector_bytes: int) -> float:
    """Return the instructions of lanes summed along the depth over a register's of lanes.

    Infinite where they may not be: rows do not lie along it, or terms are chosen by place.
    """
    if not lanes or not _may(group, phase):
        return math.inf
    register, rows = register_lanes(group, vector_bytes), group.rows
    registers, rest = divmod(group.dims[-2].extent, register)
    # Each gathered element is loaded and put in its lane; halves of a register are shuffled, added.
    apart = registers * (rows + 2 * register) + rest * (rows + 1)
    apart += rows * 2 * int(math.log2(register))
    return lanes * apart / (group.dims[-2].extent * (rows + 1))


def _may(group: LoopNest, phase: Phase) -> bool:
    if not group.is_product or group.transposed or len(group.nodes) != 1:
        return False
    (node,), (depth, lane) = group.nodes, group.dims[-2:]
    if group.dims[group.strip_level : -1] != (depth,) or depth in phase.chunks:
        return False
    if node.reduced != (depth,) or node.stage.reduction.kind != "sum":
        return False
    if bounds_of(node) is not None or guards.cuts(node, depth) != []:
        return False
    return all(_is_walked(access, depth, lane) for access in node.reads.values())


def _is_walked(access: Access, depth: object, lane: object) -> bool:
    """Return whether lanes along the depth read a row as it lies, or what is another a lane."""
    if access.opaque or access.stride(depth) is None:
        return False
    return access.stride(lane) == 1 or access.stride(depth) in (0, 1)
