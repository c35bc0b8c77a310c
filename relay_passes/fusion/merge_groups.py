"""Unions of groups around products: which are legal, what they save, the best of them first."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence

from tir_schedules.analysis.kernel_facts import COMPUTE

from ..cost.contraction_cost import ProductJudge
from ..graph.group import Group
from ..graph.legality import has_outer_path, refuse_node
from ..graph.op_graph import OpNode


def join_best(
    candidates: Iterable[Sequence[OpNode]],
    home: dict[OpNode, Group],
    judge: ProductJudge,
    doubt: float,
    spend: Callable[[Sequence[OpNode]], bool],
) -> None:
    """Make the groups of candidates one where a kernel of them takes no more time, best first.

    Or little more: `doubt` of it. `home` has each op's group and is changed; `spend` is asked
    before each join of ops.
    """
    gains = [(saved(nodes, home, judge, doubt), nodes) for nodes in candidates]
    known = [(gain, nodes) for gain, nodes in gains if gain is not None]
    for _, nodes in sorted(known, key=lambda pair: -pair[0]):
        if saved(nodes, home, judge, doubt) is None:
            continue
        if not spend(nodes):
            return
        union = union_of(nodes, home)
        for member in union.nodes:
            home[member] = union


def union_of(nodes: Iterable[OpNode], home: dict[OpNode, Group]) -> Group | None:
    """Return the groups of these ops as one, None if they are or that is no legal kernel."""
    groups = dict.fromkeys(home[n] for n in nodes)
    if len(groups) == 1:
        return None
    members = sorted((n for g in groups for n in g.nodes), key=lambda n: n.index)
    if any(refuse_node(n) is not None for n in members):
        return None
    union = Group(members)
    inside = dict.fromkeys(members, union)
    return None if has_outer_path(union, union, ChainMap(inside, home)) else union


def saved(
    nodes: Sequence[OpNode], home: dict[OpNode, Group], judge: ProductJudge, doubt: float
) -> float | None:
    """Return the ns that one kernel of the ops' groups saves, None if it is none or slower."""
    union = union_of(nodes, home)
    if union is None:
        return None
    refusal, together = judge(union)
    if refusal is not None:
        return None
    groups = dict.fromkeys(home[n] for n in union.nodes)
    products = [g for g in groups if any(n.op_class == COMPUTE for n in g.nodes)]
    rest = [g for g in groups if not any(g is p for p in products)]
    apart = sum(judge(g)[1] for g in products)
    if rest:
        whole = Group(sorted((n for g in rest for n in g.nodes), key=lambda n: n.index))
        refusal, time = judge(whole)
        apart += time if refusal is None else sum(judge(g)[1] for g in rest)
    apart += judge.between(products, union)
    return apart - together if together <= (1 + doubt) * apart else None
