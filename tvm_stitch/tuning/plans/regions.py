"""Parts of a fusion plan that may be grouped otherwise: cut in two, joined, with ops copied.

The explorer's runners-up are what its judge, the evaluator, sees as hardly worse: nearer than it is
off by, only a clock tells which is better.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from relay_passes.cost.fusion_units import FusionUnits
from relay_passes.cost.group_cost import ExactJudge
from relay_passes.fusion.merge_groups import union_of
from relay_passes.graph.fusion_plan import FusionPlan, homes
from relay_passes.graph.group import Group
from relay_passes.graph.legality import refuse_node
from relay_passes.graph.op_graph import OpNode
from tir_schedules.device import Device
from tir_schedules.tuning.workload import Workload, workload_of

from .copies import copied, readers_of
from .partition import Partition, kernel_nodes, partition_of
from .plan_policy import DEFAULT, PlanPolicy


@dataclass(frozen=True)
class Alternative:
    """Other groups of a region's ops, and how much longer they are predicted to take, in ns."""

    partition: Partition
    slower_ns: float


@dataclass(frozen=True)
class Region:
    """Groups of a plan by what their ops compute together, and what else could be made of them.

    `count`: how many such there are in the plan.
    """

    groups: tuple[Group, ...]
    workload: Workload
    planned: Partition
    planned_ns: float
    alternatives: tuple[Alternative, ...]
    count: int


def regions(plan: FusionPlan, device: Device, policy: PlanPolicy = DEFAULT) -> Iterator[Region]:
    """Yield the regions of a plan that have alternatives, each kind of region once.

    Groups with ops that are copied, or with results that others compute again, are left as they
    are: to take such a copy back changes groups elsewhere.
    """
    judge = _Judge(device)
    groups = [g for g in plan.groups if is_plain(g) and judge.ns(g) is not None]
    home = homes(plan.groups)
    alike: dict[Workload, list[Sequence[Group]]] = {}
    for found in candidates(groups, home):
        alike.setdefault(workload_of_groups(found), []).append(found)
    for workload, (found, *more) in alike.items():
        planned_ns = sum(judge.ns(group) for group in found)
        others = _cuts(found[0], judge) if len(found) == 1 else _regrouped(found, home, judge)
        near = [(p, ns - planned_ns) for p, ns in others]
        near = [(p, slower) for p, slower in near if abs(slower) <= policy.doubt * planned_ns]
        near.sort(key=lambda pair: pair[1])
        if near:
            alternatives = tuple(Alternative(*pair) for pair in near[: policy.runners_up])
            count = 1 + len(more)
            planned = partition_of(found)
            yield Region(tuple(found), workload, planned, planned_ns, alternatives, count)


def candidates(
    groups: Sequence[Group], home: Mapping[OpNode, Group]
) -> Iterator[tuple[Group, ...]]:
    """Yield what may be grouped otherwise.

    Each pair of neighbours, each group with those that read an op of it, which they may copy, and
    each group of several ops.
    """
    plain = set(groups)
    shared = ((g, *readers) for g in groups for _, readers in readers_of(g, home))
    shared = (found for found in shared if plain.issuperset(found))
    yield from dict.fromkeys((*_neighbours(groups, home), *shared))
    yield from ((group,) for group in groups if len(kernel_nodes([group])) > 1)


def workload_of_groups(groups: Sequence[Group]) -> Workload:
    """Return what the ops of groups compute together, however they are grouped."""
    return workload_of(union(groups).kernel())


def union(groups: Sequence[Group]) -> Group:
    return Group(sorted((n for g in groups for n in g.nodes), key=lambda n: n.index))


class _Judge:
    """The planner's exact judge, which takes a group of one op whatever its template says."""

    def __init__(self, device: Device) -> None:
        # No unit is asked for, and the groups of a plan that copies ops are none.
        self._exact = ExactJudge(FusionUnits(()), device, {})

    def ns(self, group: Group) -> float | None:
        """Return what a group takes as one kernel, None if it is none of the template's."""
        refusal, ns = self._exact.group(group)
        accepted = refusal is None or len(kernel_nodes([group])) == 1
        return ns if accepted and ns > 0.0 else None

    def total(self, groups: Sequence[Group]) -> float | None:
        found = [self.ns(group) for group in groups]
        return None if None in found else sum(found)


def is_plain(group: Group) -> bool:
    """Return whether a group's ops are its own, and each may join others."""
    if group.copies or group.unread or not kernel_nodes([group]):
        return False
    return all(refuse_node(node) is None for node in kernel_nodes([group]))


def _neighbours(
    groups: Sequence[Group], home: Mapping[OpNode, Group]
) -> Iterator[tuple[Group, Group]]:
    """Yield pairs of which one reads what the other makes, or that read one tensor."""
    plain = set(groups)
    for group in groups:
        ahead = {home[c]: None for n in group.nodes for c in n.consumers if home[c] is not group}
        for other in ahead:
            if other in plain:
                yield group, other
    readers: dict[object, list[Group]] = {}
    for group in groups:
        for tensor in group.inputs():
            readers.setdefault(tensor, []).append(group)
    for row in readers.values():
        yield from itertools.pairwise(row)


def _cuts(group: Group, judge: _Judge) -> Iterator[tuple[Partition, float]]:
    """Yield the group as two: the first ops of a convex set are a convex set, as are the rest."""
    nodes = kernel_nodes([group])
    for at in range(1, len(nodes)):
        parts = [Group(nodes[:at]), Group(nodes[at:])]
        if (ns := judge.total(parts)) is not None:
            yield partition_of(parts), ns


def _regrouped(
    found: Sequence[Group], home: dict[OpNode, Group], judge: _Judge
) -> Iterator[tuple[Partition, float]]:
    """Yield two groups as one kernel, if that is legal, and with ops of the first copied."""
    one = union_of((group.nodes[0] for group in found), home) if len(found) == 2 else None
    if one is not None and (ns := judge.ns(one)) is not None:
        yield partition_of([one]), ns
    for partition, parts in copied(found, home):
        if (ns := judge.total(parts)) is not None:
            yield partition, ns
