"""The stitch template: PrimFunc in, scheduled PrimFunc out, or the reason it declines."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm import tirx

from ..analysis.expr import Tensor
from ..analysis.parse import read_prim_func
from ..analysis.stage import Refusal
from ..device import Device
from ..vector_math import materialise_lets
from .emit_func import emit_prim_func
from .plan import Plan
from .planner import plan_kernel

_MAX_ELEMENTS = 2**31 - 1  # positions are 32-bit


def plan_prim_func(func: tirx.PrimFunc, device: Device) -> Plan | str:
    """Return the template's plan for `func`, or why it declines."""
    kernel = read_prim_func(func)
    if isinstance(kernel, Refusal):
        return str(kernel)
    if any(p.elements > _MAX_ELEMENTS for p in kernel.params):
        return "a tensor has 2**31 elements or more"
    return plan_kernel(kernel, device)


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
