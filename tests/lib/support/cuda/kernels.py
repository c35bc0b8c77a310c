"""The kernels that a model is fused to, before any template has scheduled them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import onnx
from tvm import tirx

from relay_passes.policy import FusionPolicy, Policy
from support.kernels import stitch_case as sc
from tir_schedules.backend import registered
from tir_schedules.cpu.backend import CpuBackend
from tir_schedules.cpu.plan.kernel_plan import Plan
from tir_schedules.kernel_ir.expr import Tensor


class Recording(CpuBackend):
    """The CPU's backend, which keeps what it is asked to emit."""

    def __init__(self) -> None:
        self.funcs: list[tirx.PrimFunc] = []

    def emit(
        self,
        plan: Plan,
        func: tirx.PrimFunc,
        over: Mapping[Tensor, Tensor] = MappingProxyType({}),
    ) -> tirx.PrimFunc:
        self.funcs.append(func)
        return super().emit(plan, func, over)


def fused(model: onnx.ModelProto) -> list[tirx.PrimFunc]:
    """Return the PrimFuncs of a model's kernels, fused as far as it can be."""
    recording = Recording()
    with registered("llvm", recording):
        sc.lowered(model, policy=Policy(FusionPolicy(doubt=math.inf)))
    return recording.funcs
