"""A loop over steps as one kernel: a step is decided for barriers in the place of regions."""

from __future__ import annotations

from dataclasses import replace

from tvm import tirx

from ..device import CpuDevice
from ..kernel_ir.parse import read
from ..recurrence import Recurrence
from . import template
from .emit.steps import over_steps
from .plan.kernel_plan import Plan


def recurrent(
    step: tirx.PrimFunc, recurrence: Recurrence, device: CpuDevice
) -> tirx.PrimFunc | str:
    """Return the kernel that runs all steps, or why it can't be one."""
    planned = _planned(step, device)
    if isinstance(planned, str):
        return planned
    return over_steps(template.emit_plan(planned, step), recurrence)


def _planned(step: tirx.PrimFunc, device: CpuDevice) -> Plan | str:
    kernel = read(step)
    if isinstance(kernel, str):
        return kernel
    inside = replace(device, profile=_within_a_region(device))
    decisions = template.default_decisions(kernel, inside)
    if isinstance(decisions, str):
        return decisions
    plan = template.plan(kernel, decisions, inside)
    if isinstance(plan, str):
        return plan
    if plan.guards:
        return "a step has two ways to go"
    if plan.streamed:
        return "a step's results go past the caches"
    return plan


def _within_a_region(device: CpuDevice):
    """Return a profile in which the threads are there: sharing out work costs a barrier."""
    return replace(device.profile, region_ns=device.profile.barrier_ns)
