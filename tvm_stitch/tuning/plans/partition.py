"""How the ops of a part of a graph are grouped, by their places in program order, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from relay_passes.graph.group import Group
from relay_passes.graph.op_graph import OpNode

Partition = tuple[tuple[int, ...], ...]


def kernel_nodes(groups: Sequence[Group]) -> list[OpNode]:
    """Return the ops of groups that are calls of kernels, in program order."""
    nodes = (node for group in groups for node in group.nodes if node.op_class != "alias")
    return sorted(nodes, key=lambda node: node.index)


def partition_of(groups: Sequence[Group]) -> Partition:
    """Return the groups by the places of their ops, ordered by their first."""
    place = {node: number for number, node in enumerate(kernel_nodes(groups))}
    parts = (tuple(place[node] for node in kernel_nodes([group])) for group in groups)
    return tuple(sorted(parts))


def grouped(nodes: Sequence[OpNode], partition: Partition) -> list[Group]:
    """Return the groups that a partition makes of ops in program order."""
    return [Group([nodes[place] for place in part]) for part in partition]


def to_json(partition: Partition) -> str:
    return json.dumps(partition, separators=(",", ":"))


def from_json(text: str, count: int) -> Partition | None:
    """Read what `to_json` wrote of `count` ops, None if it is no partition of these."""
    data = json.loads(text)
    if not isinstance(data, list) or not all(isinstance(part, list) for part in data):
        return None
    places = [place for part in data for place in part]
    if any(type(place) is not int for place in places) or sorted(places) != [*range(count)]:
        return None
    return tuple(sorted(tuple(sorted(part)) for part in data))
