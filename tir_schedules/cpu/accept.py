"""The CPU acceptance test: would the stitch template run this group as one stitched kernel?"""

from __future__ import annotations

from ..analysis.stage import Kernel
from ..device import Device
from .inspect import short_depths, streaming_weights, untiled_products
from .plan import Plan
from .planner import plan_kernel, tile_limit

MAX_STAGES = 96


def accept(kernel: Kernel, device: Device) -> str | None:
    """Return why the template would not stitch `kernel` into one kernel, or None if it would."""
    return accepted_plan(kernel, device)[0]


def accepted_plan(kernel: Kernel, device: Device) -> tuple[str | None, Plan | None]:
    """Return `accept`'s answer and the plan it is about, None where there is no plan."""
    if len(kernel.stages) > MAX_STAGES:
        return f"{len(kernel.stages)} stages in one kernel, the limit is {MAX_STAGES}", None
    plan = plan_kernel(kernel, device)
    if isinstance(plan, str):
        return plan, None
    return refuse_plan(plan, device), plan


def refuse_plan(plan: Plan, device: Device) -> str | None:
    """Return why a plan is not a stitched kernel: buffers beyond the cache or across barriers."""
    limit = tile_limit(device)
    if plan.tile_bytes > limit:
        return f"a tile needs {plan.tile_bytes} bytes of buffers, half of L2 is {limit}"
    crossing = sum(t.bytes for t in plan.workspace)
    if crossing > device.profile.thresholds.crossing_bytes:
        names = ", ".join(t.name for t in plan.workspace)
        return f"no common tile: {names} ({crossing} bytes) would cross a barrier"
    return None


def refuse_products(plan: Plan) -> str | None:
    """Return why large products would run slower in this plan than by themselves, or None."""
    for name in untiled_products(plan):
        return f"{name} would have no register tile"
    for name, extent in short_depths(plan):
        return f"{name} would sum its depth in runs of {extent}"
    for name in streaming_weights(plan):
        return f"the weights of {name} would stream past each tile"
    return "products would meet at a barrier" if len(plan.phases) > 1 else None
