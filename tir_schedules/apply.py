"""Schedule every PrimFunc of a module with our templates, and close it to further fusion."""

from __future__ import annotations

import logging

import tvm
from tvm import tirx
from tvm.ir import IRModule
from tvm.ir.transform import PassContext

from .backend import Backend, Plan, backend, current_device
from .default_plan import plan_prim_func
from .device import Device
from .fuel import is_out, spend

logger = logging.getLogger("tvm_stitch.schedule")
OPAQUE_PATTERN = 8


@tvm.transform.module_pass(opt_level=0, name="ApplyStitchSchedules")
class ApplyStitchSchedules:
    """Replace PrimFuncs by scheduled ones; `declined` says why for those left to TVM.

    Those are kept inside their buffers, as the template keeps its own. A module for a target that
    has no backend passes through.

    `plans` has the plans of the others, by their names, made by the `backend` of the device.

    `fallbacks` are compute-intensive kernels without a register tile, `serial` those above
    the parallel threshold that run on one thread, `scalar` those with a contiguous axis of 16 or
    more outside vector lanes.

    All functions leave marked `tirx.is_scheduled` with op_pattern 8 (opaque): tvm.compile would
    otherwise run FuseOps and FuseTIR again and merge scheduled kernels.
    """

    def __init__(self, device: Device | None = None) -> None:
        self._device = device
        self.backend: Backend | None = None
        self.plans: dict[str, Plan] = {}
        self.declined: dict[str, str] = {}
        self.fallbacks: set[str] = set()
        self.serial: set[str] = set()
        self.scalar: set[str] = set()

    def transform_module(self, mod: IRModule, _ctx: PassContext) -> IRModule:
        device = self._device or current_device()
        if device is None:
            logger.debug("the target has no backend: its kernels are left as they are")
            return mod
        out = IRModule(mod.functions, attrs=mod.attrs)
        self.backend = by = backend(device)
        for gvar, func in mod.functions_items():
            if not isinstance(func, tirx.PrimFunc) or "tirx.is_scheduled" in func.attrs:
                continue
            name = gvar.name_hint
            plan = "no fuel is left" if is_out() else plan_prim_func(func, device)
            if isinstance(plan, str):
                logger.debug("%s: %s", name, plan)
                self.declined[name] = plan
                scheduled = by.fallback(func)
            else:
                spend("schedule", name)
                self.plans[name] = plan
                scheduled = by.emit(plan, func)
                self._note(name, plan, device)
            out[gvar] = scheduled.with_attrs(
                {"tirx.is_scheduled": True, "op_pattern": OPAQUE_PATTERN}
            )
        return out

    def _note(self, name: str, plan: Plan, device: Device) -> None:
        undone = backend(device).undone(plan, device)
        found = (undone.untiled, undone.serial, undone.scalar)
        for names, is_so in zip((self.fallbacks, self.serial, self.scalar), found, strict=True):
            if is_so:
                names.add(name)
