"""The first planner: maximal groups that the template's acceptance test takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from tir_schedules.analysis.summary import COMPUTE
from tir_schedules.cpu.accept import accept
from tir_schedules.device import Device

from .epilogue import epilogue_candidates
from .group import Group
from .legality import refuse_merge, refuse_node
from .op_graph import OpGraph, OpNode


@dataclass
class FusionPlan:
    """Disjoint groups over one op graph, in a valid order of execution."""

    graph: OpGraph
    groups: list[Group]
    merges: int = 0
    boundaries: dict[tuple[int, int], str] = field(default_factory=dict)


class MaximalPlanner:
    """Grow groups along edges while legality and the acceptance test agree.

    `fuel` bounds the number of merges, to bisect a wrong answer; `cache` keeps acceptance answers
    between graphs, so that identical layers are judged once.
    """

    def __init__(self, device: Device, fuel: int | None = None, cache: dict | None = None) -> None:
        self._device, self._fuel = device, fuel
        self._accepted: dict[tuple, str | None] = {} if cache is None else cache

    def plan(self, graph: OpGraph) -> FusionPlan:
        self._plan = FusionPlan(graph, [])
        self._home: dict[int, Group] = {id(n): Group([n]) for n in graph.nodes}
        for node in graph.nodes:
            if node.op_class == COMPUTE and refuse_node(node) is None:
                self._absorb(node)
        before = -1
        while before != self._plan.merges:  # a grown group may take what a part of it could not
            before = self._plan.merges
            for node in graph.nodes:
                for producer in sorted(node.producers, key=_traffic, reverse=True):
                    self._try_merge(producer, node)
            self._merge_siblings(graph)
        groups = {id(g): g for g in self._home.values()}
        self._explain()
        self._plan.groups = _execution_order(list(groups.values()), self._home)
        return self._plan

    def _spend(self) -> bool:
        if self._fuel is not None and self._plan.merges >= self._fuel:
            return False
        self._plan.merges += 1
        return True

    def _absorb(self, anchor: OpNode) -> None:
        """Give a compute-intensive op its epilogue, as far as it reaches without a cycle."""
        grown = True
        while grown:
            grown = False
            for node in epilogue_candidates(self._home[id(anchor)], anchor):
                mine, other = self._home[id(anchor)], self._home[id(node)]
                if len(other.nodes) > 1 or refuse_merge(mine, other, self._home) is not None:
                    continue
                if not self._spend():
                    return
                self._replace(mine, other)
                grown = True

    def _try_merge(self, producer: OpNode, consumer: OpNode) -> None:
        left, right = self._home[id(producer)], self._home[id(consumer)]
        if left is right:
            return
        reason = self._refuse(left, right)
        if reason is None and not self._spend():
            reason = "out of fuel"
        if reason is not None:
            self._plan.boundaries[producer.index, consumer.index] = reason
        else:
            self._replace(left, right)

    def _explain(self) -> None:
        """Tell each group why it stopped; constants and the model's results need no reason."""
        nodes = self._plan.graph.nodes
        for (source, target), reason in self._plan.boundaries.items():
            producer, consumer = nodes[source], nodes[target]
            ends = (self._home[id(producer)], self._home[id(consumer)])
            if ends[0] is ends[1] or producer.is_constant:
                continue
            note = f"{producer.name} -> {consumer.name}: {reason}"
            if consumer.is_result:
                note = f"{producer.name}: is a result of the model"
            for group in ends:
                if note not in group.stopped:
                    group.stopped.append(note)

    def _refuse(self, left: Group, right: Group) -> str | None:
        for group in (left, right):
            if any(n.op_class == COMPUTE for n in group.nodes):
                return "compute-intensive ops keep to their own kernel"
        reason = refuse_merge(left, right, self._home)
        if reason is not None:
            return reason
        union = left.union(right)
        key = union.signature()
        if key not in self._accepted:
            self._accepted[key] = accept(union.kernel(), self._device)
        return self._accepted[key]

    def _replace(self, left: Group, right: Group) -> None:
        union = left.union(right)
        for node in union.nodes:
            self._home[id(node)] = union

    def _merge_siblings(self, graph: OpGraph) -> None:
        """Join groups that mostly read the same tensor: one pass over it instead of several."""
        readers: dict[int, list[OpNode]] = {}
        for node in graph.nodes:
            for tensor in node.inputs:
                if 2 * tensor.bytes >= sum(t.bytes for t in node.inputs):
                    readers.setdefault(id(tensor), []).append(node)
        for nodes in readers.values():
            first = nodes[0]
            for other in nodes[1:]:
                if self._home[id(first)] is not self._home[id(other)]:
                    self._try_merge(first, other)


def _traffic(node: OpNode) -> int:
    return sum(t.bytes for t in node.outputs)


def _execution_order(groups: list[Group], home: dict[int, Group]) -> list[Group]:
    """Return groups so that each stands after all it reads, close to program order."""
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
