"""How the ops of a part of a graph are grouped, by their places in program order, as JSON.

An op in several groups is computed in each of them, and its result, once all that read it have it
for themselves, is never in memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from relay_passes.graph.group import Group
from relay_passes.graph.op_graph import OpNode

Partition = tuple[tuple[int, ...], ...]


def kernel_nodes(groups: Sequence[Group]) -> list[OpNode]:
    """Return the ops of groups that are calls of kernels, in program order."""
    nodes = {node: None for group in groups for node in group.nodes if node.op_class != "alias"}
    return sorted(nodes, key=lambda node: node.index)


def partition_of(groups: Sequence[Group]) -> Partition:
    """Return the groups by the places of their ops, ordered by their first."""
    place = {node: number for number, node in enumerate(kernel_nodes(groups))}
    parts = (tuple(place[node] for node in kernel_nodes([group])) for group in groups)
    return tuple(sorted(parts))


def grouped(nodes: Sequence[OpNode], partition: Partition) -> list[Group]:
    """Return the groups that a partition makes of ops in program order.

    An op is at home in the first of its groups, in others it is a copy.
    """
    inside = [{nodes[place] for place in part} for part in partition]
    homes: dict[OpNode, int] = {}
    for number, members in enumerate(inside):
        for node in members:
            homes.setdefault(node, number)
    made = []
    for number, members in enumerate(inside):
        copies = frozenset(node for node in members if homes[node] != number)
        own = (node for node in members - copies if _is_unread(node, inside))
        unread = frozenset(tensor for node in own for tensor in node.outputs)
        ordered = sorted(members, key=lambda node: node.index)
        made.append(Group(ordered, copies=copies, unread=unread))
    return made


def _is_unread(node: OpNode, inside: Sequence[set[OpNode]]) -> bool:
    """Return whether all that read an op which is computed several times have it in their group."""
    if node.escapes or sum(node in members for members in inside) < 2:
        return False
    return all(
        any(reader in members for members in inside)
        and all(node in members for members in inside if reader in members)
        for reader in node.consumers
    )


def to_json(partition: Partition) -> str:
    return json.dumps(partition, separators=(",", ":"))


def from_json(text: str, count: int) -> Partition | None:
    """Read what `to_json` wrote of `count` ops, None if it groups other ops than these.

    Each part has an op that none before it has.
    """
    data = json.loads(text)
    if not isinstance(data, list) or not all(isinstance(part, list) for part in data):
        return None
    if len(data) > count or any(type(place) is not int for part in data for place in part):
        return None
    partition = tuple(sorted(tuple(sorted(part)) for part in data))
    seen: set[int] = set()
    for part in partition:
        members = set(part)
        if len(members) < len(part) or members <= seen:
            return None
        seen |= members
    return partition if seen == {*range(count)} else None
