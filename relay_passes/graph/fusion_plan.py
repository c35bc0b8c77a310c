"""A fusion plan: every op of a graph in one group, the groups in an order of execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .group import Group
from .op_graph import OpGraph, OpNode


@dataclass(frozen=True)
class Forecast:
    """Times of one graph in ns: memory-intensive ops `apart` and as planned, the rest.

    `opaque` counts the ops nothing is known of; their time is in none of these.
    """

    apart: float
    together: float
    rest: float
    opaque: int


@dataclass
class FusionPlan:
    """Groups over one op graph in a valid order of execution, disjoint but for copied ops.

    `explain` fills each group's `stopped`, `forecast` predicts the time: both judge more than
    planning did, so only who reads them asks.
    """

    graph: OpGraph
    groups: list[Group]
    merges: int
    explain: Callable[[], None] = lambda: None
    forecast: Callable[[], Forecast] | None = None


def homes(groups: Sequence[Group]) -> dict[OpNode, Group]:
    """Return the group of each op; of an op that is only copied, one of them."""
    found: dict[OpNode, Group] = {}
    for group in groups:
        for node in group.nodes:
            if node not in found or node not in group.copies:
                found[node] = group
    return found


def execution_order(groups: Sequence[Group]) -> list[Group]:
    """Return groups so that each stands after all it reads, close to program order."""
    home = homes(groups)
    done: set[Group] = set()
    out: list[Group] = []

    def visit(group: Group) -> None:
        stack = [(group, iter(sources(group, home)))]
        done.add(group)
        while stack:
            current, left = stack[-1]
            for source in left:
                if source not in done:
                    done.add(source)
                    stack.append((source, iter(sources(source, home))))
                    break
            else:
                out.append(current)
                stack.pop()

    for group in sorted(groups, key=lambda g: g.nodes[0].index):
        if group not in done:
            visit(group)
    return out


def sources(group: Group, home: Mapping[OpNode, Group]) -> list[Group]:
    """Return the groups that a group reads of."""
    members = set(group.nodes)
    outside = (p for n in group.nodes for p in n.producers if p not in members)
    return list(dict.fromkeys(home[p] for p in outside))
