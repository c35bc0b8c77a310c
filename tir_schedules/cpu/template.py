"""The stitch template: a PrimFunc is read, decided upon, planned and emitted, or it declines.

`default_decisions` holds all policy, `plan` says what can be done and lays it out, `emit` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm import tirx

from ..decision_space import DecisionSpace
from ..device import CpuDevice
from ..kernel_ir.expr import Tensor
from ..kernel_ir.stage import Kernel
from ..vector_math import materialise_lets
from .assemble import emit_prim_func
from .decide.decision_space import decision_space as space_of
from .decide.planner import plan_reading
from .decide.settle import settled
from .facts.reading import reading_of
from .legal.build import build_plan
from .plan.decisions import Decisions
from .plan.kernel_plan import Plan
from .plan.record import decisions_of


def default_decisions(kernel: Kernel, device: CpuDevice) -> Decisions | str:
    """Return what the cost model decides for a kernel on a device, or why it declines."""
    drafted = plan_reading(reading_of(kernel), device)
    return drafted if isinstance(drafted, str) else decisions_of(settled(drafted, device))


def decision_space(kernel: Kernel, device: CpuDevice) -> DecisionSpace | str:
    """Return what could be decided for a kernel on a device, or why the template declines."""
    return space_of(reading_of(kernel), device)


def plan(kernel: Kernel, decisions: Decisions, device: CpuDevice) -> Plan | str:
    """Return the plan that decisions make of a kernel, or why it can't be run so."""
    return build_plan(reading_of(kernel), decisions, device.vector_bytes)


def emit_plan(
    plan: Plan, func: tirx.PrimFunc, over: Mapping[Tensor, Tensor] = MappingProxyType({})
) -> tirx.PrimFunc:
    """Return the scheduled PrimFunc of a plan made for `func`.

    Results are written `over` operands; they are no parameters then.
    """
    kept = {k: v for k, v in func.attrs.items() if k in ("global_symbol", "op_pattern", "target")}
    return materialise_lets(emit_prim_func(plan, kept, over))
