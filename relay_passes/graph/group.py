"""A set of graph ops that becomes one kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from tir_schedules.analysis.kernel_facts import Part, compose
from tir_schedules.kernel_ir.expr import Tensor
from tir_schedules.kernel_ir.stage import Kernel

from .op_graph import OpNode


@dataclass(eq=False)
class Group:
    """Ops in program order; `stopped` says why it did not grow further.

    `copies` are ops of other groups computed here again, for this group alone; `unread` are results
    that every other reader computes for itself.
    """

    nodes: list[OpNode]
    stopped: list[str] = field(default_factory=list)
    copies: frozenset[OpNode] = frozenset()
    unread: frozenset[Tensor] = frozenset()

    def union(self, other: Group) -> Group:
        return Group(sorted([*self.nodes, *other.nodes], key=lambda n: n.index))

    def with_copy(self, node: OpNode) -> Group:
        """Return the group with another group's op computed here too."""
        nodes = sorted([*self.nodes, node], key=lambda n: n.index)
        return Group(nodes, copies=self.copies | {node}, unread=self.unread)

    def without(self, node: OpNode) -> Group:
        """Return the group once nobody outside reads `node`: without it, if nobody inside does."""
        members = set(self.nodes)
        used = any(c in members for c in node.consumers)
        nodes = self.nodes if used else [n for n in self.nodes if n is not node]
        return Group(nodes, copies=self.copies, unread=self.unread | {node.outputs[0]})

    def inputs(self) -> tuple[Tensor, ...]:
        """Return the tensors read from outside, in order of first use."""
        made = {t for n in self.nodes for t in n.outputs}
        read = dict.fromkeys(t for n in self.nodes for t in n.inputs)
        return tuple(t for t in read if t not in made)

    def outputs(self) -> tuple[Tensor, ...]:
        """Return the tensors that someone outside reads."""
        members = set(self.nodes)
        out: list[Tensor] = []
        for node in self.nodes:
            if node in self.copies:
                continue
            for tensor in node.outputs:
                if tensor in self.unread:
                    continue
                if node.escapes or _read_outside(node, tensor, members):
                    out.append(tensor)
        return tuple(out)

    def kernel(self) -> Kernel:
        """Return the group's summary as one kernel."""
        parts = [
            Part(n.kernel, (*n.inputs, *n.outputs)) for n in self.nodes if n.op_class != "alias"
        ]
        inputs, outputs = self.inputs(), self.outputs()
        return compose(parts, (*inputs, *outputs), outputs)

    def signature(self) -> tuple:
        """Return a key equal for groups of the same ops, wired alike."""
        number: dict[Tensor, int] = {}
        rows = []
        for node in self.nodes:
            wires = tuple(number.setdefault(t, len(number)) for t in (*node.inputs, *node.outputs))
            rows.append((node.func_hash or node.name, wires))
        return tuple(rows), tuple(number[t] for t in self.outputs())

    def bytes_apart(self) -> int:
        return sum(t.bytes for n in self.nodes for t in (*n.inputs, *n.outputs))


def _read_outside(node: OpNode, tensor: Tensor, members: set[OpNode]) -> bool:
    readers = [c for c in node.consumers if any(t is tensor for t in c.inputs)]
    return any(c.escapes if c.op_class == "alias" else c not in members for c in readers)
