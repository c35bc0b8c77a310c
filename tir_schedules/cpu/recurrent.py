"""A loop over steps as one kernel: a step is decided for barriers in the place of regions."""

from __future__ import annotations

from dataclasses import replace

from tvm import tirx

from ..device import CpuDevice
from ..kernel_ir.parse import read
from ..recurrence import Recurrence
from . import template
from .cost.streaming_latency import estimate_any
from .decide.planner import plan_reading
from .decide.settle import settled
from .emit.steps import over_steps
from .facts.reading import reading_of
from .plan.forms import TOGETHER, USUAL, Form
from .plan.kernel_plan import Plan
from .plan.record import decisions_of

# The gates' products of a step have tiles in common: in one phase no gate goes through a barrier.
_FORMS = (USUAL, Form(cut=TOGETHER, products_meet=False))


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
    reading = reading_of(kernel)
    drafted = [plan_reading(reading, inside, form) for form in _FORMS]
    plans = [plan for plan in drafted if not isinstance(plan, str)]
    if not plans:
        return str(drafted[0])
    usual = [plan for plan in plans if not plan.guards and not plan.streamed]
    if not usual:
        return "a step has two ways to go, or results that go past the caches"
    best = min(usual, key=lambda plan: estimate_any(plan, inside).total)
    return template.plan(kernel, decisions_of(settled(best, inside)), inside)


def _within_a_region(device: CpuDevice):
    """Return a profile in which the threads are there: sharing out work costs a barrier."""
    return replace(device.profile, region_ns=device.profile.barrier_ns)
