"""May groups stand in a plan? With ops that are computed in several of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from relay_passes.graph.fusion_plan import sources
from relay_passes.graph.group import Group
from relay_passes.graph.op_graph import OpNode


def refuse_groups(parts: Sequence[Group], home: Mapping[OpNode, Group]) -> str | None:
    """Return why groups can't run one after the other, or None; `home` has the group of each op."""
    if any(_reads_itself(part, home) for part in parts):
        return "the groups have no order of execution"
    inside = ((node, set(part.nodes)) for part in parts for node in part.nodes)
    if any(is_lost(node, members, home) for node, members in inside):
        return "a group computes an op again of what is not in memory"
    return None


def _reads_itself(part: Group, home: Mapping[OpNode, Group]) -> bool:
    """Return whether a value leaves a group and comes back into it through other kernels."""
    first, seen = part.nodes[0].index, set()
    waiting = sources(part, home)
    while waiting:
        group = waiting.pop()
        if group is part:
            return True
        if group not in seen and group.nodes[-1].index > first:
            seen.add(group)
            waiting += sources(group, home)
    return False


def is_lost(node: OpNode, members: Set[OpNode], home: Mapping[OpNode, Group]) -> bool:
    """Return whether one of a group's members reads what its maker's group keeps to itself."""
    for producer in node.producers:
        read = set(node.inputs) & set(producer.outputs)
        if producer not in members and not read <= set(home[producer].outputs()):
            return True
    return False
