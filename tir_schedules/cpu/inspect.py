"""What a plan leaves undone: work on one thread, contiguous loops outside vector lanes."""

from __future__ import annotations

from .plan import LoopGroup, Phase, Plan

_SHORT = 16  # a contiguous axis below this extent may stay scalar


def scalar_loops(plan: Plan) -> list[LoopGroup]:
    """Return nests that walk a contiguous axis of 16 or more one element at a time."""
    return [
        g for p in plan.phases if not p.combine for g in p.nests() if _is_scalar(g, p)
    ]  # fmt: skip


def _is_scalar(group: LoopGroup, phase: Phase) -> bool:
    if group.lanes > 1 or not group.dims:
        return False
    for dim in group.dims:
        if phase.inner_extent(dim) < _SHORT:
            continue
        accesses = [a for n in group.nodes for a in (n.store, *n.reads.values())]
        if any(a.stride(dim) == 1 for a in accesses):
            return True
    return False
