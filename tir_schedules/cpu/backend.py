"""The CPU's backend: the stitch template as `tir_schedules.backend` asks for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tvm import tirx
from tvm.target import Target

from ..backend import Judged, Undone
from ..decision_space import DecisionSpace
from ..device import CpuDevice
from ..device.profile import Profile
from ..fallback.alignment import drop_alignment
from ..fallback.bounded import bounded
from ..fallback.shared_out import shared_out
from ..kernel_ir.expr import Tensor
from ..kernel_ir.parse import read
from ..kernel_ir.stage import Kernel, Stage
from ..recurrence import LoopKernel, Recurrence
from ..sorting import Sort
from . import template
from .accept.acceptance import accept, accepted_plan, slower
from .accept.inspect import scalar_loops, untiled_products
from .cost.core_transfer import fresh_ns, handover_ns
from .cost.latency import arithmetic_ns, overlapped_ns
from .cost.levels import level_of, read_ns_per_byte
from .cost.streaming_latency import estimate_any
from .decide.planner import runs_serial
from .decide.products.product_tiles import depth_block
from .decide.products.row_blocks import registers_across, wide_lanes
from .facts.memory.overwrite import refuse_overwrite
from .facts.products.register_file import LANE_REGISTERS, most_rows
from .facts.products.register_tile import filled_lanes, lanes_of, panel_lanes
from .facts.products.row_chains import row_chain
from .facts.shapes import SHAPES
from .plan.decisions import Decisions
from .plan.kernel_plan import Plan
from .recurrent import recurrent
from .sorting.kernel import sort_kernel


class CpuWeights:
    """Panels as the register tile of a product reads them."""

    def widest(self, columns: int, dtype: str, device: CpuDevice) -> int:
        return lanes_of(device, columns, dtype)

    def lanes(self, columns: int, dtype: str, device: CpuDevice) -> int | None:
        return panel_lanes(columns, dtype, device)

    def filled(self, columns: int, dtype: str, device: CpuDevice) -> int:
        return filled_lanes(columns, dtype, device)

    def rows(self, device: CpuDevice) -> int:
        return most_rows(device)

    def depth_block(self, depth: int, rows: int, lanes: int, device: CpuDevice) -> int:
        return depth_block(depth, rows, lanes, device)

    def wide(self, dtype: str, device: CpuDevice) -> int:
        return wide_lanes(dtype, device)

    def rows_collide(
        self, rows: int, apart: int, columns: int, dtype: str, device: CpuDevice
    ) -> bool:
        return registers_across(rows, apart, columns, dtype, device) > LANE_REGISTERS


class CpuCosts:
    """The cost model of CPU plans, asked without a plan or between plans."""

    arithmetic_ns = staticmethod(arithmetic_ns)
    slower = staticmethod(slower)
    fresh_ns = staticmethod(fresh_ns)
    handover_ns = staticmethod(handover_ns)

    def read_ns(self, nbytes: int, device: CpuDevice) -> float:
        return read_ns_per_byte(level_of(nbytes, device), device.threads, device.profile)

    def kernel_ns(self, work: float, traffic: float, device: CpuDevice) -> float:
        alone, region = overlapped_ns(work, traffic), device.profile.region(device.threads)
        spread = alone / device.threads + region
        return device.profile.call_ns + (spread if region and spread < alone else alone)

    def unplanned_ns(self, stages: Iterable[Stage], device: CpuDevice) -> float:
        return device.profile.call_ns + arithmetic_ns(stages, device) / device.threads

    def is_row_chain(self, plan: Plan) -> bool:
        return any(row_chain(p.nodes, p.numbering(), p.chunks) for p in plan.phases)


class CpuBackend:
    """The stitch template of CPUs, and what surrounds it."""

    kind = "llvm"
    most_stages = SHAPES.stages
    costs = CpuCosts()
    weights = CpuWeights()

    def device(
        self, target: Target, threads: int | None = None, profile: Profile | None = None
    ) -> CpuDevice:
        return CpuDevice.detect(target, threads, profile)

    def read(self, func: tirx.PrimFunc) -> Kernel | str:
        return read(func)

    def default_decisions(self, kernel: Kernel, device: CpuDevice) -> Decisions | str:
        return template.default_decisions(kernel, device)

    def decision_space(self, kernel: Kernel, device: CpuDevice) -> DecisionSpace | str:
        return template.decision_space(kernel, device)

    def plan(self, kernel: Kernel, decisions: Decisions, device: CpuDevice) -> Plan | str:
        return template.plan(kernel, decisions, device)

    def emit(
        self,
        plan: Plan,
        func: tirx.PrimFunc,
        over: Mapping[Tensor, Tensor] = MappingProxyType({}),
    ) -> tirx.PrimFunc:
        return template.emit_plan(plan, func, over)

    def fallback(self, func: tirx.PrimFunc, device: CpuDevice) -> tirx.PrimFunc:
        return shared_out(drop_alignment(bounded(func)), _least_points(device))

    def recurrent(
        self, step: tirx.PrimFunc, recurrence: Recurrence, device: CpuDevice
    ) -> LoopKernel | str:
        return recurrent(step, recurrence, device)

    def sort(self, sort: Sort, device: CpuDevice) -> tirx.PrimFunc | str:
        return sort_kernel(sort, device)

    def launches(self, scheduled: tirx.PrimFunc) -> int:
        return 1

    def refuse(self, kernel: Kernel, device: CpuDevice) -> str | None:
        return accept(kernel, device)

    def judge(self, kernel: Kernel, device: CpuDevice) -> Judged:
        refusal, plan = accepted_plan(kernel, device)
        return Judged(refusal, plan, math.inf if plan is None else estimate_any(plan, device).total)

    def undone(self, plan: Plan, device: CpuDevice) -> Undone:
        return Undone(
            untiled=bool(untiled_products(plan)),
            serial=device.threads > 1 and runs_serial(plan, device),
            scalar=bool(scalar_loops(plan)),
        )

    def refuse_overwrite(self, plan: Plan, operand: Tensor, result: Tensor) -> str | None:
        return refuse_overwrite(plan, operand, result)


def _least_points(device: CpuDevice) -> float:
    """Return how many points of unplanned loops are worth a region."""
    if device.threads == 1:
        return math.inf
    saved = SHAPES.point_ns * (1.0 - 1.0 / device.threads)
    return device.profile.region(device.threads) / saved


BACKEND = CpuBackend()
