"""The CPU acceptance test: would the stitch template run this group as one stitched kernel?"""

from __future__ import annotations

from ...device import CpuDevice
from ...kernel_ir.expr import Tensor
from ...kernel_ir.stage import Kernel
from ..cost.limits import tile_limit
from ..decide.planner import plan_kernel
from ..facts.shapes import SHAPES
from ..plan.kernel_plan import Phase, Plan
from .inspect import (
    guarded_windows,
    short_depths,
    streaming_weights,
    strided_depths,
    untiled_products,
    windows_of_products,
)


def accept(kernel: Kernel, device: CpuDevice) -> str | None:
    """Return why the template would not stitch `kernel` into one kernel, or None if it would."""
    return accepted_plan(kernel, device)[0]


def accepted_plan(kernel: Kernel, device: CpuDevice) -> tuple[str | None, Plan | None]:
    """Return `accept`'s answer and the plan it is about, None where there is no plan."""
    if len(kernel.stages) > SHAPES.stages:
        return f"{len(kernel.stages)} stages in one kernel, the limit is {SHAPES.stages}", None
    plan = plan_kernel(kernel, device)
    if isinstance(plan, str):
        return plan, None
    return refuse_plan(plan, device), plan


def refuse_plan(plan: Plan, device: CpuDevice) -> str | None:
    """Return why a plan is not a stitched kernel: buffers beyond the cache or across barriers.

    What products make and read may be as large as L2: kernels of their own would leave it there.
    """
    limit = tile_limit(device)
    if plan.tile_bytes > limit:
        return f"a tile needs {plan.tile_bytes} bytes of buffers, half of L2 is {limit}"
    around = [p for p in plan.phases if _has_product(p)]
    beside = {n.stage.out for p in around for n in p.nodes}
    beside.update(t for p in around for t in _read(p))
    products = [t for t in plan.workspace if t in beside]
    others = [t for t in plan.workspace if t not in beside]
    limits = (device.l2_bytes, device.profile.thresholds.crossing_bytes)
    for tensors, most in zip((products, others), limits, strict=True):
        crossing = sum(t.bytes for t in tensors)
        if crossing > most:
            names = ", ".join(t.name for t in tensors)
            return f"no common tile: {names} ({crossing} bytes) would cross a barrier"
    return None


def slower(plan: Plan, device: CpuDevice) -> str | None:
    """Return why large products would run slower in this plan than by themselves, or None."""
    for name in untiled_products(plan):
        return f"{name} would have no register tile"
    for name, extent in short_depths(plan):
        return f"{name} would sum its depth in runs of {extent}"
    for name in strided_depths(plan):
        return f"{name} would read a line of its operand for each step"
    for name in guarded_windows(plan):
        return f"the padding of {name} would be asked for at each point"
    for name in windows_of_products(plan):
        return f"each tap of {name} would compute again what follows the product"
    for name in streaming_weights(plan, device):
        return f"the weights of {name} would stream past each tile"
    crossing, before = set(plan.crossing), False
    for phase in plan.phases:
        waits = before and any(t in crossing for t in _read(phase))
        if phase.partial or (waits and _has_product(phase)):
            return "products would meet at a barrier"
        before = before or _has_product(phase)
    return None


def _read(phase: Phase) -> list[Tensor]:
    return [a.tensor for n in phase.nodes for a in n.reads.values()]


def _has_product(phase: Phase) -> bool:
    return any(group.is_product for group in phase.groups)
