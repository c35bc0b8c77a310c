"""May these ops run as one kernel? Answers with a reason or None, and never looks at speed."""

from __future__ import annotations

from tir_schedules.analysis.kernel_facts import OPAQUE
from tir_schedules.kernel_ir.stage import Refusal

from .group import Group
from .op_graph import OpNode


def refuse_node(node: OpNode) -> str | None:
    """Return why `node` can join no group."""
    if isinstance(node.kernel, Refusal):
        return str(node.kernel)
    if node.op_class == OPAQUE:
        return "the op is opaque"
    if not node.outputs:
        return "the result has no static shape"
    return None


def refuse_merge(left: Group, right: Group, home: dict[OpNode, Group]) -> str | None:
    """Return why the union of two groups would not be a legal kernel."""
    for group in (left, right):
        for node in group.nodes:
            reason = refuse_node(node)
            if reason:
                return f"{node.name}: {reason}"
    if has_outer_path(left, right, home):
        return "another kernel stands between them: the union would be a cycle"
    return None


def has_outer_path(left: Group, right: Group, home: dict[OpNode, Group]) -> bool:
    """Return whether a value leaves the union and comes back into it through other kernels."""
    last = max(left.nodes[-1].index, right.nodes[-1].index)
    members = {left, right}
    seen: set[Group] = set()
    queue = [
        home[c] for g in members for n in g.nodes for c in n.consumers
        if home[c] not in members
    ]  # fmt: skip
    while queue:
        group = queue.pop()
        if group in seen or group.nodes[0].index > last:
            continue
        seen.add(group)
        for node in group.nodes:
            for consumer in node.consumers:
                target = home[consumer]
                if target in members:
                    return True
                queue.append(target)
    return False
