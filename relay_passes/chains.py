"""Coarse-grain fusion: two products, and what stands between them, in one kernel.

Attention is the case that pays most: a tile is some rows of the scores, which stay in L2 from the
first product through the softmax into the second (oneDNN Graph Compiler, arXiv 2301.01333,
section 5).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable

from tir_schedules.analysis.summary import COMPUTE

from .group import Group
from .legality import has_outer_path, refuse_node
from .op_graph import OpGraph, OpNode

_REACH = 32  # ops between two products that are looked at

# Why a group is no kernel, or None, and its time in ns.
Judge = Callable[[Group], tuple[str | None, float]]


def fuse_chains(
    graph: OpGraph, home: dict[int, Group], judge: Judge, spend: Callable[[], bool]
) -> None:
    """Join products with those before them where a kernel of both takes less time, best first.

    `home` has each op's group and is changed; `spend` is asked before each join.
    """
    pairs = [
        (gain, (first, between, node))
        for node in graph.nodes
        if node.op_class == COMPUTE and refuse_node(node) is None
        for first, between in _before(node)
        if (gain := _gain(_union(first, between, node, home), home, judge)) > 0
    ]
    for _, pair in sorted(pairs, key=lambda p: -p[0]):
        union = _union(*pair, home)
        if _gain(union, home, judge) <= 0:
            continue
        if not spend():
            return
        for member in union.nodes:
            home[id(member)] = union


def _before(last: OpNode) -> list[tuple[OpNode, list[OpNode]]]:
    """Return the products that reach `last` through other ops only, with the ops on the way."""
    seen: dict[int, OpNode] = {}
    products: dict[int, OpNode] = {}
    queue = list(last.producers)
    while queue and len(seen) <= _REACH:
        node = queue.pop()
        if node.op_class == COMPUTE:
            products[id(node)] = node
        elif id(node) not in seen:
            seen[id(node)] = node
            queue += node.producers
    found = []
    for product in sorted(products.values(), key=lambda n: -n.index):
        reached = {id(product)}
        between = []
        for node in sorted(seen.values(), key=lambda n: n.index):
            if any(id(p) in reached for p in node.producers):
                reached.add(id(node))
                between.append(node)
        found.append((product, between))
    return found


def _union(
    first: OpNode, between: list[OpNode], last: OpNode, home: dict[int, Group]
) -> Group | None:
    """Return the groups of these ops as one, None if that is no legal kernel."""
    groups = {id(g): g for n in (first, *between, last) if (g := home[id(n)])}
    if len(groups) == 1:
        return None
    nodes = sorted((n for g in groups.values() for n in g.nodes), key=lambda n: n.index)
    if any(refuse_node(n) is not None for n in nodes):
        return None
    union = Group(nodes)
    inside = {id(n): union for n in nodes}
    return None if has_outer_path(union, union, ChainMap(inside, home)) else union


def _gain(union: Group | None, home: dict[int, Group], judge: Judge) -> float:
    """Return the ns that one kernel of these ops saves, 0 if there is none."""
    if union is None:
        return 0.0
    refusal, together = judge(union)
    if refusal is not None:
        return 0.0
    groups = {id(g): g for n in union.nodes if (g := home[id(n)])}
    products = [g for g in groups.values() if any(n.op_class == COMPUTE for n in g.nodes)]
    rest = [g for g in groups.values() if not any(g is p for p in products)]
    apart = sum(judge(g)[1] for g in products)
    if rest:
        whole = Group(sorted((n for g in rest for n in g.nodes), key=lambda n: n.index))
        refusal, time = judge(whole)
        apart += time if refusal is None else sum(judge(g)[1] for g in rest)
    return apart - together
