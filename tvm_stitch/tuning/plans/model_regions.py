"""The regions of a model, and what a worker needs to build them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Constant, IRModule
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
from .region_module import calls_of, read_by, region_module, scheduled
from .regions import Region, regions, union


class RegionSubject:
    """A region as a worker measures it: candidates are partitions of its ops.

    `weights` are the places of inputs that are, of `weight_bytes` of such in the model.
    """

    kind = "region"

    def __init__(
        self,
        region: Region,
        mod: IRModule,
        target: Target,
        device: Device,
        weights: Sequence[int] = (),
        weight_bytes: int = 0,
    ) -> None:
        self.region, self.default = region, region.planned
        self._mod, self._target, self._device = mod, target, device
        whole = union(region.groups)
        self._kernel = whole.kernel()
        inputs = [*whole.inputs()]
        self._nbytes = sum(tensor.bytes for tensor in (*inputs, *whole.outputs()))
        self._weights, self._weight_bytes = weights, weight_bytes
        self._own = sum(inputs[place].bytes for place in weights)

    def copies(self, pace: Pace) -> tuple[int, Sequence[int] | None]:
        cache = cache_bytes(self._device)
        return pace.copied(self._nbytes, self._own, self._weight_bytes, cache, self._weights)

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
        weights = _weights(func)
        weight_bytes = sum(map(_nbytes, weights))
        for block in func.body.blocks:
            if not isinstance(block, relax.DataflowBlock):
                continue
            graph = OpGraph(mod, block, {})
            plan, calls = planner.plan(graph), calls_of(graph, block)
            for region in regions(plan, device.deciding(), policy):
                if region.workload.key not in seen:
                    seen.add(region.workload.key)
                    part = region_module(mod, region.groups, calls)
                    read = read_by(union(region.groups), calls).values()
                    places = [n for n, value in enumerate(read) if _is_weight(value, weights)]
                    yield RegionSubject(region, part, target, device, places, weight_bytes)


def _weights(func: relax.Function) -> Sequence[relax.Var]:
    """Return the parameters of a model behind its inputs; other functions have none."""
    inputs = func.attrs["num_input"] if func.attrs and "num_input" in func.attrs else None
    return [] if inputs is None else [*func.params][int(inputs) :]


def _is_weight(value: relax.Expr, weights: Sequence[relax.Var]) -> bool:
    return isinstance(value, Constant) or any(value.same_as(each) for each in weights)


def _nbytes(weight: relax.Var) -> int:
    shape = [int(extent) for extent in weight.ty.shape]
    return math.prod(shape) * np.dtype(str(weight.ty.dtype)).itemsize
