"""Which ops may run in the registers of a matrix product or convolution, behind it."""

from __future__ import annotations

from tir_schedules.analysis.summary import EXPENSIVE, INJECTIVE, LIGHT

from .legality import refuse_node
from .op_graph import OpNode


def epilogue_chain(anchor: OpNode) -> list[OpNode]:
    """Return the ops that follow `anchor` one for one: element-wise, then a change of layout.

    The chain ends where a value has a second reader or leaves the block, and behind the first
    change of layout: the tile is stored from there.
    """
    chain: list[OpNode] = []
    current = anchor
    while True:
        after = _only_reader(current)
        if after is None or refuse_node(after) is not None:
            return chain
        if after.op_class not in (LIGHT, EXPENSIVE, INJECTIVE) or not _same_points(current, after):
            return chain
        chain.append(after)
        current = after


def _only_reader(node: OpNode) -> OpNode | None:
    if node.escapes or len(node.outputs) != 1 or len(node.consumers) != 1:
        return None
    return node.consumers[0]


def _same_points(node: OpNode, after: OpNode) -> bool:
    made = node.outputs[0]
    if len(after.outputs) != 1 or after.outputs[0].elements != made.elements:
        return False
    return sum(t is made for t in after.inputs) == 1 or after.op_class == LIGHT
