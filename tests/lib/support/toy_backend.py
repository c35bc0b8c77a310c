"""A backend of plain serial loops: kernels as TVM's own operators leave them, on one thread.

It takes the place of the CPU's in tests, which shows that passes know of no template but by the
protocol.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tvm import tirx
from tvm.target import Target

from tir_schedules.backend import Judged, Undone
from tir_schedules.device import CpuDevice
from tir_schedules.device.profile import Profile
from tir_schedules.fallback.alignment import drop_alignment
from tir_schedules.fallback.bounded import bounded
from tir_schedules.kernel_ir.expr import Tensor
from tir_schedules.kernel_ir.parse import read_prim_func
from tir_schedules.kernel_ir.stage import Kernel, Refusal, Stage
from tir_schedules.recurrence import LoopKernel, Recurrence
from tir_schedules.sorting import Sort

NS_A_BYTE, NS_A_POINT, NS_A_CALL = 0.1, 1.0, 1000.0


@dataclass(frozen=True)
class SerialDecisions:
    """Nothing is decided."""


@dataclass(frozen=True)
class SerialPlan:
    """Its stages one after the other."""

    kernel: Kernel

    def __str__(self) -> str:
        return "\n".join(f"serial loops of {stage.name}" for stage in self.kernel.stages)


class SerialCosts:
    def read_ns(self, nbytes: int, device: CpuDevice) -> float:
        return NS_A_BYTE

    def kernel_ns(self, work: float, traffic: float, device: CpuDevice) -> float:
        return NS_A_CALL + work + traffic

    def unplanned_ns(self, stages: Iterable[Stage], device: CpuDevice) -> float:
        return NS_A_CALL + self.arithmetic_ns(stages, device)

    def arithmetic_ns(self, stages: Iterable[Stage], device: CpuDevice) -> float:
        return sum(stage.domain * NS_A_POINT for stage in stages)

    def slower(self, plan: SerialPlan, device: CpuDevice) -> str | None:
        return None

    def is_row_chain(self, plan: SerialPlan) -> bool:
        return False

    def fresh_ns(self, plan: SerialPlan, between: int, device: CpuDevice) -> float:
        return 0.0

    def handover_ns(
        self, maker: SerialPlan, out: Tensor, reader: SerialPlan, into: Tensor, device: CpuDevice
    ) -> float:
        return 0.0


class SerialLoops:
    """Reads what the kernel IR reads, plans all of it, emits each PrimFunc as it came."""

    kind = "llvm"
    most_stages = 24
    costs = SerialCosts()
    weights = None

    def device(
        self, target: Target, threads: int | None = None, profile: Profile | None = None
    ) -> CpuDevice:
        return CpuDevice.detect(target, threads, profile)

    def read(self, func: tirx.PrimFunc) -> Kernel | str:
        kernel = read_prim_func(func)
        return str(kernel) if isinstance(kernel, Refusal) else kernel

    def default_decisions(self, kernel: Kernel, device: CpuDevice) -> SerialDecisions | str:
        return SerialDecisions()

    def decision_space(self, kernel: Kernel, device: CpuDevice) -> str:
        return "nothing is decided"

    def plan(
        self, kernel: Kernel, decisions: SerialDecisions, device: CpuDevice
    ) -> SerialPlan | str:
        return SerialPlan(kernel)

    def emit(
        self,
        plan: SerialPlan,
        func: tirx.PrimFunc,
        over: Mapping[int, Tensor] = MappingProxyType({}),
    ) -> tirx.PrimFunc:
        assert not over
        return drop_alignment(bounded(func))

    def fallback(self, func: tirx.PrimFunc, device: CpuDevice) -> tirx.PrimFunc:
        return drop_alignment(bounded(func))

    def recurrent(
        self, step: tirx.PrimFunc, recurrence: Recurrence, device: CpuDevice
    ) -> LoopKernel | str:
        return "toys write loops out"

    def sort(self, sort: Sort, device: CpuDevice) -> tirx.PrimFunc | str:
        return "toys leave sorts to TVM"

    def launches(self, scheduled: tirx.PrimFunc) -> int:
        return 1

    def refuse(self, kernel: Kernel, device: CpuDevice) -> str | None:
        large = len(kernel.stages) > self.most_stages
        return "too many stages for one kernel" if large else None

    def judge(self, kernel: Kernel, device: CpuDevice) -> Judged:
        refusal = self.refuse(kernel, device)
        if refusal is not None:
            return Judged(refusal, None, math.inf)
        moved = sum(tensor.bytes for tensor in kernel.params) * NS_A_BYTE
        spent = NS_A_CALL + moved + self.costs.arithmetic_ns(kernel.stages, device)
        return Judged(None, SerialPlan(kernel), spent)

    def undone(self, plan: SerialPlan, device: CpuDevice) -> Undone:
        return Undone(untiled=False, serial=True, scalar=True)

    def refuse_overwrite(self, plan: SerialPlan, operand: Tensor, result: Tensor) -> str | None:
        return "a stage may read what another has written"
