"""The stitch template: PrimFunc in, scheduled PrimFunc out, or the reason it declines."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm import tirx

from ..device import Device
from ..kernel_ir.expr import Tensor
from ..kernel_ir.parse import read_prim_func
from ..kernel_ir.stage import Refusal
from ..vector_math import materialise_lets
from .assemble import emit_prim_func
from .decide.planner import plan_kernel
from .decide.settle import settled
from .plan.kernel_plan import Plan

_MAX_ELEMENTS = 2**31 - 1  # positions are 32-bit


def plan_prim_func(func: tirx.PrimFunc, device: Device) -> Plan | str:
    """Return the template's plan for `func`, or why it declines."""
    kernel = read_prim_func(func)
    if isinstance(kernel, Refusal):
        return str(kernel)
    if any(p.elements > _MAX_ELEMENTS for p in kernel.params):
        return "a tensor has 2**31 elements or more"
    plan = plan_kernel(kernel, device)
    return plan if isinstance(plan, str) else settled(plan)


def schedule_prim_func(func: tirx.PrimFunc, device: Device) -> tirx.PrimFunc | str:
    """Return `func` rewritten by the template, or why it declines."""
    plan = plan_prim_func(func, device)
    return plan if isinstance(plan, str) else emit_plan(plan, func)


def emit_plan(
    plan: Plan, func: tirx.PrimFunc, over: Mapping[int, Tensor] = MappingProxyType({})
) -> tirx.PrimFunc:
    """Return the scheduled PrimFunc of a plan made for `func`.

    Results, by their ids, are written `over` operands; they are no parameters then.
    """
    kept = {k: v for k, v in func.attrs.items() if k in ("global_symbol", "op_pattern", "target")}
    return materialise_lets(emit_prim_func(plan, kept, over))
