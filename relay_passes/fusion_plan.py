"""A fusion plan: every op of a graph in one group, the groups in an order of execution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .group import Group
from .op_graph import OpGraph


@dataclass
class FusionPlan:
    """Disjoint groups over one op graph, in a valid order of execution.

    `explain` fills each group's `stopped`; it judges every boundary, so only who reads it asks.
    """

    graph: OpGraph
    groups: list[Group]
    merges: int
    explain: Callable[[], None]


def homes(groups: Sequence[Group]) -> dict[int, Group]:
    """Return the group of each op, by the op's id."""
    return {id(node): group for group in groups for node in group.nodes}


def execution_order(groups: Sequence[Group]) -> list[Group]:
    """Return groups so that each stands after all it reads, close to program order."""
    home = homes(groups)
    done: set[int] = set()
    out: list[Group] = []

    def visit(group: Group) -> None:
        stack = [(group, iter(_sources(group, home)))]
        done.add(id(group))
        while stack:
            current, sources = stack[-1]
            for source in sources:
                if id(source) not in done:
                    done.add(id(source))
                    stack.append((source, iter(_sources(source, home))))
                    break
            else:
                out.append(current)
                stack.pop()

    for group in sorted(groups, key=lambda g: g.nodes[0].index):
        if id(group) not in done:
            visit(group)
    return out


def _sources(group: Group, home: dict[int, Group]) -> list[Group]:
    found = {id(home[id(p)]): home[id(p)] for n in group.nodes for p in n.producers}
    found.pop(id(group), None)
    return list(found.values())
