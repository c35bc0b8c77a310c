"""Which ops may run in the registers of a matrix product or convolution, behind it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, MutableMapping, Sequence

from tir_schedules.analysis.kernel_facts import EXPENSIVE, INJECTIVE, LIGHT

from ..graph.group import Group
from ..graph.legality import refuse_merge, refuse_node
from ..graph.op_graph import OpNode


def absorb_epilogues(
    anchor: OpNode,
    home: MutableMapping[OpNode, Group],
    refuse: Callable[[Group], str | None],
    spend: Callable[[Sequence[OpNode]], bool],
) -> None:
    """Give a compute-intensive op its epilogue, as far as it reaches without a cycle.

    `home` has each op's group and is changed; `refuse` says why a group would run slower than its
    product by itself: a change of layout may cut through the lanes of the register tile. `spend` is
    asked before each join of ops.
    """
    whole: MutableMapping[OpNode, Group] = ChainMap({}, home)
    _grow(anchor, whole, _anything, _anything)
    loses = refuse(whole[anchor])
    if loses is None or loses == (alone := refuse(home[anchor])):
        _grow(anchor, home, _anything, spend)
    else:
        _grow(anchor, home, lambda union: refuse(union) in (None, alone), spend)


def _anything(_asked: object) -> bool:
    return True


def _grow(
    anchor: OpNode,
    home: MutableMapping[OpNode, Group],
    may: Callable[[Group], bool],
    spend: Callable[[Sequence[OpNode]], bool],
) -> None:
    grown = True
    while grown:
        grown = False
        for node in epilogue_candidates(home[anchor], anchor):
            mine, other = home[anchor], home[node]
            if len(other.nodes) > 1 or refuse_merge(mine, other, home) is not None:
                continue
            union = mine.union(other)
            if not may(union):
                continue
            if not spend([anchor, node]):
                return
            for member in union.nodes:
                home[member] = union
            grown = True


def epilogue_candidates(group: Group, anchor: OpNode) -> list[OpNode]:
    """Return ops that read the group point for point: element-wise ones, or a change of layout.

    A change of layout must be the only reader of its value: the tile is stored from there.
    """
    members = set(group.nodes)
    found: dict[OpNode, None] = {}
    for node in group.nodes:
        for reader in node.consumers:
            if reader not in members and _fits(node, reader, anchor):
                found[reader] = None
    return sorted(found, key=lambda n: n.index)


def _fits(node: OpNode, reader: OpNode, anchor: OpNode) -> bool:
    if refuse_node(reader) is not None or len(reader.outputs) != 1 or len(node.outputs) != 1:
        return False
    if reader.outputs[0].elements != anchor.outputs[0].elements:
        return False
    if reader.op_class in (LIGHT, EXPENSIVE):
        return True
    if reader.op_class != INJECTIVE or node.escapes or len(node.consumers) != 1:
        return False
    return sum(t is node.outputs[0] for t in reader.inputs) == 1
