"""The GPU's backend: the stitch template as `tir_schedules.backend` asks for it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tvm import tirx
from tvm.target import Target

from ..backend import Judged, Undone
from ..decision_space import DecisionSpace
from ..device.cuda import CudaDevice
from ..device.gpu_profile import GpuProfile
from ..kernel_ir.expr import Tensor
from ..kernel_ir.parse import read
from ..kernel_ir.stage import Kernel, Stage
from ..recurrence import LoopKernel, Recurrence
from ..sorting import Sort
from . import template
from .cost.latency import estimate
from .cost.unplanned import arithmetic_ns, kernel_ns, read_ns
from .decide.policy import BLOCKS
from .fallback import launches_of, scheduled_by_tvm
from .plan.decisions import Decisions
from .plan.kernel_plan import Plan


class CudaCosts:
    """The cost model of GPU plans, asked without a plan or between plans."""

    read_ns = staticmethod(read_ns)
    arithmetic_ns = staticmethod(arithmetic_ns)
    kernel_ns = staticmethod(kernel_ns)

    def unplanned_ns(self, stages: Iterable[Stage], device: CudaDevice) -> float:
        return kernel_ns(arithmetic_ns(stages, device), 0.0, device)

    def slower(self, plan: Plan, device: CudaDevice) -> str | None:
        return None  # the estimate tells

    def is_row_chain(self, plan: Plan) -> bool:
        return False

    def fresh_ns(self, plan: Plan, between: int, device: CudaDevice) -> float:
        return 0.0

    def handover_ns(
        self, maker: Plan, out: Tensor, reader: Plan, into: Tensor, device: CudaDevice
    ) -> float:
        return 0.0  # multiprocessors share L2


class CudaBackend:
    """The stitch template of GPUs, and what surrounds it."""

    kind = "cuda"
    most_stages = BLOCKS.stages
    costs = CudaCosts()
    weights = None

    def device(
        self, target: Target, threads: int | None = None, profile: GpuProfile | None = None
    ) -> CudaDevice | None:
        device = CudaDevice.of(target)
        if device is None or profile is None:
            return device
        return dataclasses.replace(device, profile=profile.figures)

    def read(self, func: tirx.PrimFunc) -> Kernel | str:
        return read(func)

    def default_decisions(self, kernel: Kernel, device: CudaDevice) -> Decisions | str:
        return template.default_decisions(kernel, device)

    def decision_space(self, kernel: Kernel, device: CudaDevice) -> DecisionSpace | str:
        return template.decision_space(kernel, device)

    def plan(self, kernel: Kernel, decisions: Decisions, device: CudaDevice) -> Plan | str:
        return template.plan(kernel, decisions, device)

    def emit(
        self,
        plan: Plan,
        func: tirx.PrimFunc,
        over: Mapping[Tensor, Tensor] = MappingProxyType({}),
    ) -> tirx.PrimFunc:
        return template.emit_plan(plan, func, over)

    def fallback(self, func: tirx.PrimFunc, device: CudaDevice) -> tirx.PrimFunc:
        return scheduled_by_tvm(func)

    def recurrent(
        self, step: tirx.PrimFunc, recurrence: Recurrence, device: CudaDevice
    ) -> LoopKernel | str:
        return "blocks do not wait for each other within a launch"

    def sort(self, sort: Sort, device: CudaDevice) -> tirx.PrimFunc | str:
        return "TVM has sorts for GPUs"

    def launches(self, scheduled: tirx.PrimFunc) -> int:
        return launches_of(scheduled)

    def refuse(self, kernel: Kernel, device: CudaDevice) -> str | None:
        return self._too_large(kernel) or template.refuse(kernel, device)

    def judge(self, kernel: Kernel, device: CudaDevice) -> Judged:
        decided = self._too_large(kernel) or template.default_decisions(kernel, device)
        if isinstance(decided, str):
            return Judged(decided, None, math.inf)
        plan = template.plan(kernel, decided, device)
        assert isinstance(plan, Plan), plan
        return Judged(None, plan, estimate(plan, device))

    def _too_large(self, kernel: Kernel) -> str | None:
        if len(kernel.stages) <= self.most_stages:
            return None
        return f"{len(kernel.stages)} stages in one kernel, the limit is {self.most_stages}"

    def undone(self, plan: Plan, device: CudaDevice) -> Undone:
        return Undone(untiled=False, serial=False, scalar=False)

    def refuse_overwrite(self, plan: Plan, operand: Tensor, result: Tensor) -> str | None:
        return "blocks run in any order: another may still read the operand"


BACKEND = CudaBackend()
