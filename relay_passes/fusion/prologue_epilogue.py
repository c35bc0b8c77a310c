"""Ops before a product, and those behind it beyond its epilogue, in the product's own kernel.

LayerNorm behind a projection is the case of every transformer (oneDNN Graph Compiler, arXiv
2301.01333, section 4: anchors of pre- and post-ops). Where tiles that hold what they need fit the
cache and are enough, it never leaves them; otherwise the op is a phase of its own in the same
parallel region (AStitch, section 4: global scheme).
"""

from __future__ import annotations

from collections.abc import Iterator

from tir_schedules.analysis.kernel_facts import COMPUTE

from ..graph.group import Group
from ..graph.legality import refuse_node
from ..graph.op_graph import OpGraph, OpNode
from .merge_groups import union_of


def row_epilogues(graph: OpGraph, home: dict[OpNode, Group], reach: int) -> Iterator[list[OpNode]]:
    """Return products with the ops behind them, up to the next product."""
    for node, group in _products(graph, home):
        legal: list[OpNode] = []
        for each in _behind(group, home, reach):
            if union_of([node, *legal, each], home) is not None:
                legal.append(each)
        if legal:
            yield [node, *legal]


def prologues(graph: OpGraph, home: dict[OpNode, Group], reach: int) -> Iterator[list[OpNode]]:
    """Return products with the ops before them that nothing else reads."""
    for node, group in _products(graph, home):
        if before := _before(group, home, reach):
            yield [*before, node]


def _products(graph: OpGraph, home: dict[OpNode, Group]) -> Iterator[tuple[OpNode, Group]]:
    """Return each group that has a product once, and its first one."""
    seen: set[Group] = set()
    for node in graph.nodes:
        group = home[node]
        if node.op_class == COMPUTE and group not in seen:
            seen.add(group)
            yield node, group


def _behind(group: Group, home: dict[OpNode, Group], reach: int) -> list[OpNode]:
    """Return the ops that a group's results reach through no other product, in order."""
    found: dict[OpNode, None] = {}
    queue = [c for n in group.nodes for c in n.consumers]
    while queue and len(found) < reach:
        node = queue.pop(0)
        if home[node] is not group and node not in found and _is_free(node, home):
            found[node] = None
            queue += node.consumers
    return sorted(found, key=lambda n: n.index)


def _before(group: Group, home: dict[OpNode, Group], reach: int) -> list[OpNode]:
    """Return the ops of which each is read by the group and by others of them only, in order."""
    inside = set(group.nodes)
    found: list[OpNode] = []
    queue = [p for n in group.nodes for p in n.producers]
    while queue and len(found) < reach:
        node = queue.pop(0)
        if node in inside or node.escapes or not _is_free(node, home):
            continue
        if all(c in inside for c in node.consumers):
            inside.add(node)
            found.append(node)
            queue += node.producers
    return sorted(found, key=lambda n: n.index)


def _is_free(node: OpNode, home: dict[OpNode, Group]) -> bool:
    """Return whether an op may join a kernel and is in none that has a product."""
    if refuse_node(node) is not None:
        return False
    return all(n.op_class != COMPUTE for n in home[node].nodes)
