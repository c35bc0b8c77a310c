"""What a target implements, for passes and tools that name none, and which targets there are.

backend(target).plan(kernel, backend(target).default_decisions(kernel, device), device)
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from tvm import tirx
from tvm.target import Target

from .device import Device, Measured
from .kernel_ir.expr import Tensor
from .kernel_ir.stage import Kernel, Stage
from .recurrence import LoopKernel, Recurrence
from .sorting import Sort


class Plan(Protocol):
    """How a kernel runs; a page as text. What else it is, its backend knows."""

    @property
    def kernel(self) -> Kernel:
        """The kernel as it was read."""


@dataclass(frozen=True)
class Judged:
    """A group of ops as one kernel: why it can't be one, or None, its plan and its time in ns.

    Without a plan the time is infinite.
    """

    refusal: str | None
    plan: Plan | None
    ns: float


@dataclass(frozen=True)
class Undone:
    """What a plan leaves: products without a register tile, a lone thread, loops without lanes."""

    untiled: bool
    serial: bool
    scalar: bool


class WeightLayout(Protocol):
    """How products and convolutions read a weight: in panels of some columns."""

    def widest(self, columns: int, dtype: str, device: Device) -> int:
        """Return the columns of the widest panel that so many columns fill."""

    def lanes(self, columns: int, dtype: str, device: Device) -> int | None:
        """Return the columns of a panel, None if no whole ones are worth it."""

    def filled(self, columns: int, dtype: str, device: Device) -> int:
        """Return the columns, added ones too, of a panel that costs no more than one of so many."""

    def rows(self, device: Device) -> int:
        """Return the most rows that share the loads of a panel."""

    def depth_block(self, depth: int, rows: int, lanes: int, device: Device) -> int:
        """Return over how much of its depth a product goes at a time."""

    def wide(self, dtype: str, device: Device) -> int:
        """Return the columns of panels for rows that collide in the cache."""

    def rows_collide(self, rows: int, apart: int, columns: int, dtype: str, device: Device) -> bool:
        """Return whether rows `apart` elements are read better with fewer of them and wider."""


class Costs(Protocol):
    """Times in ns that are known without a plan, or between plans."""

    def read_ns(self, nbytes: int, device: Device) -> float:
        """Return what a byte takes each thread, in the level of memory that holds so many."""

    def arithmetic_ns(self, stages: Iterable[Stage], device: Device) -> float:
        """Return what stages compute, on one thread."""

    def kernel_ns(self, work: float, traffic: float, device: Device) -> float:
        """Return the time of a kernel of that much arithmetic and traffic, and its call."""

    def unplanned_ns(self, stages: Iterable[Stage], device: Device) -> float:
        """Return the time of a kernel that the template declines, and its call."""

    def slower(self, plan: Plan, device: Device) -> str | None:
        """Return why large products would run slower in a plan than by themselves, or None."""

    def is_row_chain(self, plan: Plan) -> bool:
        """Return whether products of a plan follow each other along the rows of its tiles."""

    def fresh_ns(self, plan: Plan, between: int, device: Device) -> float:
        """Return what a plan's weights take, read from where `between` bytes fit."""

    def handover_ns(
        self, maker: Plan, out: Tensor, reader: Plan, into: Tensor, device: Device
    ) -> float:
        """Return what it takes to read in one plan what other threads have made in another."""


class Backend(Protocol):
    """The template of a target: what it reads, decides, plans, emits, and what that costs."""

    kind: str  # of TVM's target
    most_stages: int  # of one kernel
    costs: Costs
    weights: WeightLayout | None  # None: weights are read as they come

    def device(
        self, target: Target, threads: int | None = None, profile: Measured | None = None
    ) -> Device | None:
        """Describe the machine of a target, None if it is not known."""

    def read(self, func: tirx.PrimFunc) -> Kernel | str:
        """Return what a PrimFunc computes as stages, or why it is not read."""

    def default_decisions(self, kernel: Kernel, device: Device) -> Any:
        """Return what the cost model decides, or a str that says why it declines."""

    def decision_space(self, kernel: Kernel, device: Device) -> Any:
        """Return what could be decided, or a str that says why it declines."""

    def plan(self, kernel: Kernel, decisions: Any, device: Device) -> Plan | str:
        """Return the plan that decisions make of a kernel, or why it can't be run so."""

    def emit(
        self,
        plan: Plan,
        func: tirx.PrimFunc,
        over: Mapping[Tensor, Tensor] = MappingProxyType({}),
    ) -> tirx.PrimFunc:
        """Return the scheduled PrimFunc of a plan for `func`, results `over` operands."""

    def fallback(self, func: tirx.PrimFunc, device: Device) -> tirx.PrimFunc:
        """Return what the template declines, inside its buffers, its loops shared out."""

    def recurrent(
        self, step: tirx.PrimFunc, recurrence: Recurrence, device: Device
    ) -> LoopKernel | str:
        """Return the scheduled kernel that runs all steps of a loop, or why there is none."""

    def sort(self, sort: Sort, device: Device) -> tirx.PrimFunc | str:
        """Return the scheduled kernel of a sort, of its operand and results, or why it has none."""

    def launches(self, scheduled: tirx.PrimFunc) -> int:
        """Return how many kernels of the device a scheduled PrimFunc is."""

    def refuse(self, kernel: Kernel, device: Device) -> str | None:
        """Return why a kernel is no single stitched kernel, or None."""

    def judge(self, kernel: Kernel, device: Device) -> Judged:
        """Return the same, its plan, and what it takes."""

    def undone(self, plan: Plan, device: Device) -> Undone:
        """Return what a plan leaves undone."""

    def refuse_overwrite(self, plan: Plan, operand: Tensor, result: Tensor) -> str | None:
        """Return why a kernel may not write `result` to the memory of `operand`, or None."""


_HOMES = {"llvm": "tir_schedules.cpu.backend", "cuda": "tir_schedules.cuda.backend"}
_KNOWN: dict[str, Backend] = {}


def backend(of: Target | Device) -> Backend | None:
    """Return the backend of a target or device, None if there is none for its kind."""
    kind = of.kind.name if isinstance(of, Target) else of.kind
    if kind not in _KNOWN and kind in _HOMES:
        _KNOWN[kind] = importlib.import_module(_HOMES[kind]).BACKEND
    return _KNOWN.get(kind)


@contextlib.contextmanager
def registered(kind: str, instead: Backend) -> Iterator[None]:
    """Let a kind of targets have another backend for a while."""
    before = _KNOWN.get(kind)
    _KNOWN[kind] = instead
    try:
        yield
    finally:
        _KNOWN.pop(kind)
        if before is not None:
            _KNOWN[kind] = before


def device_of(
    target: Target, threads: int | None = None, profile: Measured | None = None
) -> Device | None:
    """Describe the machine of a target, None if it is not known or there is no backend for it."""
    found = backend(target)
    return None if found is None else found.device(target, threads, profile)


def current_device() -> Device | None:
    """Return the device of the target at hand, None if no backend has it: a pass leaves it be."""
    return device_of(Target.current(allow_none=False))
