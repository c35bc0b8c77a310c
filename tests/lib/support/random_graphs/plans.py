"""A planner without taste: random joins of whatever may legally be one kernel."""

from __future__ import annotations

import random

from relay_passes.cost.fusion_units import FusionUnits
from relay_passes.cost.group_cost import ExactJudge
from relay_passes.explorer.kernels import Kernels
from relay_passes.graph.fusion_plan import FusionPlan, execution_order
from relay_passes.graph.group import Group
from relay_passes.graph.op_graph import OpGraph
from tir_schedules.device import CpuDevice

TRIES = (0.3, 3.0)  # a unit, at least and at most: pairs that are tried


class RandomPlanner:
    """Joins pairs of kernels, half of them along an edge, that the acceptance test takes."""

    def __init__(self, device: CpuDevice, rng: random.Random) -> None:
        self._device, self._rng = device, rng
        self.plans: list[FusionPlan] = []

    def plan(self, graph: OpGraph) -> FusionPlan:
        units = FusionUnits([Group([n]) for n in graph.nodes])
        judge = ExactJudge(units, self._device, {})
        kernels = Kernels(units.dag, [])
        merges = 0
        for _ in range(int(self._rng.uniform(*TRIES) * len(units))):
            one, other = self._pair(units)
            union = kernels.of(one) | kernels.of(other)
            if kernels.of(one) is not kernels.of(other) and judge.accepts(union):
                merges += kernels.join(one, other)
        groups = execution_order([units.union(k) for k in kernels.all()])
        self.plans.append(FusionPlan(graph, groups, merges))
        return self.plans[-1]

    def _pair(self, units: FusionUnits) -> tuple[int, int]:
        one = self._rng.randrange(len(units))
        near = units.dag.consumers[one]
        if near and self._rng.random() < 0.5:
            return one, self._rng.choice(near)
        return one, self._rng.randrange(len(units))
