"""Schedule every PrimFunc of a module with our templates, and close it to further fusion."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import tvm
from tvm import tirx
from tvm.ir import IRModule
from tvm.ir.transform import PassContext
from tvm.target import Target

from .backend import Backend, Plan, backend, current_device
from .decision_source import Decided, DecisionSource, current
from .default_plan import plan_prim_func
from .device import Device
from .fuel import is_out, spend
from .kernel_ir.stage import Kernel

if TYPE_CHECKING:
    from tvm.s_tir.meta_schedule.database import Database

logger = logging.getLogger("tvm_stitch.schedule")
OPAQUE_PATTERN = 8


@tvm.transform.module_pass(opt_level=0, name="ApplyStitchSchedules")
class ApplyStitchSchedules:
    """Replace PrimFuncs by scheduled ones; `declined` says why for those left to TVM.

    Those are kept inside their buffers, as the template keeps its own. A module for a target that
    has no backend passes through.

    `plans` has the plans of the others, by their names, made by the `backend` of the device.

    `database` is a MetaSchedule database that traces of our design space were written to, or what
    else knows decisions; it defaults to the one that `with` has entered. `decided` says how each
    kernel was decided if there is one.

    `fallbacks` are compute-intensive kernels without a register tile, `serial` those above
    the parallel threshold that run on one thread, `scalar` those with a contiguous axis of 16 or
    more outside vector lanes. `launches` are how many kernels of the device each kernel is.

    All functions leave marked `tirx.is_scheduled` with op_pattern 8 (opaque): tvm.compile would
    otherwise run FuseOps and FuseTIR again and merge scheduled kernels.
    """

    def __init__(
        self, device: Device | None = None, database: Database | DecisionSource | None = None
    ) -> None:
        self._device, self._database = device, database
        self.backend: Backend | None = None
        self.plans: dict[str, Plan] = {}
        self.declined: dict[str, str] = {}
        self.decided: dict[str, Decided | None] = {}
        self.launches: dict[str, int] = {}
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
        source = _source(self._database)
        for gvar, func in mod.functions_items():
            if not isinstance(func, tirx.PrimFunc) or "tirx.is_scheduled" in func.attrs:
                continue
            name = gvar.name_hint
            plan = "no fuel is left" if is_out() else self._plan(name, func, device, source)
            if isinstance(plan, str):
                logger.debug("%s: %s", name, plan)
                self.declined[name] = plan
                found = None if source is None or is_out() else source.scheduled(func, device)
                if found is not None:
                    self.decided[name] = found
                scheduled = by.fallback(func if found is None else found.decisions, device)
            else:
                spend("schedule", name)
                self.plans[name] = plan
                scheduled = by.emit(plan, func)
                self._note(name, plan, device)
            self.launches[name] = by.launches(scheduled)
            out[gvar] = scheduled.with_attrs(
                {"tirx.is_scheduled": True, "op_pattern": OPAQUE_PATTERN}
            )
        return out

    def _plan(
        self, name: str, func: tirx.PrimFunc, device: Device, source: DecisionSource | None
    ) -> Plan | str:
        if source is None:
            return plan_prim_func(func, device)

        def decided(kernel: Kernel) -> Any:
            found = self.decided[name] = source.decide(func, kernel, device)
            return None if found is None else found.decisions

        return plan_prim_func(func, device, decided)

    def _note(self, name: str, plan: Plan, device: Device) -> None:
        undone = backend(device).undone(plan, device)
        found = (undone.untiled, undone.serial, undone.scalar)
        for names, is_so in zip((self.fallbacks, self.serial, self.scalar), found, strict=True):
            if is_so:
                names.add(name)


def _source(given: Database | DecisionSource | None) -> DecisionSource | None:
    """Return what decides by a database, or by what the caller has entered by `with`."""
    if given is None:
        given = current() or _entered()
    if given is None or hasattr(given, "decide"):
        return given
    from .tuning.metaschedule_source import MetaScheduleSource

    return MetaScheduleSource(given, Target.current(allow_none=False))


def _entered() -> Database | None:
    """Return MetaSchedule's current database: there is none where nobody has imported that."""
    loaded = sys.modules.get("tvm.s_tir.meta_schedule")
    return None if loaded is None else loaded.database.Database.current()
