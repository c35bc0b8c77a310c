"""The regions of a model, and what a worker needs to build them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.target import Target

from relay_passes.fusion.planner import StitchPlanner
from relay_passes.graph.graph_functions import graph_functions
from relay_passes.graph.op_graph import OpGraph
from tir_schedules.device import Device

from ..measure.kernel_inputs import positions
from ..measure.outcome import Pace
from ..measure.subject import cache_bytes
from .partition import Partition
from .plan_policy import DEFAULT, PlanPolicy
from .region_module import calls_of, region_module, scheduled
from .regions import Region, regions, union


class RegionSubject:
    """A region as a worker measures it: candidates are partitions of its ops."""

    kind = "region"

    def __init__(self, region: Region, mod: IRModule, target: Target, device: Device) -> None:
        self.region, self.default = region, region.planned
        self._mod, self._target, self._device = mod, target, device
        whole = union(region.groups)
        self._kernel = whole.kernel()
        self._nbytes = sum(tensor.bytes for tensor in (*whole.inputs(), *whole.outputs()))

    def copies(self, pace: Pace) -> tuple[int, None]:
        return pace.sets(self._nbytes, cache_bytes(self._device)), None

    def message(self) -> dict[str, Any]:
        inputs = [param.ty for param in self._mod["main"].params]
        shapes = [[[int(n) for n in kind.shape], str(kind.dtype)] for kind in inputs]
        return {"inputs": shapes, "most": positions(self._kernel)}

    def text(self, candidate: Partition) -> str:
        module = scheduled(self._mod, candidate, self._target, self._device)
        return tvm.ir.save_json(module)


def regions_of(
    mod: IRModule, target: Target, device: Device, policy: PlanPolicy = DEFAULT
) -> list[RegionSubject]:
    """Return the regions of a module that is ready to be fused, most predicted time first."""
    found = _subjects(mod, target, device, policy)
    return sorted(found, key=lambda s: -s.region.planned_ns * s.region.count)


def _subjects(
    mod: IRModule, target: Target, device: Device, policy: PlanPolicy
) -> Iterator[RegionSubject]:
    planner, seen = StitchPlanner(device.deciding()), set()
    for _, func in graph_functions(mod):
        for block in func.body.blocks:
            if not isinstance(block, relax.DataflowBlock):
                continue
            graph = OpGraph(mod, block, {})
            plan, calls = planner.plan(graph), calls_of(graph, block)
            for region in regions(plan, device.deciding(), policy):
                if region.workload.key not in seen:
                    seen.add(region.workload.key)
                    part = region_module(mod, region.groups, calls)
                    yield RegionSubject(region, part, target, device)
