"""Judges of sets of units: the fast one the search asks, and the accurate one at its end."""

from __future__ import annotations

import math

from tir_schedules.backend import backend
from tir_schedules.device import Device

from ..explorer.dag import Nodes
from ..graph.group import Group
from .fusion_units import FusionUnits, Unit
from .structure_key import Skeletons
from .traffic_cost import TrafficCost


class FastJudge:
    """The delta-evaluator's gain; the acceptance test's answer, asked once a skeleton."""

    def __init__(self, units: FusionUnits, delta: TrafficCost, device: Device, cache: dict) -> None:
        self._units, self._delta, self._device = units, delta, device
        self._backend = backend(device)
        self._skeletons, self._accepted = Skeletons(units), cache
        self._refused = {index for index, unit in enumerate(units.units) if unit.refusal}
        rows = [_facts(u, delta) for u in units.units]
        self._work = [row[0] for row in rows]
        self._stages = [row[1] for row in rows]
        self._reads = [frozenset(unit.reads) for unit in units.units]
        self._makes = [[(t, units.readers(t)) for t in unit.makes] for unit in units.units]
        tensors = (t for unit in units.units for t in (*unit.reads, *unit.makes))
        self._crossing = {t: delta.crossing_ns(t) for t in tensors}
        self._alone = [
            0.0 if unit.refusal else self._kernel_ns(frozenset((index,)))
            for index, unit in enumerate(units.units)
        ]

    def score(self, nodes: Nodes) -> float | None:
        """Return the gain of one kernel over a kernel a unit, in ns."""
        if not self._refused.isdisjoint(nodes):
            return None
        if len(nodes) == 1:
            return 0.0
        if sum(map(self._stages.__getitem__, nodes)) > self._backend.most_stages:
            return None
        return sum(map(self._alone.__getitem__, nodes)) - self._kernel_ns(nodes)

    def accepts(self, nodes: Nodes) -> bool:
        key = self._skeletons.key(nodes)
        if key not in self._accepted:
            kernel = self._units.union(nodes).kernel()
            self._accepted[key] = self._backend.refuse(kernel, self._device) is None
        return self._accepted[key]

    def _kernel_ns(self, nodes: Nodes) -> float:
        moved = set().union(*map(self._reads.__getitem__, nodes))
        for node in nodes:
            for tensor, readers in self._makes[node]:
                if readers is None or not readers <= nodes:
                    moved.add(tensor)
                else:
                    moved.discard(tensor)
        # Rounded once, so that the order of a set does not show.
        traffic = math.fsum(map(self._crossing.__getitem__, moved))
        return self._delta.kernel_ns(sum(map(self._work.__getitem__, nodes)), traffic)


class ExactJudge:
    """The latency-evaluator on the plan of each kernel; the acceptance test on each set itself."""

    def __init__(self, units: FusionUnits, device: Device, cache: dict) -> None:
        self._units, self._device = units, device
        self._known = cache
        self._answers: dict[Nodes, tuple[str | None, float]] = {}

    def judge(self, nodes: Nodes) -> tuple[str | None, float]:
        """Return why the units are no kernel, or None, and the kernel's time in ns."""
        if nodes not in self._answers:
            self._answers[nodes] = self._answer(nodes)
        return self._answers[nodes]

    def refusal(self, nodes: Nodes) -> str | None:
        """Return why some unit joins no other."""
        return next((r for n in nodes if (r := self._units.units[n].refusal)), None)

    def score(self, nodes: Nodes) -> float | None:
        reason, together = self.judge(nodes)
        if reason is not None:
            return None
        return sum(self.judge(frozenset((n,)))[1] for n in nodes) - together

    def accepts(self, nodes: Nodes) -> bool:
        return self.judge(nodes)[0] is None

    def _answer(self, nodes: Nodes) -> tuple[str | None, float]:
        if (refusal := self.refusal(nodes)) is not None:
            return refusal, 0.0
        return self.group(self._units.union(nodes))

    def group(self, group: Group) -> tuple[str | None, float]:
        """Return the same of a group of ops that join others."""
        key = group.signature()
        if key not in self._known:
            self._known[key] = self._evaluate(group)
        return self._known[key]

    def _evaluate(self, group: Group) -> tuple[str | None, float]:
        judged = backend(self._device).judge(group.kernel(), self._device)
        return judged.refusal, 0.0 if judged.plan is None else judged.ns


def _facts(unit: Unit, delta: TrafficCost) -> tuple[float, int]:
    if unit.refusal is not None:
        return 0.0, 0
    return sum(delta.work_ns(n.kernel) for n in unit.group.nodes), unit.stages
