"""The explorer's view of an op graph: numbered units, each one op or one op with its epilogue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tir_schedules.analysis.kernel_facts import COMPUTE, EXPENSIVE, LIGHT
from tir_schedules.kernel_ir.expr import Tensor

from ..explorer import Dag
from ..graph.fusion_plan import execution_order, homes
from ..graph.group import Group
from ..graph.legality import refuse_node
from ..graph.op_graph import OpNode

COMPUTE_ALONE = "compute-intensive ops keep to their own kernel"


@dataclass(frozen=True, eq=False)
class Unit:
    """Ops that stay together; `refusal` says why they join no other unit."""

    group: Group
    refusal: str | None
    reads: tuple[Tensor, ...]
    makes: tuple[Tensor, ...]

    @property
    def stages(self) -> int:
        return sum(len(n.kernel.stages) for n in self.group.nodes)

    @property
    def is_elementwise(self) -> bool:
        """Return whether every result has the shape that the op runs over."""
        nodes = self.group.nodes
        return len(nodes) == 1 and nodes[0].op_class in (LIGHT, EXPENSIVE) and len(self.makes) == 1


class FusionUnits:
    """Units in an order of execution, with the graph between them."""

    def __init__(self, groups: Sequence[Group]) -> None:
        ordered = execution_order(groups)
        home = homes(ordered)
        number = {group: index for index, group in enumerate(ordered)}
        self.units = [_unit(group) for group in ordered]
        consumers: list[set[int]] = [set() for _ in ordered]
        self._readers: dict[Tensor, set[int]] = {}
        self.escaping: set[Tensor] = set()
        for index, group in enumerate(ordered):
            for node in group.nodes:
                if node.escapes:
                    self.escaping.update(node.outputs, _renamed(node))
                for tensor in node.inputs if node.op_class != "alias" else ():
                    self._readers.setdefault(tensor, set()).add(index)
                for consumer in node.consumers:
                    consumers[index].add(number[home[consumer]])
        self.dag = Dag([row - {index} for index, row in enumerate(consumers)])

    def __len__(self) -> int:
        return len(self.units)

    def union(self, nodes: Iterable[int]) -> Group:
        """Return the ops of some units as one group."""
        ops = [n for index in nodes for n in self.units[index].group.nodes]
        return Group(sorted(ops, key=lambda n: n.index))

    def readers(self, tensor: Tensor) -> frozenset[int] | None:
        """Return the units that read a tensor, None if it leaves the graph."""
        return None if tensor in self.escaping else frozenset(self._readers.get(tensor, ()))


def _unit(group: Group) -> Unit:
    refusal = next((f"{n.name}: {r}" for n in group.nodes if (r := refuse_node(n))), None)
    if refusal is None and any(n.op_class == COMPUTE for n in group.nodes):
        refusal = COMPUTE_ALONE
    return Unit(group, refusal, group.inputs(), tuple(t for n in group.nodes for t in n.outputs))


def _renamed(node: OpNode) -> tuple[Tensor, ...]:
    return node.inputs if node.op_class == "alias" else ()
