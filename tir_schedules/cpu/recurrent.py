"""A loop over steps as one kernel: a step is decided for barriers in the place of regions."""

from __future__ import annotations

from dataclasses import replace

from tvm import tirx

from ..device import CpuDevice
from ..device.profile import Profile
from ..kernel_ir.expr import Tensor
from ..kernel_ir.parse import read
from ..kernel_ir.stage import Kernel
from ..recurrence import LoopKernel, LoopPlan, Recurrence
from . import template
from .cost.core_transfer import exchanged_ns
from .cost.streaming_latency import estimate_any
from .decide.planner import plan_reading
from .decide.rows_apart import keeps_rows, rows_apart
from .decide.settle import settled
from .emit.steps import over_steps
from .facts.reading import reading_of
from .plan.forms import TOGETHER, USUAL, Form
from .plan.kernel_plan import Plan
from .plan.record import decisions_of

# The gates' products of a step have tiles in common: in one phase no gate goes through a barrier.
# Of equal estimates the first wins: vector loops load a gate's weights for each row, which the
# evaluator does not see and register tiles do once for all.
_FORMS = (Form(cut=TOGETHER, products_meet=False), USUAL)


def recurrent(step: tirx.PrimFunc, recurrence: Recurrence, device: CpuDevice) -> LoopKernel | str:
    """Return the kernel that runs all steps, or why it can't be one."""
    kernel = read(step)
    if isinstance(kernel, str):
        return kernel
    inside = replace(device, profile=_within_a_region(device.profile))
    states = [kernel.params[at] for at in _states(recurrence)]
    plan = _planned(kernel, states, _cold(kernel, recurrence, device), inside)
    if isinstance(plan, str):
        return plan
    waits = not (plan.parallel and keeps_rows(plan, states))
    func = over_steps(template.emit_plan(plan, step), recurrence, waits)
    return LoopKernel(func, LoopPlan(recurrence.steps, plan, waits and plan.parallel))


def _cold(kernel: Kernel, recurrence: Recurrence, device: CpuDevice) -> list[Tensor]:
    """Return the inputs of which each step has a part, and which are larger than L2."""
    parts = [kernel.params[at] for at, _ in recurrence.of_kind("each")]
    return [t for t in parts if t.bytes * recurrence.steps > device.l2_bytes]


def _states(recurrence: Recurrence) -> list[int]:
    return [at for kind in ("carry", "next") for at, _ in recurrence.of_kind(kind)]


def _planned(
    kernel: Kernel, states: list[Tensor], cold: list[Tensor], device: CpuDevice
) -> Plan | str:
    """Return the plan of a step that is predicted to be the fastest."""
    reading = reading_of(kernel)
    drafted = [plan_reading(reading, device, form) for form in _FORMS]
    refused = [plan for plan in drafted if isinstance(plan, str)]
    plans = [plan for plan in drafted if not isinstance(plan, str)]
    usual = [plan for plan in plans if not plan.guards and not plan.streamed]
    if not usual:
        return refused[0] if refused else "a step has two ways to go, or streamed results"
    own = rows_apart(reading.space, states, device) if device.threads > 1 else None
    usual += [] if own is None else [own]
    best = min(usual, key=lambda plan: _step_ns(plan, states, device))
    return template.plan(kernel, decisions_of(settled(best, device, cold)), device)


def _step_ns(plan: Plan, states: list[Tensor], device: CpuDevice) -> float:
    """Return what a step takes: with what threads hand to each other, or without the barrier.

    All inputs pass through the caches until the next step reads one again, whatever its phases.
    """
    told = estimate_any(plan, device, sum(tensor.bytes for tensor in plan.space.kernel.inputs))
    if keeps_rows(plan, states):
        return told.total - told.regions
    if not plan.parallel:
        return told.total
    return told.total + exchanged_ns(_gathered_bytes(plan, states), device)


def _gathered_bytes(plan: Plan, states: list[Tensor]) -> int:
    """Return the bytes of the states of which a step reads other elements than it makes."""
    gathered = {
        access.tensor
        for node in plan.space.nodes
        for access in node.reads.values()
        if access.tensor in states and any(access.stride(atom) for atom in node.reduced)
    }
    return sum(tensor.bytes for tensor in gathered)


def _within_a_region(profile: Profile) -> Profile:
    """Return a profile in which the threads are there: sharing out work costs a barrier."""
    return replace(profile, region_ns=profile.barrier_ns)
