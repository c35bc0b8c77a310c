"""The stitch template of GPUs: a kernel is decided upon, planned and emitted, or it declines."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tvm import tirx

from ..decision_space import DecisionSpace
from ..device.cuda import CudaDevice
from ..kernel_ir.expr import Tensor
from ..kernel_ir.stage import Kernel
from .decide.decision_space import decision_space as space_of
from .decide.planner import default_decisions as decided
from .decide.planner import refuse as refused
from .emit.kernel import emit_prim_func
from .facts.reading import reading_of
from .facts.structure import structure_of
from .legal.build import build_plan
from .plan.decisions import Decisions
from .plan.kernel_plan import Plan


def default_decisions(kernel: Kernel, device: CudaDevice) -> Decisions | str:
    """Return what the cost model decides for a kernel on a GPU, or why it declines.

    Decisions are numbers: kernels that differ in names alone have the same.
    """
    return _decided(_Asked(structure_of(kernel), kernel), device)


@dataclass(frozen=True)
class _Asked:
    """A kernel, equal to others of its structure."""

    structure: tuple
    kernel: Kernel = field(compare=False)


@functools.lru_cache(maxsize=4096)
def _decided(asked: _Asked, device: CudaDevice) -> Decisions | str:
    return decided(reading_of(asked.kernel), device)


def refuse(kernel: Kernel, device: CudaDevice) -> str | None:
    """Return why `default_decisions` declines a kernel, or None if it does not."""
    return refused(reading_of(kernel), device)


def decision_space(kernel: Kernel, device: CudaDevice) -> DecisionSpace | str:
    """Return what could be decided for a kernel on a GPU, or why the template declines."""
    return space_of(reading_of(kernel), device)


def plan(kernel: Kernel, decisions: Decisions, device: CudaDevice) -> Plan | str:
    """Return the plan that decisions make of a kernel, or why it can't be run so."""
    return build_plan(reading_of(kernel), decisions, device)


def emit_plan(
    plan: Plan, func: tirx.PrimFunc, over: Mapping[Tensor, Tensor] = MappingProxyType({})
) -> tirx.PrimFunc:
    """Return the scheduled PrimFunc of a plan made for `func`.

    Results are written `over` operands; they are no parameters then.
    """
    kept = {k: v for k, v in func.attrs.items() if k in ("global_symbol", "op_pattern", "target")}
    return emit_prim_func(plan, kept, over)
