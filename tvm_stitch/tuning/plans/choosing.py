"""A planner whose plans are regrouped as a log's choices say, and what has passes ask it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace

from relay_passes.fusion.stitch_ops import Planner
from relay_passes.graph.fusion_plan import FusionPlan, execution_order, homes
from relay_passes.graph.group import Group
from relay_passes.graph.op_graph import OpGraph, OpNode
from tir_schedules.backend import backend
from tir_schedules.decision_source import DecisionSource
from tir_schedules.device import Device
from tir_schedules.fuel import spend

from ..forms.choices import chosen
from ..log import DeviceKey, Log, PlanChoice
from ..log.fingerprint import device_key
from .legality import refuse_groups
from .partition import from_json, grouped, kernel_nodes, partition_of
from .regions import candidates, is_plain, workload_of_groups


class ChoosingSource(DecisionSource):
    """What a log has chosen of forms and of fusion plans; kernels run by default."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def form(self, op: str, forms: Sequence[str], device: Device) -> str:
        return chosen(self._log, device_key(device).key, op, forms)

    def planner(self, usual: Planner, device: Device) -> Planner:
        return ChoosingPlanner(usual, self._log, device_key(device), device.deciding())


class ChoosingPlanner:
    """`usual`, and what a log has chosen for parts of its plans on a device, where that is legal.

    Of choices that overlap the one is taken that saves most time.
    """

    def __init__(self, usual: Planner, log: Log, key: DeviceKey, device: Device) -> None:
        self._usual, self._log, self._key, self._device = usual, log, key, device
        self.taken = 0

    def plan(self, graph: OpGraph) -> FusionPlan:
        plan = self._usual.plan(graph)
        groups = [group for group in plan.groups if is_plain(group)]
        home = homes(plan.groups)
        made: dict[Group, list[Group]] = {}
        for found, choice in self._choices(groups, home):
            if any(group in made for group in found):
                continue
            parts = self._parts(found, choice, home)
            if parts is not None and spend("PlanOfLog", *_names(found)):
                made |= {found[0]: parts, **{group: [] for group in found[1:]}}
                home |= homes(parts)
                self.taken += 1
        if not made:
            return plan
        groups = [part for group in plan.groups for part in made.get(group, [group])]
        return replace(plan, groups=execution_order(groups))

    def _choices(
        self, groups: Sequence[Group], home: Mapping[OpNode, Group]
    ) -> list[tuple[tuple[Group, ...], PlanChoice]]:
        """Return what the log has chosen for parts of a plan, what saves most time first."""
        chosen = []
        for found in candidates(groups, home):
            choice = self._log.choice(workload_of_groups(found).key, self._key.key)
            if choice is not None:
                chosen.append((found, choice))
        return sorted(chosen, key=lambda pair: pair[1].ns - pair[1].default_ns)

    def _parts(
        self, found: Sequence[Group], choice: PlanChoice, home: Mapping[OpNode, Group]
    ) -> list[Group] | None:
        """Return the groups that a choice makes of others, None if they are those, or not legal."""
        nodes = kernel_nodes(found)
        partition = from_json(choice.choice, len(nodes))
        if partition is None or partition == partition_of(found):
            return None
        parts = grouped(nodes, partition)
        if refuse_groups(parts, ChainMap(homes(parts), home)) is not None:
            return None
        refuse = backend(self._device).refuse
        several = (part for part in parts if len(part.nodes) > 1)
        if any(refuse(part.kernel(), self._device) is not None for part in several):
            return None
        return parts


def _names(groups: Sequence[Group]) -> list[str]:
    return [node.var.name for group in groups for node in group.nodes if node.op_class != "alias"]
