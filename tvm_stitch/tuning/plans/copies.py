"""Ops that each group which reads them may compute for itself, where the planner stores them.

relay_passes/fusion/recompute, which says what may be copied, does so where it is predicted to pay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from relay_passes.fusion.recompute import copying_readers
from relay_passes.graph.group import Group
from relay_passes.graph.op_graph import OpNode

from .legality import is_lost
from .partition import Partition, kernel_nodes, partition_of


def readers_of(group: Group, home: Mapping[OpNode, Group]) -> Iterator[tuple[OpNode, list[Group]]]:
    """Yield the ops of a group that others may copy, with the groups that read them."""
    for node in group.nodes:
        readers = copying_readers(node, home)
        if readers and not is_lost(node, {node}, home):
            yield node, readers


def copied(
    groups: Sequence[Group], home: Mapping[OpNode, Group]
) -> Iterator[tuple[Partition, list[Group]]]:
    """Yield the first of some groups without an op of which each of the others has a copy."""
    first, *others = groups
    for node, readers in readers_of(first, home):
        if set(readers) == set(others):
            less = first.without(node)
            made = [*([less] if less.nodes else []), *(r.with_copy(node) for r in others)]
            if kernel_nodes(made) == kernel_nodes(groups):
                yield partition_of(made), made
