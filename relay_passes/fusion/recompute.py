"""Recompute a cheap producer in each kernel that reads it, where that beats storing its result.

The tensor is then never written: its kernel loses an output, or is gone. Only for light ops whose
own inputs are in memory anyway, and only if every reader takes its copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tir_schedules.analysis.kernel_facts import COMPUTE, LIGHT
from tir_schedules.fuel import spend
from tir_schedules.kernel_ir.expr import Tensor

from ..cost.group_cost import ExactJudge
from ..cost.traffic_cost import TrafficCost
from ..graph.fusion_plan import homes
from ..graph.group import Group
from ..graph.legality import refuse_node
from ..graph.op_graph import OpGraph, OpNode
from ..policy import FusionPolicy


def recompute(
    graph: OpGraph,
    groups: Sequence[Group],
    exact: ExactJudge,
    delta: TrafficCost,
    policy: FusionPolicy,
) -> list[Group]:
    """Return the groups with cheap ops copied into their readers where that is predicted to pay."""
    return _Copies(graph, groups, exact, delta, policy).run()


def copying_readers(node: OpNode, home: Mapping[OpNode, Group]) -> list[Group]:
    """Return the other groups that read a node, if each may compute it again; else none.

    What it reads must be in memory then, which is not looked at.
    """
    if node.op_class != LIGHT or refuse_node(node) or node.escapes or len(node.outputs) != 1:
        return []
    if any(c.op_class == "alias" for c in node.consumers):
        return []
    own = home[node]
    if any(n.op_class == COMPUTE for n in own.nodes):
        return []
    others = (home[c] for c in node.consumers)
    readers = list(dict.fromkeys(g for g in others if g is not own))
    return readers if all(map(_takes_copies, readers)) else []


class _Copies:
    def __init__(
        self,
        graph: OpGraph,
        groups: Sequence[Group],
        exact: ExactJudge,
        delta: TrafficCost,
        policy: FusionPolicy,
    ) -> None:
        self._policy = policy
        self._graph, self._exact, self._delta = graph, exact, delta
        self._home = homes(groups)
        self._known: dict[Group, frozenset[Tensor]] = {}  # the outputs of groups
        self._pinned: set[Tensor] = set()  # tensors that copies read: they must stay in memory

    def run(self) -> list[Group]:
        for node in self._graph.nodes:
            readers = self._readers(node)
            if readers:
                self._try(node, readers)
        return [group for group in dict.fromkeys(self._home.values()) if group.nodes]

    def _readers(self, node: OpNode) -> list[Group]:
        """Return the other groups that read a node which may be copied, none if it may not be."""
        readers = copying_readers(node, self._home)
        if not readers or len(readers) > self._policy.readers or node.outputs[0] in self._pinned:
            return []
        return readers if all(map(self._in_memory, node.inputs)) else []

    def _in_memory(self, tensor: Tensor) -> bool:
        maker = self._graph.maker(tensor)
        return maker is None or tensor in self._outputs(self._home[maker])

    def _outputs(self, group: Group) -> frozenset[Tensor]:
        """Return a group's outputs, found once."""
        if group not in self._known:
            self._known[group] = frozenset(group.outputs())
        return self._known[group]

    def _try(self, node: OpNode, readers: list[Group]) -> None:
        home = self._home[node]
        before = self._total([home, *readers])
        if before is None or self._most(node, readers) < (1.0 - self._policy.gain) * before:
            return
        grown = [reader.with_copy(node) for reader in readers]
        less = home.without(node)
        after = self._total([*([less] if less.nodes else []), *grown])
        if after is None or after > self._policy.gain * before:
            return
        if not spend("recompute", node.var.name):
            return
        self._pinned.update(node.inputs)
        for old, new in zip((home, *readers), (less, *grown), strict=True):
            for member in old.nodes:
                if self._home[member] is old:
                    self._home[member] = new
        if node not in less.nodes:
            # What is only copied is at home with a copy: the group it left may be replaced again.
            self._home[node] = grown[0]

    def _most(self, node: OpNode, readers: list[Group]) -> float:
        """Return the most that copies can save: the tensor, written and read, or a whole kernel."""
        home = self._home[node]
        crossings = (1 + len(readers)) * self._delta.crossing_ns(node.outputs[0])
        alone = self._exact.group(home)[1] if len(home.nodes) == 1 else 0.0
        return self._policy.margin * crossings + alone

    def _total(self, groups: list[Group]) -> float | None:
        answers = [self._exact.group(group) for group in groups]
        if any(reason is not None for reason, _ in answers):
            return None
        return sum(ns for _, ns in answers)


def _takes_copies(group: Group) -> bool:
    return all(n.op_class != COMPUTE and refuse_node(n) is None for n in group.nodes)
