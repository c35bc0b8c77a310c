"""Take apart the groups whose kernels were found wrong, as far as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from tir_schedules.apply import OPAQUE_PATTERN
from tir_schedules.backend import backend
from tir_schedules.device import Device

from ..graph.fusion_plan import FusionPlan, execution_order
from ..graph.group import Group

WRONG = "one kernel of these was found wrong"


@dataclass(frozen=True)
class Apart:
    """What must not be one kernel: `groups` of a plan by their signatures, and `ops` with others.

    Ops, by the names of their functions, are kept from TVM's FuseOps, wherever they are called.
    """

    groups: frozenset[tuple] = frozenset()
    ops: frozenset[str] = frozenset()

    def __or__(self, other: Apart) -> Apart:
        return Apart(self.groups | other.groups, self.ops | other.ops)


NOTHING = Apart()


def take_apart(plan: FusionPlan, wrong: frozenset[tuple], device: Device) -> FusionPlan:
    """Return a plan that has none of the groups with these signatures.

    A group becomes its halves in program order, and these theirs, until no part is wrong and the
    template takes each. Where ops were copied into a wrong group or are missing from it, no op of
    the plan is copied any more, and whether that was it shows when the plan is verified again.
    """
    found = [group for group in plan.groups if group.signature() in wrong]
    if not found:
        return plan
    groups: Sequence[Group] = plan.groups
    if any(group.copies or group.unread for group in found):
        groups = _without_copies(plan)
    parts = [
        part
        for group in groups
        for part in (_parts(group, wrong, device) if group.signature() in wrong else [group])
    ]
    return replace(plan, groups=execution_order(parts))


def _without_copies(plan: FusionPlan) -> list[Group]:
    kept = [
        Group([n for n in g.nodes if n not in g.copies], g.stopped) if g.copies or g.unread else g
        for g in plan.groups
    ]
    left = {n for group in kept for n in group.nodes}
    return [*kept, *(Group([n]) for n in plan.graph.nodes if n not in left)]


def _parts(group: Group, wrong: frozenset[tuple], device: Device) -> list[Group]:
    """Return consecutive parts: of a convex set in an order of execution they are convex too."""
    if len(group.nodes) == 1:
        return [group]
    refuse = backend(device).refuse
    if group.signature() not in wrong and refuse(group.kernel(), device) is None:
        return [group]
    half = len(group.nodes) // 2
    halves = (Group(part, [WRONG]) for part in (group.nodes[:half], group.nodes[half:]))
    return [part for each in halves for part in _parts(each, wrong, device)]


@tvm.transform.module_pass(opt_level=0, name="KeepAlone")
class KeepAlone:
    """Keep TVM's FuseOps from joining ops, by the names of their functions, to any others."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        out = IRModule(mod.functions, attrs=mod.attrs)
        for gvar in mod.get_global_vars():
            if gvar.name_hint in self._names:
                out[gvar] = mod[gvar].with_attr("op_pattern", OPAQUE_PATTERN)
        return out
