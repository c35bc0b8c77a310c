"""The first planner, which takes every fusion it can get: what the explorer is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from relay_passes.fusion.absorb_epilogues import absorb_epilogues
from relay_passes.graph.fusion_plan import FusionPlan, execution_order
from relay_passes.graph.group import Group
from relay_passes.graph.legality import refuse_merge, refuse_node
from relay_passes.graph.op_graph import OpGraph, OpNode
from tir_schedules.analysis.kernel_facts import COMPUTE
from tir_schedules.cpu.accept.acceptance import accept
from tir_schedules.device import CpuDevice
from tir_schedules.kernel_ir.expr import Tensor


class MaximalPlanner:
    """Grow groups along edges while legality and the acceptance test agree."""

    def __init__(self, device: CpuDevice) -> None:
        self._device = device
        self._accepted: dict[tuple, str | None] = {}

    def plan(self, graph: OpGraph) -> FusionPlan:
        self._merges = 0
        self._home: dict[OpNode, Group] = {n: Group([n]) for n in graph.nodes}
        for node in graph.nodes:
            if node.op_class == COMPUTE and refuse_node(node) is None:
                absorb_epilogues(node, self._home, self._spend)
        before = -1
        while before != self._merges:  # a grown group may take what a part of it could not
            before = self._merges
            for node in graph.nodes:
                for producer in sorted(node.producers, key=_traffic, reverse=True):
                    self._try_merge(producer, node)
            self._merge_siblings(graph)
        groups = list(dict.fromkeys(self._home.values()))
        return FusionPlan(graph, execution_order(groups), self._merges)

    def _spend(self, _ops: Sequence[OpNode]) -> bool:
        self._merges += 1
        return True

    def _try_merge(self, producer: OpNode, consumer: OpNode) -> None:
        left, right = self._home[producer], self._home[consumer]
        if left is not right and self._refuse(left, right) is None:
            self._merges += 1
            self._replace(left, right)

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
            self._home[node] = union

    def _merge_siblings(self, graph: OpGraph) -> None:
        """Join groups that mostly read the same tensor: one pass over it instead of several."""
        readers: dict[Tensor, list[OpNode]] = {}
        for node in graph.nodes:
            for tensor in node.inputs:
                if 2 * tensor.bytes >= sum(t.bytes for t in node.inputs):
                    readers.setdefault(tensor, []).append(node)
        for nodes in readers.values():
            first = nodes[0]
            for other in nodes[1:]:
                if self._home[first] is not self._home[other]:
                    self._try_merge(first, other)


def _traffic(node: OpNode) -> int:
    return sum(t.bytes for t in node.outputs)
