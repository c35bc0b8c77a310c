"""A PrimFunc by the default decisions of its target: read, decided upon, planned, emitted."""

from __future__ import annotations

import logging

from tvm import tirx

from .backend import Plan, backend
from .device import Device

logger = logging.getLogger("tvm_stitch.schedule")


def plan_prim_func(func: tirx.PrimFunc, device: Device) -> Plan | str:
    """Return the plan of `func` by its default decisions, or why the template declines."""
    found = backend(device)
    kernel = found.read(func)
    if isinstance(kernel, str):
        return kernel
    decisions = found.default_decisions(kernel, device)
    if isinstance(decisions, str):
        return decisions
    plan = found.plan(kernel, decisions, device)
    if isinstance(plan, str):
        logger.warning("%s: default decisions are illegal: %s", kernel.name, plan)
    return plan


def schedule_prim_func(func: tirx.PrimFunc, device: Device) -> tirx.PrimFunc | str:
    """Return `func` rewritten by the template, or why it declines."""
    plan = plan_prim_func(func, device)
    return plan if isinstance(plan, str) else backend(device).emit(plan, func)
