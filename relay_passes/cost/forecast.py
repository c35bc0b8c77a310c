"""What a plan's time is predicted to be, before anything is compiled."""

from __future__ import annotations

from collections.abc import Iterable

from tir_schedules.backend import backend
from tir_schedules.device import Device
from tir_schedules.kernel_ir.stage import Kernel

from ..explorer.dag import Nodes
from ..graph.fusion_plan import Forecast
from .fusion_units import FusionUnits
from .group_cost import ExactJudge


def forecast(
    kernels: Iterable[Nodes], units: FusionUnits, exact: ExactJudge, device: Device
) -> Forecast:
    """Return the forecast of a plan: `kernels` of several units, all other units on their own."""
    chosen = [kernel for kernel in kernels if kernel]
    able = [n for n, unit in enumerate(units.units) if unit.refusal is None]
    alone = {n: exact.judge(frozenset((n,)))[1] for n in able}
    taken = {n for kernel in chosen for n in kernel}
    together = sum(exact.judge(kernel)[1] for kernel in chosen)
    together += sum(ns for n, ns in alone.items() if n not in taken)
    rest, opaque = 0.0, 0
    for unit in units.units:
        nodes = [n for n in unit.group.nodes if n.op_class != "alias" and not n.is_constant]
        if unit.refusal is None or not nodes or any(n.is_result for n in nodes):
            continue
        if all(isinstance(n.kernel, Kernel) for n in nodes):
            unplanned_ns = backend(device).costs.unplanned_ns
            rest += sum(unplanned_ns(n.kernel.stages, device) for n in nodes)
        else:
            opaque += 1
    return Forecast(sum(alone.values()), together, rest, opaque)
