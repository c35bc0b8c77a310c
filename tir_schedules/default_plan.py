"""A PrimFunc by the default decisions of its target, or by others: read, planned, emitted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tvm import tirx

from .backend import Plan, backend
from .device import Device
from .kernel_ir.stage import Kernel

logger = logging.getLogger("tvm_stitch.schedule")


def plan_prim_func(
    func: tirx.PrimFunc, device: Device, decided: Callable[[Kernel], Any] | None = None
) -> Plan | str:
    """Return the plan of `func` by its default decisions, or why the template declines.

    `decided` is asked first: None is by default.
    """
    found = backend(device)
    kernel = found.read(func)
    if isinstance(kernel, str):
        return kernel
    decisions = None if decided is None else decided(kernel)
    if decisions is None:
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
