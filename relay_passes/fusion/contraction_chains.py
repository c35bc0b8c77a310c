"""Coarse-grain fusion: two products, and what stands between them, in one kernel.

Attention is the case that pays most: a tile is some rows of the scores, which stay in L2 from the
first product through the softmax into the second (oneDNN Graph Compiler, arXiv 2301.01333,
section 5).
"""

from __future__ import annotations

from collections.abc import Iterator

from tir_schedules.analysis.kernel_facts import COMPUTE

from ..graph.legality import refuse_node
from ..graph.op_graph import OpGraph, OpNode


def chains(graph: OpGraph, reach: int) -> Iterator[list[OpNode]]:
    """Return each product behind another one, with that and the ops between them."""
    for node in graph.nodes:
        if node.op_class == COMPUTE and refuse_node(node) is None:
            yield from _before(node, reach)


def _before(last: OpNode, reach: int) -> Iterator[list[OpNode]]:
    """Return the products that reach `last` through other ops only, each with what is between."""
    seen: dict[OpNode, None] = {}
    products: dict[OpNode, None] = {}
    queue = list(last.producers)
    while queue and len(seen) <= reach:
        node = queue.pop()
        if node.op_class == COMPUTE:
            products[node] = None
        elif node not in seen:
            seen[node] = None
            queue += node.producers
    for product in sorted(products, key=lambda n: -n.index):
        reached = {product}
        between = []
        for node in sorted(seen, key=lambda n: n.index):
            if any(p in reached for p in node.producers):
                reached.add(node)
                between.append(node)
        yield [product, *between, last]
