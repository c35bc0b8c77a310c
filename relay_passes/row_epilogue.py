"""Reductions over the rows of a product, in the kernel that makes these rows.

LayerNorm behind a projection is the case of every transformer (oneDNN Graph Compiler, arXiv
2301.01333, section 4: post-ops at an anchor that sees whole rows). Where the rows of a tile fit the
cache and are tiles enough, they never leave it; otherwise the reduction is a phase of its own in
the same parallel region (AStitch, section 4: global scheme).
"""

from __future__ import annotations

from collections.abc import Iterator

from tir_schedules.analysis.summary import COMPUTE, REDUCTION

from .group import Group
from .joins import union_of
from .legality import refuse_node
from .op_graph import OpGraph, OpNode

_REACH = 32  # ops behind a product that are looked at


def row_epilogues(graph: OpGraph, home: dict[int, Group]) -> Iterator[list[OpNode]]:
    """Return products with the ops behind them, reductions among these, up to the next product."""
    seen: set[int] = set()
    for node in graph.nodes:
        group = home[id(node)]
        if node.op_class != COMPUTE or id(group) in seen:
            continue
        seen.add(id(group))
        legal: list[OpNode] = []
        for each in _behind(group, home):
            if union_of([node, *legal, each], home) is not None:
                legal.append(each)
        if any(n.op_class == REDUCTION for n in legal):
            yield [node, *legal]


def _behind(group: Group, home: dict[int, Group]) -> list[OpNode]:
    """Return the ops that a group's results reach through no other product, in order."""
    found: dict[int, OpNode] = {}
    queue = [c for n in group.nodes for c in n.consumers]
    while queue and len(found) < _REACH:
        node = queue.pop(0)
        if home[id(node)] is group or id(node) in found or refuse_node(node) is not None:
            continue
        if any(n.op_class == COMPUTE for n in home[id(node)].nodes):
            continue
        found[id(node)] = node
        queue += node.consumers
    return sorted(found.values(), key=lambda n: n.index)
